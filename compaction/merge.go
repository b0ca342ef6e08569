package compaction

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"runtime"
	"sort"

	"github.com/shaledb/shale/internal/base"
	"github.com/shaledb/shale/internal/spans"
	"github.com/shaledb/shale/manifest"
)

// An Output is a table that Merge is writing.
type Output interface {
	// Add appends an entry. It must not keep the slices after it returns.
	Add(key base.InternalKey, value []byte) error
	// EstimatedSize returns the size in bytes, about,
	// that the table would have if it were finished now.
	EstimatedSize() int64
	// Finish completes the table. It is the last call, whether or not it returns an error.
	Finish() error
	// Abandon gives the table up. It is the last call.
	Abandon()
}

// MergeOptions say which entries Merge keeps, and where it cuts its output into tables.
type MergeOptions struct {
	// Snapshots are the sequence numbers of open snapshots, ascending. Readers without
	// a snapshot, and snapshots taken later, see every entry of the inputs.
	Snapshots []base.Seq
	// Now is the store's time, in milliseconds. Times are those of Snapshots: what has expired by
	// then is over for the snapshot and all later ones. With a Now of 0 nothing has expired.
	Now   int64
	Times []int64
	// Older says for which keys tombstones must stay: see
	// Plan.Older. The zero value keeps all tombstones.
	Older Older

	// Spans are range deletes. All of them must be durable at the latest with the edit that
	// adds the output. Those of the version that has the inputs must be among them.
	Spans []*spans.Set

	// TableSize is the size in bytes at which a
	// table ends. 0: all output goes into one table.
	TableSize int64
	// Grandparents are the tables that the output will be merged with later,
	// ascending. Output tables preferably end at their bounds, and before
	// they overlap more than overlapTables tables' worth of grandparents.
	Grandparents []*manifest.Table

	// Guards are ascending tables. Output tables end at their
	// bounds, unless they would be tiny: see Plan.Guards.
	Guards []*manifest.Table

	// Lower (inclusive) and Upper (exclusive) bound the user keys. Nil means no bound.
	Lower, Upper []byte

	// NewOutput begins a table.
	NewOutput func() (Output, error)
}

// A MergeResult counts the entries of a merge. in = out + shadowed + tombstones + covered + expired.
type MergeResult struct {
	in         uint64 // entries read
	out        uint64 // entries written
	shadowed   uint64 // dropped: every reader that would see the entry sees a newer version
	tombstones uint64 // dropped: there is no older entry left that the tombstone hides
	covered    uint64 // dropped: every reader that would see the entry sees a newer range delete of its key
	expired    uint64 // dropped: as a tombstone, a value that is over for all
	clock      int64  // see Clock

	// Clean is what manifest.Table.Clean says of the output.
	Clean base.Seq
}

// Clock returns the time by which entries were dropped, or became tombstones, because they had
// expired; 0: none did. The store's clock must never fall behind it.
func (r MergeResult) Clock() int64 { return r.clock }

// pauseEvery is how many entries are merged between two pauses: some tenths of a millisecond. In
// a pause Merge checks the context and lets other goroutines have the processor.
//
// A goroutine that does not yield keeps its processor for 10 ms. If flushes and compactions did
// not yield, a writer that wakes up on a machine with two processors would wait for several such
// turns: with a reader next to it, its longest Put in ten seconds was 40 ms, and is 23 ms now
// (medians; cd bench/peers && go run ./steady -t 3m).
const pauseEvery = 1024

// Merge reads src, which must give each entry of the plan's inputs once and
// in order, and writes the entries that a reader can still see into outputs:
//
//   - For each user key, only the newest of the versions
//     between two neighbouring snapshots stays.
//   - A tombstone that all snapshots see is dropped if no older data of its key lies below.
//   - A value that is over for all readers that see it becomes a tombstone, and is dropped as one.
//   - A value that all snapshots see gets sequence number 0 if no older data of
//     its key lies below. No reader can notice, and equal numbers compress well. Where a
//     range delete covers the key, the value keeps its number: else it would come below one
//     that is older than it.
//   - An entry below a range delete of its key is dropped, unless a snapshot sees it and
//     does not see the range delete.
//
// All versions of a user key go into one output. An error of src is returned,
// and never taken for the end of the entries. If Merge fails, the caller
// deletes the outputs that were finished before. Merge does not close src.
func Merge(ctx context.Context, src base.Iterator, o MergeOptions) (MergeResult, error) {
	m := merger{opts: o, older: o.Older.cursor(), cut: newCutter(o), unclean: base.MaxSeq}
	for _, s := range o.Spans {
		m.spans.Add(s)
		m.result.Clean = max(m.result.Clean, s.Last())
	}
	err := m.run(ctx, src)
	if err == nil {
		err = m.finish()
	} else if m.out != nil {
		m.out.Abandon()
	}
	r := m.result
	r.Clean = min(r.Clean, m.unclean-1)
	if err == nil && r.in != r.out+r.shadowed+r.tombstones+r.covered+r.expired {
		err = fmt.Errorf("%d entries in, but %d out, %d shadowed, %d tombstones, %d covered and %d expired dropped",
			r.in, r.out, r.shadowed, r.tombstones, r.covered, r.expired)
	}
	if err != nil {
		return r, fmt.Errorf("compaction: merge: %w", err)
	}
	return r, nil
}

// A merger is the state of one call of Merge.
//
// Snapshots divide the sequence numbers into stripes. Stripe 0 holds the numbers that all
// snapshots see, and stripe n those that n snapshots do not see. All readers that see one
// entry of a stripe see every entry of that stripe. The versions of a user key come
// newest first, so the first one in a stripe stays and the others are shadowed by it.
type merger struct {
	opts  MergeOptions
	older olderCursor
	cut   cutter
	spans spans.Finder

	unclean base.Seq // the least number of a range delete that covers an entry which stayed

	// About the last entry read.
	begun   bool
	key     []byte
	trailer base.Trailer

	// About the current user key.
	stripe   int  // stripe of the last version that was not shadowed; -1: none yet
	bottom   bool // no older data of the key lies below
	asked    bool // bottom has been computed
	unplaced bool // none of its versions has been written yet

	out    Output // the open table; nil: none
	result MergeResult
}

// errOrder is the error of a source that is out of
// order, which would make Merge drop the wrong entries.
var errOrder = errors.New("entries are out of order")

// run reads src to its end, or to the first key that is not below Upper.
func (m *merger) run(ctx context.Context, src base.Iterator) error {
	var kv *base.KV
	if len(m.opts.Lower) > 0 {
		kv = src.SeekGE(m.opts.Lower, base.MaxSeq)
	} else {
		kv = src.First()
	}
	for ; kv != nil; kv = src.Next() {
		if m.result.in%pauseEvery == 0 {
			if err := base.ContextError(ctx); err != nil {
				return err
			}
			runtime.Gosched()
		}
		past, err := m.begin(kv.InternalKey)
		if err != nil {
			return err
		}
		if past {
			break
		}
		m.result.in++
		if err := m.entry(kv); err != nil {
			return err
		}
	}
	return src.Err()
}

// begin checks that key comes after the previous entry, and resets the state
// if it is a new user key. past reports whether key is at or above Upper.
func (m *merger) begin(key base.InternalKey) (past bool, err error) {
	order := -1
	if m.begun {
		order = bytes.Compare(m.key, key.UserKey)
	}
	if order > 0 || order == 0 && m.trailer <= key.Trailer {
		return false, fmt.Errorf("%w: %s after %s", errOrder, key, base.InternalKey{UserKey: m.key, Trailer: m.trailer})
	}
	m.trailer = key.Trailer
	if order == 0 {
		return false, nil
	}
	if m.opts.Upper != nil && bytes.Compare(key.UserKey, m.opts.Upper) >= 0 {
		return true, nil
	}
	m.begun = true
	m.key = append(m.key[:0], key.UserKey...)
	m.stripe, m.asked, m.unplaced = -1, false, true
	return false, nil
}

// stripeOf returns how many snapshots do not see seq: its stripe.
func (m *merger) stripeOf(seq base.Seq) int {
	snapshots := m.opts.Snapshots
	if len(snapshots) == 0 || seq <= snapshots[0] {
		return 0
	}
	return sort.Search(len(snapshots), func(i int) bool { return snapshots[i] >= seq })
}

// entry writes one entry, or drops it.
func (m *merger) entry(kv *base.KV) error {
	trailer := kv.Trailer
	kind := trailer.Kind()
	if !kind.InTables() {
		return fmt.Errorf("entry %s is of an unknown kind", kv.InternalKey)
	}
	stripe := m.stripeOf(trailer.Seq())
	if stripe == m.stripe {
		m.result.shadowed++
		return nil
	}
	m.stripe = stripe
	if !m.spans.Empty() {
		if cover := m.spans.LeastAbove(kv.UserKey, trailer.Seq()); cover > 0 {
			// No snapshot lies between two numbers of one stripe.
			if m.stripeOf(cover) == stripe {
				m.result.covered++
				return nil
			}
			m.unclean = min(m.unclean, cover)
		}
	}
	value := kv.Value
	expired := kind == base.KindExpiring && m.over(value, stripe)
	if expired {
		kind, value = base.KindDelete, nil
		trailer = base.NewTrailer(trailer.Seq(), kind)
	}
	if stripe == 0 && m.atBottom() {
		switch {
		case expired:
			m.result.expired++
			return nil
		case kind == base.KindDelete:
			m.result.tombstones++
			return nil
		}
		if m.spans.Empty() || m.spans.Cover(kv.UserKey, base.MaxSeq) == 0 {
			trailer = base.NewTrailer(0, kind)
		}
	}
	return m.write(base.InternalKey{UserKey: kv.UserKey, Trailer: trailer}, value)
}

// over reports whether a value of a stripe that expires is over for all readers that see it: for
// those of now, and for the snapshots of that stripe and later ones.
func (m *merger) over(stored []byte, stripe int) bool {
	now := m.opts.Now
	if stripe < len(m.opts.Times) {
		now = min(now, m.opts.Times[stripe])
	}
	ms, _ := base.CutExpiry(stored)
	if ms > now || now == 0 {
		return false
	}
	m.result.clock = max(m.result.clock, ms)
	return true
}

// atBottom reports whether no older version of the
// current user key lies below. It looks once per key.
func (m *merger) atBottom() bool {
	if !m.asked {
		m.bottom, m.asked = !m.older.mayHold(m.key), true
	}
	return m.bottom
}

// write adds an entry to the open table. Before the first version of a user key it
// may end that table and begin another, but never between two versions of a key.
func (m *merger) write(key base.InternalKey, value []byte) error {
	if m.unplaced {
		m.unplaced = false
		if m.cut.before(key.UserKey, m.out) {
			if err := m.finish(); err != nil {
				return err
			}
		}
	}
	if m.out == nil {
		out, err := m.opts.NewOutput()
		if err != nil {
			return err
		}
		m.out = out
	}
	m.result.out++
	return m.out.Add(key, value)
}

// finish completes the open table, if there is one.
func (m *merger) finish() error {
	if m.out == nil {
		return nil
	}
	out := m.out
	m.out = nil
	return out.Finish()
}
