package shale

import (
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"strconv"
	"testing"

	"github.com/shaledb/shale/bloom"
	"github.com/shaledb/shale/internal/testenv"
	"github.com/shaledb/shale/vfs"
	"github.com/shaledb/shale/vfs/faultfs"
)

// The main promise on real input: lookups of hosts that are not on a blocklist, in a store that
// holds the blocklist, read at most 2 blocks for 100 lookups.
func TestMiss_RealHosts(t *testing.T) {
	testenv.SkipRace(t)
	step := 4
	if testing.Short() {
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
		least, most float64 // bounds of the blocks that a miss looks into, cached or not
		reads       float64 // how many blocks a miss reads from the file at least
	}{
		{"filters, all cached", 10, 1 << 30, 0, 0.02, 0},
		{"filters, cache of 1/16", 10, size / 16, 0, 0.02, 0},
		{"no filters, all cached", -1, 1 << 30, 0.9, 10, 0},
		{"no filters, cache of 1/16", -1, size / 16, 0.9, 10, 0.9},
	} {
		t.Run(c.name, func(t *testing.T) {
			opts.FilterBits, opts.CacheSize = c.filterBits, c.cache
			db := openTest(t, opts)
			before, filterReads := db.Metrics(), db.counters.tables.FilterReads.Load()
			maybe := 0
			for _, i := range rng.Perm(len(absent)) { // sorted keys would look into the same block many times in turn
				k := absent[i]
				if has, err := db.Has(k); has || err != nil {
					t.Fatalf("Has(%q) = %v, %v; it is not in the store", k, has, err)
				}
				if db.MayContain(k) {
					maybe++
				}
			}
			m := db.Metrics().Sub(before)
			if n := db.counters.tables.FilterReads.Load() - filterReads; n != 0 {
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

// In stores with keys of every kind, lookups of absent keys meet as many false positives as the
// filters promise. Package bloom tests the rates of single filters in detail.
func TestMiss_EveryKind(t *testing.T) {
	testenv.SkipRace(t)
	seed, n := uint64(1), 20_000 // the same each time: no failure by chance
	long := testenv.Long(t) > 0
	switch {
	case long:
		seed, n = testenv.Seed(t), 50_000
	case testenv.Race:
		n = 2000
	case testing.Short():
		n = 8000 // enough for a compaction of level 0
	}
	widths := []float64{10, 4, 20, 6, 24, 8, 14, 2, 12, 16}
	t.Logf("%-25s %5s %7s %8s %9s %9s %7s", "kind", "bits", "keys", "asked", "promised", "met", "sigmas")
	for i, kind := range allKinds(t) {
		of := widths[i%len(widths):][:1]
		if long {
			of = widths
		}
		for _, bits := range of {
			present, absent := kind.Make(seed+uint64(i), n, n)
			f := measureFPR(t, bits, present, absent)
			t.Logf("%-25s %5v %7d %8d %9.1f %9.0f %7.2f", kind.Name, bits, len(present), len(absent), f.promised, f.met, f.sigmas())
			random := kind.Name == "random" && bits >= 4
			if f.metrics < f.promised*0.99 || random && f.metrics > f.promised*1.2 {
				t.Errorf("%s, %v bits: the levels predict %.2f false positives, the tables that were asked %.2f", kind.Name, bits, f.metrics, f.promised)
			}
			if f.spread < f.promised*0.94 || f.spread > f.metrics*1.001 || random && f.spread > f.promised*1.1 {
				t.Errorf("%s, %v bits: Metrics predicts %.2f false positives, the tables that were asked %.2f", kind.Name, bits, f.spread, f.promised)
			}
			if math.Abs(f.sigmas()) > 5 {
				t.Errorf("%s, %v bits: %.0f false positives, %.1f promised, %.1f sigmas", kind.Name, bits, f.met, f.promised, f.sigmas())
			}
		}
	}
}

// An fprSum has the false positives that some misses met, and how many were to be expected,
// computed in three ways.
type fprSum struct {
	met, promised float64 // promised is the sum over the filters that were asked
	lines         float64 // how many cache lines the filters have
	metrics       float64 // predicted by the levels, for keys inside the range of every run
	spread        float64 // predicted by Metrics, for keys that are spread like those present
}

// sigmas returns how far met and promised are apart, in standard deviations. A filter promises
// up to 4 % too little (bloom/fpr.go), and the rates of its single cache lines differ by about
// two thirds.
func (f fprSum) sigmas() float64 {
	most := 1.04 * f.promised
	mean := min(max(f.met, f.promised), most)
	return 2 * (math.Sqrt(f.met+3./8) - math.Sqrt(mean+3./8)) / math.Sqrt(1+mean*0.5/f.lines)
}

// measureFPR stores some keys and looks up others. It checks that the store counts exactly the
// false positives that its filters gave.
func measureFPR(t *testing.T, bits float64, present, absent [][]byte) (f fprSum) {
	t.Helper()
	db := load(t, &Options{MemtableSize: 64 << 10, TableSize: 128 << 10, Durability: SyncManual, CompactionWorkers: -1, FilterBits: bits}, present, 1)
	before := db.Metrics()
	runs := db.mems.View().Runs
	given := uint64(0)
	for _, k := range absent {
		if has, err := db.Has(k); has || err != nil {
			t.Fatalf("Has(%.60q) = %v, %v", k, has, err)
		}
		for _, r := range runs {
			table := r.Find(k)
			if table == nil || table.Filter() == nil {
				continue
			}
			f.promised += table.PredictedFPR()
			if table.Filter().MayContainHash(bloom.Hash(k)) {
				given++
			}
		}
	}
	m := db.Metrics().Sub(before)
	met := m.FilterFalsePositive + m.FalsePositivesRemembered
	if met != given {
		t.Errorf("filters gave %d false positives, %d were counted", given, met)
	}
	for _, l := range m.Levels {
		f.metrics += l.PredictedFPR * float64(len(absent))
	}
	f.spread = m.PredictedFPR() * float64(len(absent))
	f.met, f.lines = float64(met), float64(m.FilterMemory)/64
	closeTest(t, db)
	return f
}

// A filter is read when its table is opened, never by a lookup. With the data blocks in the
// cache, 20,000 misses read nothing.
func TestMiss_NoReadForFilters(t *testing.T) {
	testenv.SkipRace(t)
	mem := vfs.NewMem()
	faults := faultfs.New(mem, nil)
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

// missKeys returns how many keys the benchmark's store has: SHALE_KEYS, or 500,000, whose filters
// fit into the processor's cache.
func missKeys(b *testing.B) int {
	text := os.Getenv("SHALE_KEYS")
	if text == "" {
		return 500_000
	}
	n, err := strconv.Atoi(text)
	if err != nil {
		b.Fatalf("SHALE_KEYS: %v", err)
	}
	return n
}

// BenchmarkMiss looks up absent keys, without runs in level 0 and with eight of them.
func BenchmarkMiss(b *testing.B) {
	for _, young := range []int{0, 8} {
		b.Run(fmt.Sprintf("young=%d", young), func(b *testing.B) {
			db := missStore(b, missKeys(b), young)
			miss := func(key []byte, i int) []byte {
				key = missKey(key, 2*uint64(i)+1)
				if found, err := db.Has(key); found || err != nil {
					b.Fatal(found, err)
				}
				return key
			}
			b.Run("one", func(b *testing.B) {
				var key []byte
				for i := range b.N {
					key = miss(key, i)
				}
			})
			b.Run("filters", func(b *testing.B) { // without the blocks that false positives read
				var key []byte
				maybe := 0
				for i := range b.N {
					if key = missKey(key, 2*uint64(i)+1); db.MayContain(key) {
						maybe++
					}
				}
				b.ReportMetric(float64(maybe)/float64(b.N), "maybe/op")
			})
			// A thousand keys at a time; the figures are for one key.
			many := func(name string, ask func(keys [][]byte)) {
				b.Run(name, func(b *testing.B) {
					keys := make([][]byte, 1000)
					for i := 0; i < b.N; i += len(keys) {
						some := keys[:min(len(keys), b.N-i)]
						for j := range some {
							some[j] = missKey(some[j], 2*uint64(i+j)+1)
						}
						ask(some)
					}
				})
			}
			many("many", func(keys [][]byte) {
				if err := db.GetMany(keys, func(int, []byte, bool) error { return nil }); err != nil {
					b.Fatal(err)
				}
			})
			out := make([]bool, 1000)
			many("filters-many", func(keys [][]byte) { db.MayContainMany(keys, out[:len(keys)]) })
			b.Run("parallel", func(b *testing.B) {
				b.RunParallel(func(pb *testing.PB) {
					var key []byte
					for i := 0; pb.Next(); i++ {
						key = miss(key, i)
					}
				})
			})
		})
	}
}
