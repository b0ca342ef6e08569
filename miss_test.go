package shale

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"github.com/shaledb/shale/bloom"
	"github.com/shaledb/shale/vfs"
)

// dataLines returns every step-th line of a file of the data folder beside the
// clone, or skips the test.
func dataLines(t *testing.T, name string, step int) [][]byte {
	t.Helper()
	f, err := os.Open(filepath.Join("..", "shared", "data", name))
	if err != nil {
		t.Skipf("no real data here: %v", err)
	}
	defer f.Close()
	var lines [][]byte
	in := bufio.NewScanner(f)
	for i := 0; in.Scan(); i++ {
		if i%step == 0 {
			lines = append(lines, append([]byte(nil), in.Bytes()...))
		}
	}
	if err := in.Err(); err != nil {
		t.Fatal(err)
	}
	return lines
}

// valueOf is what load writes for a key.
func valueOf(key []byte) string { return fmt.Sprintf("%032x", bloom.Hash(key)) }

// load writes the keys in random order, settles the tree so many times, the
// last one so early that some runs are left in level 0.
func load(t *testing.T, opts *Options, keys [][]byte, times int) *DB {
	t.Helper()
	db := openTest(t, opts)
	rng := rand.New(rand.NewPCG(1, uint64(len(keys))))
	var b Batch
	write := func() {
		if err := db.Write(db.ctx, &b); err != nil {
			t.Fatal(err)
		}
		b.Reset()
	}
	young, often := len(keys)-len(keys)/200, len(keys)/times
	for i, k := range rng.Perm(len(keys)) {
		if err := b.Put(keys[k], []byte(valueOf(keys[k]))); err != nil {
			t.Fatal(err)
		}
		if b.Len() == 500 {
			write()
		}
		if i == young || i%often == often-1 && i < young {
			write()
			settle(t, db)
		}
	}
	write()
	mustFlush(t, db)
	return db
}

// The main promise on real input: hosts that are not on the blocklist, asked
// of a store that holds the blocklist.
func TestMiss_RealHosts(t *testing.T) {
	step := 2
	switch {
	case raceEnabled:
		step = 25
	case testing.Short():
		step = 10
	}
	present, absent := dataLines(t, "malicious-hosts.txt", step), dataLines(t, "benign-hosts.txt", step)
	rng := rand.New(rand.NewPCG(7, 8))
	fsys := vfs.NewMem()
	opts := &Options{FS: fsys, MemtableSize: 256 << 10 / int64(step), TableSize: 128 << 10 / int64(step), Durability: SyncManual,
		Compression: NoCompression, CompactionWorkers: -1, testing: testOptions{baseSize: 128 << 10 / int64(step)}}
	db := load(t, opts, present, 50)
	if levels := levelsInUse(db); len(levels) < 4 || levels[0] != 0 {
		t.Fatalf("the tree has levels %v; want level 0 and three more", levels)
	}
	var size int64
	for _, l := range db.Metrics().Levels {
		size += l.Bytes
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name        string
		filterBits  float64
		cache       int64
		least, most float64 // blocks looked into for each miss
		reads       float64 // of which so many at least come from the file
	}{
		{"filters, all cached", 10, 1 << 30, 0, 0.02, 0},
		{"filters, cache of 1/16", 10, size / 16, 0, 0.02, 0},
		{"no filters, all cached", -1, 1 << 30, 0.9, 10, 0},
		{"no filters, cache of 1/16", -1, size / 16, 0.9, 10, 0.9},
	} {
		t.Run(c.name, func(t *testing.T) {
			opts.FilterBits, opts.CacheSize = c.filterBits, c.cache
			db := openTest(t, opts)
			before, filterReads := db.Metrics(), db.tableStats.FilterReads.Load()
			maybe := 0
			for _, i := range rng.Perm(len(absent)) { // sorted ones would read one block many times in turn
				k := absent[i]
				if has, err := db.Has(k); has || err != nil {
					t.Fatalf("Has(%q) = %v, %v; it is not in the store", k, has, err)
				}
				if db.MayContain(k) {
					maybe++
				}
			}
			m := db.Metrics().Sub(before)
			if n := db.tableStats.FilterReads.Load() - filterReads; n != 0 {
				t.Errorf("lookups have read filters %d times", n)
			}
			if share := float64(maybe) / float64(len(absent)); share > c.most || c.filterBits < 0 && share < c.least {
				t.Errorf("MayContain is true for %.4f of the absent keys", share)
			}
			looked := float64(m.CacheHits+m.CacheMisses) / float64(len(absent))
			read := float64(m.BlockReads) / float64(len(absent))
			t.Logf("%d keys, %d misses: %.4f blocks looked into, %.4f read, false positives %.4f", len(present), len(absent), looked, read,
				float64(m.FilterFalsePositive)/float64(len(absent)))
			if looked < c.least || looked > c.most || read < c.reads || read > looked {
				t.Errorf("%.4f blocks looked into for a miss, %.4f read; want %v to %v, and %v read", looked, read, c.least, c.most, c.reads)
			}
			for i := 0; i < len(present); i += 7 {
				k := present[i]
				if !db.MayContain(k) {
					t.Fatalf("MayContain(%q) = false for a present key", k)
				}
				if v, err := db.Get(k); err != nil || string(v) != valueOf(k) {
					t.Fatalf("Get(%q) = %q, %v", k, v, err)
				}
			}
		})
	}
}

// Keys with a pattern must not meet more false positives than random ones:
// the even ones are stored, the odd ones asked.
func TestMiss_StructuredKeys(t *testing.T) {
	n := 400_000
	if testing.Short() || raceEnabled {
		n = 60_000
	}
	rng := rand.New(rand.NewPCG(5, 6))
	kinds := []struct {
		name string
		key  func(i int) []byte
	}{
		{"random", func(int) []byte { return binary.BigEndian.AppendUint64(nil, rng.Uint64()) }},
		{"user%012d", func(i int) []byte { return fmt.Appendf(nil, "user%012d", i) }},
		{"k%015x", func(i int) []byte { return fmt.Appendf(nil, "k%015x", i) }},
		{"integers", func(i int) []byte { return binary.BigEndian.AppendUint64(nil, uint64(i)) }},
	}
	var random, all fprSum
	for _, kind := range kinds {
		present, absent := make([][]byte, n), make([][]byte, n)
		for i := range n {
			present[i], absent[i] = kind.key(2*i), kind.key(2*i+1)
		}
		got := measureFPR(t, present, absent)
		t.Logf("%-10s %s", kind.name, got)
		if kind.name == "random" {
			random = got
		} else {
			all.add(got)
		}
		got.check(t, kind.name, random)
	}
	t.Logf("structured %s", all)
	all.check(t, "all structured keys", random)
}

// An fprSum is how many false positives a number of misses met, and how many the
// filters that were asked promise. It is compared as a ratio, because the
// trees differ, as the sizes of the keys do.
type fprSum struct{ misses, met, promised float64 }

func (f fprSum) ratio() float64 { return f.met / f.promised }

// sigma is the standard deviation of ratio.
func (f fprSum) sigma() float64 { return 1 / math.Sqrt(f.promised) }

func (f *fprSum) add(g fprSum) {
	*f = fprSum{f.misses + g.misses, f.met + g.met, f.promised + g.promised}
}

func (f fprSum) String() string {
	return fmt.Sprintf("%.4f %% measured, %.4f %% predicted, ratio %.3f, sigma %.3f",
		100*f.met/f.misses, 100*f.promised/f.misses, f.ratio(), f.sigma())
}

// check demands a ratio within 10 % of 1, and of that of random keys, beyond
// what chance explains.
func (f fprSum) check(t *testing.T, name string, random fprSum) {
	t.Helper()
	if math.Abs(f.ratio()-1) > 0.1+2*f.sigma() {
		t.Errorf("%s: %.3f times the predicted rate", name, f.ratio())
	}
	if q := f.ratio() / random.ratio(); math.Abs(q-1) > 0.1+2*math.Hypot(f.sigma(), random.sigma()) {
		t.Errorf("%s: %.3f times the rate of random keys", name, q)
	}
}

// measureFPR stores some keys and asks for others.
func measureFPR(t *testing.T, present, absent [][]byte) (f fprSum) {
	t.Helper()
	db := load(t, &Options{MemtableSize: 512 << 10, TableSize: 512 << 10, Durability: SyncManual, CompactionWorkers: -1}, present, 1)
	before := db.Metrics()
	runs := db.view.Load().runs
	for _, k := range absent {
		if has, err := db.Has(k); has || err != nil {
			t.Fatalf("Has(%q) = %v, %v", k, has, err)
		}
		for _, r := range runs {
			if table := r.find(k); table != nil {
				f.promised += table.predictedFPR()
			}
		}
	}
	m := db.Metrics().Sub(before)
	f.misses, f.met = float64(len(absent)), float64(m.FilterFalsePositive+m.FalsePositivesRemembered)
	// What Metrics predicts is for keys inside the range of every run.
	if p := db.Metrics().PredictedFPR() * f.misses; p < f.promised*0.99 || p > f.promised*1.2 {
		t.Errorf("Metrics predicts %.0f false positives, the tables that were asked %.0f", p, f.promised)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	return f
}

// A filter is read when its table is opened, never by a lookup: with the data
// blocks in the cache, a million misses cause no read at all.
func TestMiss_NoReadForFilters(t *testing.T) {
	mem := vfs.NewMem()
	faults := vfs.NewFault(mem, nil)
	opts := small()
	opts.FS, opts.CacheSize, opts.CompactionWorkers = faults, 64<<20, -1
	db := openTest(t, opts)
	fill(t, db, 20000, 0)
	settle(t, db)
	for range db.Scan(Range{}) {
		continue
	}
	before := faults.Count(vfs.OpRead)
	for i := range 20000 {
		if has, err := db.Has(fmt.Appendf(nil, "key%06dx", i)); has || err != nil {
			t.Fatal(has, err)
		}
		db.MayContain(fmt.Appendf(nil, "key%06dy", i))
	}
	if n := faults.Count(vfs.OpRead) - before; n != 0 {
		t.Errorf("%d reads; want none", n)
	}
	if m := db.Metrics(); m.FilterNegative == 0 || m.FilterFalsePositive == 0 {
		t.Errorf("filters said no %d times and maybe %d times; the test asks for both", m.FilterNegative, m.FilterFalsePositive)
	}
}
