package shale

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/shaledb/shale/internal/testenv"
	"github.com/shaledb/shale/vfs"
)

// A rangeLife is a store under random changes, range deletes among them, and a sorted map that has the same. Snapshots keep
// copies of the map.
type rangeLife struct {
	t         *testing.T
	r         *rand.Rand
	opts      Options
	db        *DB
	now       map[string]string
	snapshots []*Snapshot
	then      []map[string]string // of the snapshots
	n         int
}

func (l *rangeLife) key() []byte { return fmt.Appendf(nil, "k%03d", l.r.IntN(400)) }

// bounds returns those of a range delete: mostly of few keys, now and then without a bound, empty, or the wrong way round.
func (l *rangeLife) bounds() (lower, upper []byte) {
	from := l.r.IntN(400)
	lower, upper = fmt.Appendf(nil, "k%03d", from), fmt.Appendf(nil, "k%03d", from+1+l.r.IntN(30))
	switch l.r.IntN(30) {
	case 0:
		lower = nil
	case 1:
		upper = nil
	case 2:
		lower, upper = upper, lower
	case 3:
		upper = lower
	case 4:
		upper = []byte("k\xff\xff")
	}
	return lower, upper
}

func (l *rangeLife) deleteRange(lower, upper []byte) {
	maps.DeleteFunc(l.now, func(k, _ string) bool { return k >= string(lower) && (upper == nil || k < string(upper)) })
}

// change makes one change of the store, by w, and of the map.
func (l *rangeLife) change(w Writer) {
	var err error
	switch n := l.r.IntN(12); {
	case n < 8:
		k := l.key()
		l.n++
		v := fmt.Sprintf("%d %s", l.n, bytes.Repeat([]byte("x"), l.r.IntN(60)))
		err = w.Put(k, []byte(v))
		l.now[string(k)] = v
	case n < 10:
		k := l.key()
		err = w.Delete(k)
		delete(l.now, string(k))
	default:
		lower, upper := l.bounds()
		err = w.DeleteRange(lower, upper)
		l.deleteRange(lower, upper)
	}
	if err != nil {
		l.t.Fatal(err)
	}
}

func (l *rangeLife) step() {
	ctx := context.Background()
	var err error
	switch n := l.r.IntN(300); {
	case n < 8:
		err = l.db.Flush(ctx)
	case n < 11:
		lower, upper := l.bounds()
		err = l.db.Compact(ctx, Range{Lower: lower, Upper: upper})
	case n == 11:
		err = l.db.Compact(ctx, Range{})
	case n < 14 && len(l.snapshots) < 4:
		var s *Snapshot
		if s, err = l.db.Snapshot(); err == nil {
			l.snapshots, l.then = append(l.snapshots, s), append(l.then, maps.Clone(l.now))
		}
	case n < 17 && len(l.snapshots) > 0:
		i := l.r.IntN(len(l.snapshots))
		err = l.snapshots[i].Close()
		l.snapshots, l.then = slices.Delete(l.snapshots, i, i+1), slices.Delete(l.then, i, i+1)
	case n < 19:
		l.reopen()
	case n < 60:
		var b Batch
		for range 1 + l.r.IntN(20) {
			l.change(&b)
		}
		err = l.db.Write(ctx, &b)
	case n < 90:
		err = l.db.Update(ctx, func(tx *Txn) error {
			for range 1 + l.r.IntN(10) {
				l.change(tx)
			}
			l.compare(tx, l.now)
			return nil
		})
	default:
		l.change(l.db)
	}
	if err != nil {
		l.t.Fatal(err)
	}
}

func (l *rangeLife) reopen() {
	for _, s := range l.snapshots {
		_ = s.Close()
	}
	l.snapshots, l.then = nil, nil
	if err := l.db.Close(); err != nil {
		l.t.Fatal(err)
	}
	l.open()
}

func (l *rangeLife) open() {
	o := l.opts
	db, err := Open("db", &o)
	if err != nil {
		l.t.Fatal(err)
	}
	l.db = db
}

// compare compares all that r says with the map.
func (l *rangeLife) compare(r Reader, want map[string]string) {
	l.t.Helper()
	for range 10 {
		k := l.key()
		v, err := r.Get(k)
		if w, there := want[string(k)]; there && (err != nil || string(v) != w) || !there && !errors.Is(err, ErrNotFound) {
			l.t.Fatalf("Get(%s) = %.20q, %v; want %.20q, %v", k, v, err, w, there)
		}
		if has, err := r.Has(k); err != nil || has != (want[string(k)] != "") {
			l.t.Fatalf("Has(%s) = %v, %v", k, has, err)
		}
	}
	lower, upper := l.bounds()
	if l.r.IntN(2) == 0 {
		lower, upper = nil, nil
	}
	var keys []string
	for _, k := range slices.Sorted(maps.Keys(want)) {
		if k >= string(lower) && (upper == nil || k < string(upper)) {
			keys = append(keys, k)
		}
	}
	rng := Range{Lower: lower, Upper: upper, Reverse: l.r.IntN(2) == 0}
	if rng.Reverse {
		slices.Reverse(keys)
	}
	i := 0
	for e, err := range r.Scan(rng) {
		if err != nil || i == len(keys) || string(e.Key) != keys[i] || string(e.Value) != want[keys[i]] {
			l.t.Fatalf("Scan(%q, %q, %v): entry %d is %q, %.20q, %v; want %q of %d", lower, upper, rng.Reverse, i, e.Key, e.Value, err, keys[min(i, len(keys)-1):min(i+1, len(keys))], len(keys))
		}
		i++
	}
	if i != len(keys) {
		l.t.Fatalf("Scan(%q, %q, %v) gave %d entries, want %d", lower, upper, rng.Reverse, i, len(keys))
	}
	l.walk(r, want)
}

// walk moves an iterator at random.
func (l *rangeLife) walk(r Reader, want map[string]string) {
	l.t.Helper()
	keys := slices.Sorted(maps.Keys(want))
	it := r.NewIterator(Range{})
	defer it.Close()
	at, path := -1, ""
	for range 20 {
		k := l.key()
		i, _ := slices.BinarySearch(keys, string(k))
		var ok bool
		switch n := l.r.IntN(6); {
		case n == 0:
			ok, at, path = it.SeekGE(k), i, path+fmt.Sprintf(" ge %s", k)
		case n == 1:
			ok, at, path = it.SeekLT(k), i-1, path+fmt.Sprintf(" lt %s", k)
		case n < 4:
			ok, at, path = it.Next(), min(at+1, len(keys)), path+" next"
		default:
			ok, at, path = it.Prev(), max(at-1, -1), path+" prev"
		}
		if ok != (at >= 0 && at < len(keys)) || ok && (string(it.Key()) != keys[at] || string(it.Value()) != want[keys[at]]) {
			l.t.Fatalf("after%s it stands on %q (%v), %v, want %d of %d", path, it.Key(), ok, it.Err(), at, len(keys))
		}
	}
}

func (l *rangeLife) check() {
	l.t.Helper()
	l.compare(l.db, l.now)
	for i, s := range l.snapshots {
		l.compare(s, l.then[i])
	}
	for range 10 {
		if k := l.key(); !l.db.MayContain(k) && l.now[string(k)] != "" {
			l.t.Fatalf("MayContain(%s) says no", k)
		}
	}
}

// DeleteRange behaves as in a sorted map, for readers of all numbers, through flushes, merges, drops and reopenings, in batches
// and in transactions.
func TestDeleteRange_Model(t *testing.T) {
	steps := 3000
	if testing.Short() {
		steps = 1000
	}
	for name, change := range map[string]func(o *Options){
		"small":        func(o *Options) {},
		"no filters":   func(o *Options) { o.FilterBits = -1 },
		"one run":      func(o *Options) { o.testing.level0 = 1 },
		"by hand":      func(o *Options) { o.CompactionWorkers = -1 },
		"large tables": func(o *Options) { o.TableSize = 1 << 20 },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := &rangeLife{t: t, r: rand.New(rand.NewPCG(testenv.Seed(t), 7)), now: map[string]string{}}
			l.opts = tinyStore(vfs.NewMem())
			change(&l.opts)
			l.open()
			for i := range steps {
				l.step()
				if i%10 == 0 {
					l.check()
				}
			}
			for _, s := range l.snapshots {
				if err := s.Close(); err != nil {
					t.Fatal(err)
				}
			}
			l.snapshots = nil
			l.check()
			if err := l.db.Compact(context.Background(), Range{}); err != nil {
				t.Fatal(err)
			}
			l.check()
			closeTest(t, l.db)
		})
	}
}

// filled returns a store with n entries of a hundred bytes, all in the last level.
func filled(t *testing.T, n int, opts *Options) *DB {
	t.Helper()
	db := openTest(t, opts)
	for i := range n {
		mustPut(t, db, fmt.Sprintf("key%06d", i), fmt.Sprintf("%0100d", i))
	}
	if err := db.Compact(context.Background(), Range{}); err != nil {
		t.Fatal(err)
	}
	return db
}

// awaitIdle waits until no compaction is under way or due.
func awaitIdle(t *testing.T, db *DB) {
	t.Helper()
	db.changes.Await(context.Background(), db.scheduler.Idle)
}

// All keys go, and nothing is read for it: neither by compactions nor by 100,000 lookups of the keys, before the memtable is flushed
// and after it. MayContain says no.
func TestDeleteRange_ReadsNothing(t *testing.T) {
	const n = 50_000
	o := small()
	o.CacheSize = -1
	db := filled(t, n, o)
	s, err := db.Snapshot()
	if err != nil {
		t.Fatal(err)
	}
	if err := db.Sub("key").DeleteRange(nil, nil); err != nil {
		t.Fatal(err)
	}
	before := db.Metrics()
	denied := func(when string) {
		t.Helper()
		keys, out := [][]byte{}, make([]bool, n)
		for i := range n {
			key := fmt.Appendf(nil, "key%06d", i)
			keys = append(keys, key)
			if _, err := db.Get(key); !errors.Is(err, ErrNotFound) || db.MayContain(key) {
				t.Fatalf("%s: Get(%s) = %v, MayContain %v", when, key, err, db.MayContain(key))
			}
		}
		if db.MayContainMany(keys, out); slices.Contains(out, true) {
			t.Fatalf("%s: MayContainMany says maybe", when)
		}
		if m := db.Metrics().Sub(before); m.BlockReads > 0 || m.CompactReadBytes > 0 {
			t.Fatalf("%s: %d blocks were read, and %d bytes by compactions", when, m.BlockReads, m.CompactReadBytes)
		}
	}
	denied("in the memtable")
	if err := db.Flush(context.Background()); err != nil {
		t.Fatal(err)
	}
	denied("flushed, with a snapshot below")
	if m := db.Metrics(); m.RangeDeletes != 1 || m.LiveBytes == 0 {
		t.Errorf("%d range deletes, %d bytes next to a snapshot", m.RangeDeletes, m.LiveBytes)
	}
	if v, err := s.Get([]byte("key000007")); err != nil || len(v) != 100 {
		t.Errorf("the snapshot has %q, %v", v, err)
	}
	before = db.Metrics()
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	awaitIdle(t, db)
	denied("dropped")
	m := db.Metrics()
	for _, l := range m.Levels {
		if l.Tables > 0 {
			t.Errorf("level %d has %d tables", l.Level, l.Tables)
		}
	}
	if m.RangeDeletes != 0 || m.RangeDeleteMemory != 0 {
		t.Errorf("%d range deletes are left", m.RangeDeletes)
	}
}

// Tables that are hidden in part are rewritten, and then the range delete ends, without a Compact.
func TestDeleteRange_GivesSpaceBack(t *testing.T) {
	o := small()
	o.TableSize = 1 << 20
	db := filled(t, 3000, o)
	size := func() (sum int64) {
		for _, l := range db.Metrics().Levels {
			sum += l.Bytes
		}
		return sum
	}
	whole := size()
	if err := db.DeleteRange([]byte("key000500"), []byte("key001700")); err != nil {
		t.Fatal(err)
	}
	if err := db.Flush(context.Background()); err != nil {
		t.Fatal(err)
	}
	awaitIdle(t, db)
	if left := size(); left > whole*2/3 {
		t.Errorf("%d of %d bytes are left", left, whole)
	}
	if m := db.Metrics(); m.RangeDeletes != 0 {
		t.Errorf("%d range deletes are left", m.RangeDeletes)
	}
	n := 0
	for _, err := range db.Scan(Range{}) {
		if n++; err != nil {
			t.Fatal(err)
		}
	}
	if n != 1800 {
		t.Errorf("%d entries are left", n)
	}
}

// A store whose log has nothing but a range delete keeps it, however often it is opened.
func TestDeleteRange_AloneInTheLog(t *testing.T) {
	o := tinyStore(vfs.NewMem())
	db := filled(t, 100, &o)
	for i := range 12 {
		if i == 2 {
			if err := db.DeleteRange([]byte("key000010"), nil); err != nil {
				t.Fatal(err)
			}
		}
		if i == 4 {
			if err := db.Flush(context.Background()); err != nil { // it may be all that is flushed
				t.Fatal(err)
			}
		}
		if err := db.Close(); err != nil {
			t.Fatal(err)
		}
		again := tinyStore(o.FS)
		db = openTest(t, &again)
		if has, err := db.Has([]byte("key000050")); err != nil || has != (i < 2) {
			t.Fatalf("after opening %d: Has = %v, %v", i, has, err)
		}
	}
}

// Compact rewrites a table of which a range delete covers one small entry, also in the last level.
func TestDeleteRange_Compact(t *testing.T) {
	db := filled(t, 100, nil)
	if err := db.DeleteRange([]byte("key000042"), []byte("key000043")); err != nil {
		t.Fatal(err)
	}
	if err := db.Compact(context.Background(), Range{}); err != nil {
		t.Fatal(err)
	}
	m := db.Metrics()
	if n := m.Levels[NumLevels-1].Entries; n != 99 || m.RangeDeletes != 0 {
		t.Errorf("%d entries and %d range deletes are left", n, m.RangeDeletes)
	}
}

// PutIfAbsent that has lost looks again with the range deletes of then, and not with those that it has seen before: the
// key may have come back meanwhile, with number 0 in a table, after the range delete has ended.
func TestPutIfAbsent_RangeDeleteEndsMeanwhile(t *testing.T) {
	let, inside := make(chan struct{}), make(chan struct{})
	armed := false
	o := tinyStore(vfs.NewMem())
	o.testing.level0 = 1
	o.Shipping.Gate = func(LogPosition) error {
		if armed {
			armed = false
			close(inside)
			<-let
		}
		return nil
	}
	db := openTest(t, &o)
	for _, key := range []string{"a", "k", "z"} {
		mustPut(t, db, key, "old")
	}
	if err := db.Compact(context.Background(), Range{}); err != nil {
		t.Fatal(err)
	}
	if err := db.DeleteRange([]byte("k"), []byte("l")); err != nil {
		t.Fatal(err)
	}
	armed = true
	ended := make(chan error, 4)
	go func() { ended <- db.Put([]byte("k"), []byte("new")) }()
	<-inside
	queued := 0
	queue := func(what string, fn func() error) {
		go func() { ended <- fn() }()
		queued++
		testenv.WaitFor(t, what+" to queue", func() bool { return db.commits.Waiting() == queued })
	}
	compact := func() error {
		return db.commits.Alone(context.Background(), func() error {
			if err := db.rotate(); err != nil {
				return err
			}
			if err := db.flushAll(); err != nil {
				return err
			}
			awaitIdle(t, db)
			return nil
		})
	}
	queue("the first compaction", compact) // the range delete ends
	queue("another write", func() error { return db.Put([]byte("a"), []byte("new")) })
	queue("the second compaction", compact) // the number of k becomes 0
	var inserted bool
	queue("PutIfAbsent", func() (err error) { inserted, err = db.PutIfAbsent([]byte("k"), []byte("newest")); return err })
	close(let)
	for range 5 {
		if err := <-ended; err != nil {
			t.Fatal(err)
		}
	}
	if n := db.Metrics().RangeDeletes; n != 0 {
		t.Fatalf("%d range deletes are left", n)
	}
	if inserted {
		t.Error("PutIfAbsent has overwritten a key")
	}
	wantGet(t, db, "k", "new", true)
}
