package repair

import (
	"bytes"
	"time"

	"github.com/shaledb/shale"
	"github.com/shaledb/shale/internal/base"
	"github.com/shaledb/shale/internal/iter"
	"github.com/shaledb/shale/internal/spans"
)

// A merge goes through everything that is left of the store, in the order of keys. It
// finds the newest version of each key, and whether that is proven to be the newest.
// This is the way of an entry:
//
//  1. A child iterates over one run, over a chain of strays, or over commits of logs.
//     iter.Merging merges the children, so that the versions of a key come one after the
//     other, the newest first.
//  2. run keeps the first version of each key.
//  3. decide asks doubts whether a newer version may be lost. It drops deletions and what range
//     deletes cover, and leaves doubtful values unless they are wanted.
//  4. The remaining values go to put.
//
// A child that finds damage calls lost, which adds a gap before the first key in the gap
// can come. One goroutine uses a merge.
type merge struct {
	s        *survey
	doubtful bool // take values that are not proven

	children []base.Iterator
	origins  map[*base.KV]origin // by the address at which an iterator shows its entries
	proven   spans.Finder        // the range deletes of the manifest and of proven commits
	doubted  spans.Finder        // those of other commits, if they are wanted
	gaps     []*gap              // gaps that have been found and may contain the key or later ones
	left     []*Left             // what was left, or taken although doubtful

	// The newest version so far of the current key.
	key     []byte
	value   []byte
	trailer base.Trailer
	origin  origin
}

// A gap is a part of a table that is lost. The merge knows it before it reaches a key in
// it, because the table's iterator has then already moved past the damage.
type gap struct {
	keys    Keys
	maxSeq  base.Seq // highest sequence number that the lost part can have
	age     int      // age of the table's run: see origin
	finding int      // index in survey.findings
	left    *Left    // nil: nothing was left because of it
}

// may reports whether g may contain a newer version of the current key than the current
// one. The lost part of the same table can only have older versions of a key that came
// before it; so the range of g does not begin with that key.
func (m *merge) may(g *gap) bool {
	return g.keys.Contains(m.key) && m.origin.age >= g.age && m.trailer.Seq() <= g.maxSeq
}

// addLogs adds commits of logs. why says why none of them is proven; nil means that they
// are. Proven commits are newer than all tables: see judge.
func (m *merge) addLogs(e *entries, why *Left) {
	m.origins[&e.at] = origin{doubts: why}
	m.children = append(m.children, e)
	if why == nil {
		m.proven.Add(e.spans)
	} else {
		m.doubted.Add(e.spans)
	}
}

// run calls put with the put of each key that the new store gets, in ascending order.
func (m *merge) run(put func(op shale.Op) error) (err error) {
	it := iter.NewMerging(m.children...)
	defer func() {
		if cerr := it.Close(); err == nil {
			err = cerr
		}
	}()
	kv := it.First()
	for kv != nil {
		m.key = append(m.key[:0], kv.UserKey...)
		m.take(kv)
		// The versions that follow are older, or have the same sequence number.
		for kv = it.Next(); kv != nil && bytes.Equal(kv.UserKey, m.key); kv = it.Next() {
			if kv.Trailer == m.trailer && m.origins[kv].before(m.origin) {
				m.take(kv)
			}
		}
		if err := m.decide(put); err != nil {
			return err
		}
	}
	return it.Err()
}

// take makes kv the newest version of the current key. The key and the value are copied,
// because kv is only valid until the next call of Next.
func (m *merge) take(kv *base.KV) {
	m.value = append(m.value[:0], kv.Value...)
	m.trailer, m.origin = kv.Trailer, m.origins[kv]
}

// before decides between two entries of a key with the same sequence number and kind, and
// reports whether o has the newer one. Entries of logs with the same number are the same
// entry. A merge to the last level sets sequence numbers to 0; of two such entries, the one
// in the newer table is newer.
func (o origin) before(other origin) bool {
	if o.age == 0 || other.age == 0 {
		return o.age == 0 && (other.age > 0 || o.doubts == nil)
	}
	return o.num > other.num
}

// decide calls put with the current key, or drops or leaves it.
func (m *merge) decide(put func(op shale.Op) error) error {
	doubts := m.doubts()
	// The new store has no older versions, so it needs no deletions. doubts was called
	// before, because it also removes gaps.
	if m.trailer.Kind() == base.KindDelete || m.covered() {
		return nil
	}
	if doubts != nil {
		doubts.note(m.key)
		if !m.doubtful {
			return nil
		}
	}
	op := shale.Op{Kind: shale.OpPut, Key: m.key, Value: m.value}
	if m.trailer.Kind() == base.KindExpiring {
		ms, value := base.CutExpiry(m.value)
		op.Value, op.ExpiresAt = value, time.UnixMilli(ms) // also if that is over: the new store has a clock
	}
	return put(op)
}

// covered reports whether a range delete covers the current version. Number 0 does not say what the
// version is older than, but a store gives it only where no range delete is that may cover something:
//
//   - A run's version is older than the range deletes of the manifest. Proven commits cover it, too:
//     if it were newer than one of their range deletes, they would have it, with its number. Other
//     commits may have been followed by lost ones. So their range deletes cover it if they are newer
//     than all tables.
//   - Of a stray's version it is known only if there is no manifest: then the proven commits are the
//     last ones of the store. Otherwise the stray may be of a later state than all range deletes that
//     are left.
func (m *merge) covered() bool {
	seq, proven, doubted := m.trailer.Seq(), m.proven.Cover(m.key, base.MaxSeq), m.doubted.Cover(m.key, base.MaxSeq)
	switch {
	case seq > 0:
		return max(proven, doubted) > seq
	case m.s.state == nil || m.origin.doubts == nil:
		return proven > 0 || m.s.state != nil && doubted > m.s.state.LastSeq
	}
	return false
}

// doubts returns why the current version may not be the newest, or nil. It removes the gaps
// that end before the current key.
func (m *merge) doubts() *Left {
	if m.origin.doubts != nil {
		return m.origin.doubts
	}
	var why *Left
	ahead := m.gaps[:0]
	for _, g := range m.gaps {
		// Keys ascend, so the gap cannot matter any more.
		if g.keys.Upper != nil && bytes.Compare(g.keys.Upper, m.key) < 0 {
			continue
		}
		ahead = append(ahead, g)
		if why == nil && m.may(g) {
			if g.left == nil {
				f := &m.s.findings[g.finding]
				g.left = &Left{File: f.File, Why: "what is lost there may be newer", Keys: g.keys, LastSeq: uint64(g.maxSeq)}
				m.left = append(m.left, g.left)
			}
			why = g.left
		}
	}
	m.gaps = ahead
	return why
}
