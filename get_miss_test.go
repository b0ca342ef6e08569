package shale

import (
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"testing"

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
