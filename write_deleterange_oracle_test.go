package shale

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/shaledb/shale/internal/testenv"
	"github.com/shaledb/shale/vfs"
)

// oracleKeys is the number of keys of a rangeOracle.
const oracleKeys = 10_000

// A rangeOracle is a store under very many range deletes, and for each key the number of the put that it has; 0: it is not
// there. Snapshots keep copies of that.
type rangeOracle struct {
	t         *testing.T
	r         *rand.Rand
	opts      Options
	db        *DB
	now       []uint64
	snapshots []*Snapshot
	then      [][]uint64 // of the snapshots
	puts      uint64
	deletes   int
	at        int          // where the last range lay
	drops     atomic.Int64 // edits for range deletes alone: tables went unread, or range deletes ended
	b         Batch
	key, val  []byte
}

func (o *rangeOracle) keyOf(i int) []byte {
	o.key = fmt.Appendf(o.key[:0], "k%05d", i)
	return o.key
}

func (o *rangeOracle) value(n uint64) []byte {
	o.val = fmt.Appendf(o.val[:0], "%030d", n)
	return o.val
}

// deleteRange adds a range delete: mostly of few keys, or of a window that moves on, up or down; sometimes of many, within the
// one before, or without a bound.
func (o *rangeOracle) deleteRange() {
	from, end := 0, 0
	switch n := o.r.IntN(1000); {
	case n < 400:
		from = o.r.IntN(oracleKeys)
		end = from + 1 + o.r.IntN(8)
	case n < 700:
		from = (o.at + 1 + o.r.IntN(3)) % oracleKeys
		end = from + 20
	case n < 850:
		from = max(o.at-1-o.r.IntN(3), 0)
		end = from + 5
	case n < 980:
		from, end = o.at+1, o.at+max(2, 40-o.r.IntN(40))
	case n < 995:
		from = o.r.IntN(oracleKeys)
		end = from + o.r.IntN(600)
	case n < 997:
		from, end = o.r.IntN(oracleKeys), 0 // the wrong way round
	default:
		from, end = o.r.IntN(oracleKeys), oracleKeys
	}
	o.at = from
	from, end = min(from, oracleKeys), min(end, oracleKeys)
	lower, upper := fmt.Appendf(nil, "k%05d", from), fmt.Appendf(nil, "k%05d", end)
	if o.r.IntN(8) == 0 { // a bound between two keys
		upper, end = append(upper, 0), min(end+1, oracleKeys)
	}
	switch {
	case end == oracleKeys && o.r.IntN(2) == 0:
		upper = nil
	case from == 0 && o.r.IntN(2) == 0:
		lower = nil
	}
	if err := o.b.DeleteRange(lower, upper); err != nil {
		o.t.Fatal(err)
	}
	if from < end {
		clear(o.now[from:end])
	}
	o.deletes++
}

// write writes a batch of range deletes, puts and deletes.
func (o *rangeOracle) write() {
	o.b.Reset()
	for range 1 + o.r.IntN(40) {
		i := o.r.IntN(oracleKeys)
		if o.r.IntN(2) == 0 {
			i = min(o.at+o.r.IntN(30), oracleKeys-1) // where ranges are
		}
		var err error
		switch n := o.r.IntN(20); {
		case n < 10:
			o.deleteRange()
		case n < 19:
			o.puts++
			err = o.b.Put(o.keyOf(i), o.value(o.puts))
			o.now[i] = o.puts
		default:
			err = o.b.Delete(o.keyOf(i))
			o.now[i] = 0
		}
		if err != nil {
			o.t.Fatal(err)
		}
	}
	if err := o.db.Write(context.Background(), &o.b); err != nil {
		o.t.Fatal(err)
	}
}

func (o *rangeOracle) open() {
	opts := o.opts
	opts.OnEvent = func(e Event) {
		if e.Kind == EventCompaction && e.Reason == "range deletes" {
			o.drops.Add(1)
		}
	}
	db, err := Open("db", &opts)
	if err != nil {
		o.t.Fatal(err)
	}
	o.db = db
}

// closeSnapshot checks all that a snapshot sees, and closes it.
func (o *rangeOracle) closeSnapshot(i int) {
	o.scan(o.snapshots[i], o.then[i], 0, oracleKeys)
	if err := o.snapshots[i].Close(); err != nil {
		o.t.Fatal(err)
	}
	o.snapshots, o.then = slices.Delete(o.snapshots, i, i+1), slices.Delete(o.then, i, i+1)
}

// reopen opens the store again, after Close or after the death of the process.
func (o *rangeOracle) reopen() {
	for len(o.snapshots) > 0 {
		o.closeSnapshot(0)
	}
	if o.r.IntN(2) == 0 {
		o.opts.FS = o.opts.FS.(*vfs.Mem).Crash(keepEverything)
	}
	if err := o.db.Close(); err != nil {
		o.t.Fatal(err)
	}
	o.open()
	o.scan(o.db, o.now, 0, oracleKeys)
}

// get looks a key up in all states.
func (o *rangeOracle) get(i int) {
	o.t.Helper()
	o.getAt(o.db, o.now, i)
	for n, s := range o.snapshots {
		o.getAt(s, o.then[n], i)
	}
	if o.now[i] > 0 && !o.db.MayContain(o.keyOf(i)) {
		o.t.Fatalf("MayContain(%s) says no", o.key)
	}
}

func (o *rangeOracle) getAt(r Reader, want []uint64, i int) {
	o.t.Helper()
	v, err := r.Get(o.keyOf(i))
	if want[i] == 0 && errors.Is(err, ErrNotFound) || want[i] > 0 && err == nil && string(v) == string(o.value(want[i])) {
		return
	}
	o.t.Fatalf("after %d range deletes, %d snapshots: %T: Get(%s) = %q, %v; want %d", o.deletes, len(o.snapshots), r, o.key, v, err, want[i])
}

// scan compares the keys from index from up to end with the state, forward or backward.
func (o *rangeOracle) scan(r Reader, want []uint64, from, end int) {
	o.t.Helper()
	rng := Range{Lower: fmt.Appendf(nil, "k%05d", from), Upper: fmt.Appendf(nil, "k%05d", end), Reverse: o.r.IntN(2) == 0}
	i, step := from, 1
	if rng.Reverse {
		i, step = end-1, -1
	}
	next := func() {
		for i >= from && i < end && want[i] == 0 {
			i += step
		}
	}
	for e, err := range r.Scan(rng) {
		next()
		if err != nil || i < from || i >= end || string(e.Key) != string(o.keyOf(i)) || string(e.Value) != string(o.value(want[i])) {
			o.t.Fatalf("after %d range deletes, %d snapshots: %T: Scan(%s, %s, %v) gives %q, %q, %v; want key %d", o.deletes, len(o.snapshots), r, rng.Lower, rng.Upper, rng.Reverse, e.Key, e.Value, err, i)
		}
		i += step
	}
	if next(); i >= from && i < end {
		o.t.Fatalf("after %d range deletes, %d snapshots: %T: Scan(%s, %s, %v) lacks key %d", o.deletes, len(o.snapshots), r, rng.Lower, rng.Upper, rng.Reverse, i)
	}
}

// step writes a batch and looks at some keys of all states. Now and then it takes a snapshot, gives one up, flushes, compacts, or
// opens the store again.
func (o *rangeOracle) step() {
	o.write()
	for range 2 {
		i := o.r.IntN(oracleKeys)
		if o.r.IntN(2) == 0 {
			i = min(max(o.at-10+o.r.IntN(40), 0), oracleKeys-1)
		}
		o.get(i)
	}
	var err error
	switch n := o.r.IntN(1000); {
	case n < 60:
		if len(o.snapshots) == 12 {
			o.closeSnapshot(o.r.IntN(12))
		}
		var s *Snapshot
		if s, err = o.db.Snapshot(); err == nil {
			o.snapshots, o.then = append(o.snapshots, s), append(o.then, slices.Clone(o.now))
		}
	case n < 80:
		for range o.r.IntN(len(o.snapshots) + 1) {
			o.closeSnapshot(o.r.IntN(len(o.snapshots)))
		}
	case n < 90:
		err = o.db.Flush(context.Background())
	case n < 93:
		from := o.r.IntN(oracleKeys)
		err = o.db.Compact(context.Background(), Range{Lower: fmt.Appendf(nil, "k%05d", from), Upper: fmt.Appendf(nil, "k%05d", from+500)})
	case n == 93:
		err = o.db.Compact(context.Background(), Range{})
	case n == 94:
		o.reopen()
	case n < 300:
		from := o.r.IntN(oracleKeys)
		r, want := Reader(o.db), o.now
		if n := o.r.IntN(len(o.snapshots) + 1); n > 0 {
			r, want = o.snapshots[n-1], o.then[n-1]
		}
		o.scan(r, want, from, min(from+200, oracleKeys))
	}
	if err != nil {
		o.t.Fatal(err)
	}
}

// A million range deletes, of which a run makes a share, leave what a sorted map has, for readers of all numbers between which
// something changed: with filters and without, through flushes, merges, drops of whole tables and openings.
func TestDeleteRange_Oracle(t *testing.T) {
	for name, bits := range map[string]float64{"filters": 0, "no filters": -1} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			seed := testenv.Seed(t)
			share := testenv.ShareOf(t, seed, 0.005)
			o := &rangeOracle{t: t, r: rand.New(rand.NewPCG(seed, 13)), now: make([]uint64, oracleKeys)}
			o.opts = tinyStore(vfs.NewMem())
			o.opts.FilterBits, o.opts.MemtableSize, o.opts.TableSize, o.opts.BlockSize = bits, 32<<10, 8<<10, 1<<10
			o.open()
			begin := time.Now()
			for o.deletes < int(1e6*share.Part) {
				o.step()
			}
			live := o.db.Metrics().RangeDeletes
			o.reopen()
			if err := o.db.Compact(context.Background(), Range{}); err != nil {
				t.Fatal(err)
			}
			o.scan(o.db, o.now, 0, oracleKeys)
			if n := o.db.Metrics().RangeDeletes; n != 0 {
				t.Errorf("%d range deletes are left", n)
			}
			closeTest(t, o.db)
			if o.drops.Load() == 0 {
				t.Error("nothing was dropped")
			}
			t.Logf("%v: %d range deletes, %d puts, %d drops, %d range deletes live before the end, %v", share, o.deletes, o.puts, o.drops.Load(), live, time.Since(begin))
		})
	}
}
