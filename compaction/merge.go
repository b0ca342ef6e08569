package compaction

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"sort"

	"github.com/shaledb/shale/internal/base"
	"github.com/shaledb/shale/manifest"
)

// An Output is a table in the making.
type Output interface {
	// Add appends an entry. The slices are valid during the call only.
	Add(key base.InternalKey, value []byte) error
	// EstimatedSize returns about how large the table would be if it were
	// finished now.
	EstimatedSize() int64
	// Finish completes the table. Nothing else is called afterwards, whatever
	// it returns.
	Finish() error
	// Abandon gives the table up. Nothing else is called afterwards.
	Abandon()
}

// MergeOptions say what Merge keeps and how it cuts its output.
type MergeOptions struct {
	// Snapshots are the sequence numbers that someone reads at, ascending,
	// besides all those of the future, which are above every entry's.
	Snapshots []base.Seq
	// Older tells where tombstones must stay: Plan.Older. The zero value
	// keeps them all.
	Older Older

	// TableSize is at which size a table ends. 0: there is one table.
	TableSize int64
	// Grandparents are what the output will once be merged with, ascending.
	// Tables end preferably at their bounds, and before one overlaps more
	// than ten tables' worth of them.
	Grandparents []*manifest.Table

	// Guards, ascending, are tables at whose bounds tables end always, unless
	// they would be tiny: Plan.Guards.
	Guards []*manifest.Table

	// Lower and Upper bound the user keys; Upper is exclusive. Nil: no bound.
	Lower, Upper []byte

	// NewOutput begins a table.
	NewOutput func() (Output, error)
}

// A MergeResult counts what a merge did. in = out + shadowed + tombstones.
type MergeResult struct {
	in         uint64 // entries read
	out        uint64 // entries written
	shadowed   uint64 // dropped: a newer version is seen by everyone who would see it
	tombstones uint64 // dropped: nothing is left for them to hide
}

// ctxEvery is how many entries are merged between two looks at the context.
const ctxEvery = 1024

// Merge reads src, which must give each entry of the plan's inputs once and in
// order, and writes what somebody can still see into outputs:
//
//   - For each user key, of the versions between two neighbouring snapshots
//     only the newest stays.
//   - A tombstone that all snapshots see goes if no older data lies below.
//   - A value that all snapshots see gets sequence number 0 if no older data
//     lies below: nobody can tell any more, and equal numbers compress.
//
// All versions of a user key go into one output. A failure of src is never
// taken for its end. On error the outputs finished so far are the caller's to
// delete. Merge does not close src.
func Merge(ctx context.Context, src base.Iterator, o MergeOptions) (MergeResult, error) {
	m := merger{opts: o, older: o.Older.cursor(), cut: newCutter(o)}
	err := m.run(ctx, src)
	if err == nil {
		err = m.finish()
	} else if m.out != nil {
		m.out.Abandon()
	}
	r := m.result
	if err == nil && r.in != r.out+r.shadowed+r.tombstones {
		err = fmt.Errorf("%d entries in, but %d out, %d shadowed and %d tombstones dropped", r.in, r.out, r.shadowed, r.tombstones)
	}
	if err != nil {
		return r, fmt.Errorf("compaction: merge: %w", err)
	}
	return r, nil
}

// A merger is the state of one Merge.
type merger struct {
	opts  MergeOptions
	older olderCursor
	cut   cutter

	// Of the last entry read.
	begun   bool
	key     []byte
	trailer base.Trailer

	// Of the user key at hand.
	stripe   int  // of the last version that was not shadowed; -1: none yet
	bottom   bool // no older data lies below
	asked    bool // bottom is known
	unplaced bool // no version has been written yet

	out    Output // nil: none is open
	result MergeResult
}

var errOrder = errors.New("entries are out of order")

func (m *merger) run(ctx context.Context, src base.Iterator) error {
	var kv *base.KV
	if len(m.opts.Lower) > 0 {
		kv = src.SeekGE(m.opts.Lower, base.MaxSeq)
	} else {
		kv = src.First()
	}
	for ; kv != nil; kv = src.Next() {
		if m.result.in%ctxEvery == 0 {
			if err := ctx.Err(); err != nil {
				return err
			}
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

// begin checks that key follows the entry before it, and notices a new user
// key. past says that key is beyond Upper.
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

// stripeOf returns the number of snapshots that do not see seq: entries with
// the same number are seen by the same snapshots.
func (m *merger) stripeOf(seq base.Seq) int {
	snapshots := m.opts.Snapshots
	if len(snapshots) == 0 || seq <= snapshots[0] {
		return 0
	}
	return sort.Search(len(snapshots), func(i int) bool { return snapshots[i] >= seq })
}

// entry keeps or drops one entry.
func (m *merger) entry(kv *base.KV) error {
	trailer := kv.Trailer
	kind := trailer.Kind()
	if kind != base.KindPut && kind != base.KindDelete {
		return fmt.Errorf("entry %s is of an unknown kind", kv.InternalKey)
	}
	stripe := m.stripeOf(trailer.Seq())
	if stripe == m.stripe {
		m.result.shadowed++
		return nil
	}
	m.stripe = stripe
	if stripe == 0 && m.atBottom() {
		if kind == base.KindDelete {
			m.result.tombstones++
			return nil
		}
		trailer = base.NewTrailer(0, kind)
	}
	return m.write(base.InternalKey{UserKey: kv.UserKey, Trailer: trailer}, kv.Value)
}

// atBottom says that no older version of the key at hand lies below.
func (m *merger) atBottom() bool {
	if !m.asked {
		m.bottom, m.asked = !m.older.mayHold(m.key), true
	}
	return m.bottom
}

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

func (m *merger) finish() error {
	if m.out == nil {
		return nil
	}
	out := m.out
	m.out = nil
	return out.Finish()
}
