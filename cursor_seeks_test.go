package shale

import (
	"fmt"
	"math"
	"sync/atomic"
	"testing"

	"github.com/shaledb/shale/compaction"
	"github.com/shaledb/shale/internal/testenv"
	"github.com/shaledb/shale/vfs"
)

const seekKeys = 30_000

// A seekStore has a full last level and two runs in level 0, which youngRun has written. They are
// too few for a compaction.
type seekStore struct {
	*DB
	t         *testing.T
	young     int          // runs written
	oftenRead atomic.Int64 // compactions for seeks
	bytes     atomic.Int64 // read and written by these compactions
}

func newSeekStore(t *testing.T, cacheSize int64) *seekStore {
	t.Helper()
	s := &seekStore{t: t}
	opts := &Options{MemtableSize: 256 << 10, BlockSize: 512, CacheSize: cacheSize, CompactionWorkers: 1, Durability: SyncManual}
	opts.OnEvent = func(e Event) {
		if e.Kind == EventCompaction && e.Reason == "often read" {
			s.oftenRead.Add(1)
			s.bytes.Add(e.BytesIn + e.BytesOut)
		}
	}
	s.DB = openTest(t, opts)
	fill(t, s.DB, seekKeys, 0)
	mustFlush(t, s.DB)
	if err := s.Compact(t.Context(), Range{}); err != nil {
		t.Fatal(err)
	}
	s.youngRun()
	s.youngRun()
	s.runs(2)
	return s
}

// youngRun adds a run to level 0, over the whole range of keys.
func (s *seekStore) youngRun() {
	s.t.Helper()
	s.young++
	for i := s.young; i < seekKeys; i += 100 {
		mustPut(s.t, s.DB, string(seekKey(nil, i)), "young")
	}
	mustFlush(s.t, s.DB)
	waitIdle(s.t, s.DB)
}

func seekKey(dst []byte, i int) []byte {
	dst = append(dst[:0], "key000000"...)
	for p := len(dst) - 1; i > 0; i, p = i/10, p-1 {
		dst[p] += byte(i % 10)
	}
	return dst
}

// runs checks how many runs level 0 has.
func (s *seekStore) runs(want int) {
	s.t.Helper()
	waitIdle(s.t, s.DB)
	if n := s.level0(); n != want {
		s.t.Fatalf("level 0 has %d runs; want %d", n, want)
	}
}

func (s *seekStore) level0() int { return len(s.mems.View().Meta.Levels[0].Runs) }

func (s *seekStore) earned() int64 {
	return s.scheduler.Reads.Seeks.Load()
}

// price waits until a compaction for seeks has a price, and returns it.
func (s *seekStore) price() int64 {
	s.t.Helper()
	price := &s.scheduler.Reads.Price
	testenv.WaitFor(s.t, "a price", func() bool { return price.Load() != math.MaxInt64 })
	return price.Load()
}

// seek seeks n keys with one new iterator.
func (s *seekStore) seek(n int) {
	s.t.Helper()
	it := s.NewIterator(Range{})
	defer it.Close()
	seekWith(s.t, it, n)
}

func seekWith(t *testing.T, it *Iterator, n int) {
	t.Helper()
	var key []byte
	for i := range n {
		if key = seekKey(key, i*1361%seekKeys); !it.SeekGE(key) || string(it.Key()) != string(key) {
			t.Fatalf("SeekGE(%q) found %q, %v", key, it.Key(), it.Err())
		}
	}
}

// Seeks that look into level 0 earn credit, and when that reaches the price, level 0 is compacted
// although it has few runs. It is not compacted before. First, Last, SeekGE and SeekLT count as
// seeks; Next and Prev do not.
func TestSeeks_CompactLevel0(t *testing.T) {
	testenv.SkipRace(t)
	s := newSeekStore(t, 8<<20)
	n := 0
	for range s.Scan(Range{}) {
		n++ // and caches all blocks
	}
	price, before := s.price(), s.earned()
	const each = 2 * cachedSeekCost
	want := before
	for _, seek := range []func(){
		func() { s.seek(seeksAtOnce) },
		func() {
			it := s.NewIterator(Range{})
			defer it.Close()
			for range seeksAtOnce / 4 {
				_ = it.First() && it.Next() && it.Next() && it.SeekLT([]byte("key000100")) && it.Prev() && it.Next()
				if !it.Last() || !it.SeekGE([]byte("key000100")) {
					t.Fatal(it.Err())
				}
			}
		},
		func() {
			for range seeksAtOnce {
				for range s.Scan(Range{Limit: 3}) {
					continue
				}
			}
		},
	} {
		seek()
		if want += seeksAtOnce * each; s.earned() != want {
			t.Fatalf("seeks have earned %d, want %d", s.earned(), want)
		}
	}
	for seeks := 0; seeks < int(price-want)/each-seeksAtOnce; seeks += seeksAtOnce {
		s.seek(seeksAtOnce)
	}
	waitIdle(t, s.DB)
	s.runs(2)
	if s.price() != price || s.oftenRead.Load() != 0 {
		t.Fatalf("the price is %d now, %d was; earned %d", s.price(), price, s.earned())
	}
	s.seek(3 * seeksAtOnce)
	testenv.WaitFor(t, "level 0 to be compacted", func() bool { return s.oftenRead.Load() == 1 })
	s.runs(0)
	if got := s.bytes.Load(); got > price {
		t.Errorf("the compaction took %d bytes, for a price of %d", got, price)
	}
	s.seek(2 * seeksAtOnce)
	if s.earned() != 0 {
		t.Errorf("seeks that look into no run of level 0 have earned %d", s.earned())
	}
	t.Logf("%d entries, price %d", n, price)
}

// A store is written and read in turns. If the seeks of each turn earn less than the price,
// compactions write as much as without seeks: the credit is forgotten when the runs are compacted
// for another reason. If the seeks earn the price, compactions for them take at most what was earned.
func TestSeeks_WritesBetween(t *testing.T) {
	testenv.SkipRace(t)
	const rounds = 12
	written := func(seeks int) (s *seekStore, bytes uint64) {
		s = newSeekStore(t, 8<<20)
		for range s.Scan(Range{}) {
			continue
		}
		for range rounds {
			s.youngRun()
			s.seek(seeks)
			waitIdle(t, s.DB)
		}
		return s, s.Metrics().CompactBytes
	}
	_, without := written(0)
	few, with := written(seeksAtOnce / 16)
	if few.oftenRead.Load() > 0 { // the bytes of the others differ a little, by what meets in one compaction
		t.Errorf("%d compactions were for few seeks: %d bytes, and %d without the seeks", few.oftenRead.Load(), with, without)
	}
	many, most := written(40 * seeksAtOnce)
	const blocks = 8 // of a young run, which are not cached at first
	earned := int64(rounds * (40*seeksAtOnce*cachedSeekCost + blocks*compaction.SeekCost))
	if got := many.bytes.Load(); many.oftenRead.Load() == 0 || got > earned {
		t.Errorf("%d compactions for seeks have taken %d bytes; the seeks have earned %d at most", many.oftenRead.Load(), got, earned)
	}
	t.Logf("written: %d without seeks, %d with few, %d with many, %d compactions", without, with, most, many.oftenRead.Load())
}

// A store in whose levels are many seeks ends with one run, and first where the seeks are. All
// compactions together take no more than the seeks have earned. While nobody seeks, nothing happens,
// and nobody looks whether lookups pay.
func TestSeeks_OneRunIsLeft(t *testing.T) {
	testenv.SkipRace(t)
	opts := tinyStore(vfs.NewMem())
	opts.CacheSize = 1
	opts.testing.baseSize, opts.testing.runs = 16<<10, 1
	var oftenRead, bytes atomic.Int64
	opts.OnEvent = func(e Event) {
		if e.Kind == EventCompaction && e.Reason == "often read" {
			oftenRead.Add(1)
			bytes.Add(e.BytesIn + e.BytesOut)
		}
	}
	db := openTest(t, &opts)
	for round := range 16 {
		for i := range 500 {
			mustPut(t, db, string(seekKey(nil, (500*round+i)*7919%seekKeys)), fmt.Sprintf("%0500d", i*7919))
		}
		mustFlush(t, db)
		waitIdle(t, db)
	}
	seeks := 0
	seek := func(from, to int) {
		it := db.NewIterator(Range{})
		defer it.Close()
		for i := range seeksAtOnce {
			it.SeekGE(seekKey(nil, from+i*1361%(to-from)))
		}
		seeks += seeksAtOnce
	}
	runsIn := func(from, to int) (n int) {
		for _, r := range db.mems.View().Runs {
			if i, end := r.Overlapping(seekKey(nil, from), seekKey(nil, to)); i < end {
				n++
			}
		}
		return n
	}
	for n := 0; len(db.mems.View().Meta.Levels[0].Runs) > 0; n++ {
		if n == 200 {
			t.Fatal("level 0 stays")
		}
		seek(0, seekKeys)
		waitIdle(t, db)
	}
	if n := runsIn(0, seekKeys); n < 3 {
		t.Fatalf("%d runs, want several levels", n)
	}
	testenv.WaitFor(t, "a price", func() bool { return db.scheduler.Reads.Price.Load() != math.MaxInt64 })
	if db.nextLook() != nil {
		t.Error("somebody looks whether lookups pay, which ask no run of level 0")
	}
	before, written := scanAll(t, db, Range{}), bytes.Load()
	seeks = 0
	for i := range 1000 {
		_, _ = db.Has(seekKey(nil, i))
	}
	waitIdle(t, db)
	if got := bytes.Load(); got != written {
		t.Errorf("lookups below level 0 have paid for %d bytes", got-written)
	}

	const hot = seekKeys / 20
	places := runsIn(0, seekKeys)
	for n := 0; runsIn(0, hot) > 1; n++ {
		if n == 2000 {
			t.Fatalf("%d runs stay in the range of the seeks; %d of all, %d before", runsIn(0, hot), runsIn(0, seekKeys), places)
		}
		seek(0, hot)
		waitIdle(t, db)
	}
	if n := runsIn(hot+seekKeys/10, seekKeys); n < 2 {
		t.Errorf("%d runs are left where nobody seeks", n)
	}
	for n := 0; runsIn(0, seekKeys) > 1; n++ {
		if n == 2000 {
			t.Fatalf("%d runs stay: %s", runsIn(0, seekKeys), levelsOf(db))
		}
		seek(0, seekKeys)
		waitIdle(t, db)
	}
	// Each level has one run, so a seek earns what one of them costs it.
	if got, earned := bytes.Load()-written, int64(seeks)*compaction.SeekCost; got > earned {
		t.Errorf("compactions for seeks have taken %d bytes, %d seeks have earned %d at most", got, seeks, earned)
	}
	if got := scanAll(t, db, Range{}); got != before {
		t.Error("the entries have changed")
	}
	t.Logf("%d seeks, %d compactions", seeks, oftenRead.Load())
}
