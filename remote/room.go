package remote

// A room says what takes the local disk, in bytes. Tables get an eighth of Options.LocalBytes in any case, however much the
// copies take: writers would stand still without it. And an eighth is kept free of tables that can go, so that several tables
// fit before flushes and compactions wait, and one step brings all of them to the bucket.
type room struct {
	limit   int64 // Options.LocalBytes
	copies  int64 // tails, and the cache of pages
	tables  int64 // whose files are local
	lacking int64 // of these, those that no step has named
	more    int64 // that may be taken because the bucket is away
}

const (
	spareShare = 8       // of LocalBytes is for tables that come
	mostSpare  = 1 << 30 // and no more than that
)

// spare returns how much room is for tables that come.
func (r room) spare() int64 { return min(r.limit/spareShare, mostSpare) }

// most returns how much tables may take before flushes and compactions wait.
func (r room) most() int64 { return max(r.limit-r.copies, r.spare()) }

// left returns how much tables may grow before that.
func (r room) left() int64 { return r.most() + r.more - r.tables }

// excess returns how much has to go.
func (r room) excess() int64 { return r.tables - (r.most() - r.spare()) }

// isShort reports whether tables must be published that could go then: there is little room, or they are much of what is
// local, and take long to be uploaded.
func (r room) isShort() bool { return r.lacking > 0 && (r.excess() > 0 || r.lacking > r.limit/4) }

// fits reports whether the copies leave room for tables.
func (r room) fits() bool { return r.copies+r.spare() <= r.limit }
