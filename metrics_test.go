package shale

import (
	"context"
	"fmt"
	"math"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/shaledb/shale/internal/testenv"
	"github.com/shaledb/shale/internal/tree"
	"github.com/shaledb/shale/vfs"
)

// Each lookup is counted once, each answer of a filter by its kind, and each block as a hit or a miss
// of the cache.
func TestMetrics_Lookups(t *testing.T) {
	opts := small()
	opts.CompactionWorkers = -1
	db := openTest(t, opts)
	fill(t, db, 5000, 0)
	settle(t, db)
	mustPut(t, db, "in the memtable", "v")
	begin := db.Metrics()
	const n = 1000
	for i := range n {
		wantHas(t, db, fmt.Sprintf("key%06d", i), true)
		wantHas(t, db, fmt.Sprintf("key%06dx", i), false)
	}
	wantHas(t, db, "in the memtable", true)
	wantHas(t, db, "zzz", false) // beyond all tables
	m := db.Metrics().Sub(begin)
	for _, c := range []struct {
		name      string
		got, want uint64
	}{
		{"Gets", m.Gets, 2*n + 2},
		{"GetHits", m.GetHits, n + 1},
		{"GetMisses", m.GetMisses, n + 1},
		{"FilterTruePositive", m.FilterTruePositive, n},
		{"NoFilter", m.NoFilter, 0},
		{"blocks looked into", m.CacheHits + m.CacheMisses, n + m.FilterFalsePositive},
		{"cache misses", m.CacheMisses, m.BlockReads},
		{"Writes", m.Writes, 0},
		{"filters asked for absent keys", levelSum(m, func(l LevelMetrics) uint64 { return l.FilterAsked }), m.FilterNegative + m.FilterFalsePositive},
		{"false positives by level", levelSum(m, func(l LevelMetrics) uint64 { return l.FalsePositive }), m.FilterFalsePositive},
	} {
		if c.got != c.want {
			t.Errorf("%s: %d, want %d", c.name, c.got, c.want)
		}
	}
	if runs := levelSum(m, func(l LevelMetrics) uint64 { return uint64(l.Runs) }); m.FilterNegative < n/2 || m.FilterNegative > runs*2*n {
		t.Errorf("filters said no %d times to %d absent keys in %d runs", m.FilterNegative, n, runs)
	}
}

// levelSum returns the sum of a figure over all levels.
func levelSum(m Metrics, of func(LevelMetrics) uint64) (n uint64) {
	for _, l := range m.Levels {
		n += of(l)
	}
	return n
}

// Writes, flushes, compactions and the bytes of the log are counted.
func TestMetrics_Writes(t *testing.T) {
	db := openTest(t, &Options{FS: vfs.NewMem()})
	begin := db.Metrics()
	var b Batch
	mustPut(t, &b, "a", "12345")
	mustDelete(t, &b, "b")
	if err := db.Write(context.Background(), &b); err != nil {
		t.Fatal(err)
	}
	mustPut(t, db, "c", "1")
	mustFlush(t, db)
	m := db.Metrics().Sub(begin)
	if m.Writes != 3 || m.Flushes != 1 || m.WALSyncs < 2 || m.WALBytes < m.WrittenBytes || m.FlushBytes == 0 || m.CompactBytes != 0 {
		t.Errorf("after 3 writes and a flush: %+v", m)
	}
	if m.MemtableEntries != 0 || levelSum(m, func(l LevelMetrics) uint64 { return l.Entries }) != 3 {
		t.Errorf("3 entries in a table: %+v", m)
	}
	if err := db.Compact(context.Background(), Range{}); err != nil {
		t.Fatal(err)
	}
	if l := db.Metrics().Levels[6]; l.Tables != 1 || l.Entries != 2 || l.Tombstones != 0 {
		t.Errorf("level 6 after a compaction: %+v; want one table of 2 entries, no tombstone", l)
	}
}

// Sub subtracts each counter and each time, and leaves the other fields as they are.
func TestMetrics_Sub(t *testing.T) {
	counters := map[*uint64]bool{}
	var m Metrics
	for _, p := range m.counters() {
		counters[p] = true
	}
	v := reflect.ValueOf(&m).Elem()
	for i := range v.NumField() {
		name := v.Type().Field(i).Name
		if p, ok := v.Field(i).Addr().Interface().(*uint64); ok && !counters[p] {
			t.Errorf("Sub does not subtract %s", name)
		}
	}
	for i, p := range m.counters() {
		*p = uint64(100 + i)
	}
	m.StallTime, m.CacheMemory = time.Second, 5
	d := m.Sub(m)
	for i, p := range d.counters() {
		if *p != 0 {
			t.Errorf("counter %d of m.Sub(m) is %d", i, *p)
		}
	}
	if d.StallTime != 0 || d.CacheMemory != 5 {
		t.Errorf("m.Sub(m): stall time %v, cache memory %d; want 0 and 5", d.StallTime, d.CacheMemory)
	}
}

// String has lines for the levels, the lookups and the memory.
func TestMetrics_String(t *testing.T) {
	db := openTest(t, small())
	fill(t, db, 3000, 0)
	mustFlush(t, db)
	wantHas(t, db, "key000000x", false)
	for _, want := range []string{"level", "L", "FPR predicted", "lookups: 1, 0 found, 1 absent", "memory: memtables"} {
		if s := db.Metrics().String(); !strings.Contains(s, want) {
			t.Errorf("no %q in\n%s", want, s)
		}
	}
}

// A warmFS has files that are wholly in the system's memory, on any system.
type warmFS struct{ vfs.FS }

type warmFile struct{ vfs.File }

func (fs warmFS) Open(name string) (vfs.File, error) {
	f, err := fs.FS.Open(name)
	if err != nil {
		return nil, err
	}
	return warmFile{f}, nil
}

func (f warmFile) TryReadAt(p []byte, off int64) error {
	_, err := f.ReadAt(p, off)
	return err
}

func (warmFile) WillNeed(int64, int64) {}

// Metrics estimates the space amplification. Compact shows what is right.
func TestMetrics_SpaceAmp(t *testing.T) {
	testenv.SkipRace(t)
	const n = 6000
	put := func(db *DB, every, rest, end int) {
		for i := rest; i < end; i += every {
			mustPut(t, db, fmt.Sprintf("key%06d", i*7919%1000003), strings.Repeat(fmt.Sprint(i, "."), 12))
		}
		mustFlush(t, db)
	}
	del := func(db *DB, every int) {
		for i := 0; i < n; i += every {
			mustDelete(t, db, fmt.Sprintf("key%06d", i*7919%1000003))
		}
		mustFlush(t, db)
	}
	compact := func(db *DB) {
		t.Helper()
		if err := db.Compact(t.Context(), Range{}); err != nil {
			t.Fatal(err)
		}
	}
	bytes := func(m Metrics) (all int64) {
		for _, l := range m.Levels {
			all += l.Bytes
		}
		return all
	}
	inPart := "runs that mix new keys with those of others"
	for what, write := range map[string]func(db *DB){
		inPart: func(db *DB) {
			put(db, 2, 0, n)
			put(db, 3, 0, n)
			put(db, 4, 1, n)
			put(db, 5, 1, n)
		},
		"nothing":            func(*DB) {},
		"one run":            func(db *DB) { put(db, 1, 0, n) },
		"after a compaction": func(db *DB) { put(db, 1, 0, n); put(db, 2, 0, n); compact(db) },
		"other keys, in the ranges of all runs": func(db *DB) {
			put(db, 8, 0, n)
			put(db, 8, 1, n)
			compact(db)
			for i := 2; i < 8; i++ {
				put(db, 8, i, n)
			}
		},
		"all three times":                    func(db *DB) { put(db, 1, 0, n); put(db, 1, 0, n); compact(db); put(db, 1, 0, n); put(db, 1, 0, n) },
		"every third key again":              func(db *DB) { put(db, 1, 0, n); compact(db); put(db, 3, 0, n) },
		"every third key deleted":            func(db *DB) { put(db, 1, 0, n); compact(db); del(db, 3) },
		"deleted from a run that is no last": func(db *DB) { put(db, 2, 1, n); compact(db); put(db, 2, 0, n); del(db, 2) },
		"deleted, and written again":         func(db *DB) { put(db, 1, 0, n); compact(db); del(db, 3); put(db, 3, 0, n) },
	} {
		t.Run(what, func(t *testing.T) {
			fs := vfs.FS(vfs.NewMem()) // where no blocks are sampled
			if what == inPart {
				fs = warmFS{fs}
			}
			db, err := Open("db", &Options{FS: fs, CompactionWorkers: -1, Durability: SyncManual, TableSize: 64 << 10, Compression: NoCompression})
			if err != nil {
				t.Fatal(err)
			}
			defer closeTest(t, db)
			write(db)
			m := db.Metrics()
			compact(db)
			all, live := bytes(m), bytes(db.Metrics())
			t.Logf("%.3f, of %d bytes %d are live, and %d are left", m.SpaceAmp(), all, m.LiveBytes, live)
			if want := ratio(uint64(all), uint64(live)); math.Abs(m.SpaceAmp()-want) > 0.1*want || m.LiveBytes > all {
				t.Errorf("space amplification %.2f, want %.2f", m.SpaceAmp(), want)
			}
		})
	}
}

// The bytes and syncs of logs are neither lost nor counted twice when one log follows another. At
// every operation on a log they are at least what they were before.
func TestMetrics_LogsOnlyGrow(t *testing.T) {
	mem := vfs.NewMem()
	opts := tinyStore(mem)
	opts.CompactionWorkers = -1
	db := openTest(t, &opts)
	var last Metrics
	var mu sync.Mutex
	mem.OnOp(func(op vfs.Op, name string) {
		if !strings.HasSuffix(name, ".wal") {
			return
		}
		mu.Lock()
		defer mu.Unlock()
		m := db.Metrics()
		if m.WALBytes < last.WALBytes || m.WALSyncs < last.WALSyncs {
			t.Errorf("%v of %s: %d bytes and %d syncs, before it %d and %d", op, name, m.WALBytes, m.WALSyncs, last.WALBytes, last.WALSyncs)
		}
		last = m
	})
	for i := range 40 {
		mustPut(t, db, fmt.Sprint(i), "value")
		if i%10 == 9 {
			mustFlush(t, db)
		}
	}
	mem.OnOp(nil)
	mu.Lock()
	defer mu.Unlock()
	if want := db.Metrics().WrittenBytes; last.WALBytes < want || last.WALBytes > 100*want {
		t.Errorf("%d bytes of keys and values, %d of the log", want, last.WALBytes)
	}
}

// A lookup in progress counts as a miss until it finds its key. So the misses may go down between
// two readings, and Sub gives no negative number.
func TestMetrics_SubOfLookupsUnderWay(t *testing.T) {
	earlier, later := Metrics{Gets: 7, GetHits: 2, GetMisses: 5}, Metrics{Gets: 8, GetHits: 6, GetMisses: 2}
	if d := later.Sub(earlier); d.Gets != 1 || d.GetHits != 4 || d.GetMisses != 0 {
		t.Errorf("Sub: %d lookups, %d hits, %d misses; want 1, 4 and 0", d.Gets, d.GetHits, d.GetMisses)
	}
}

// A table holds a key only in versions that are newer than a snapshot. A lookup through the snapshot
// does not find it there, but that is no false positive of the filter.
func TestMetrics_LaterVersionIsNoFalsePositive(t *testing.T) {
	db := openTest(t, small())
	mustPut(t, db, "other", "v")
	s, err := db.Snapshot()
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	for i := range 100 {
		mustPut(t, db, fmt.Sprint("key", i), "v")
	}
	mustFlush(t, db)
	for i := range 200 { // twice: the store must not remember a key as absent
		wantGet(t, s, fmt.Sprint("key", i%100), "", false)
		wantGet(t, db, fmt.Sprint("key", i%100), "v", true)
	}
	if m := db.Metrics(); m.FilterFalsePositive != 0 || m.FalsePositivesRemembered != 0 || m.FilterTruePositive < 100 {
		t.Errorf("%d false positives, %d remembered, %d true ones; want none, none and 100", m.FilterFalsePositive, m.FalsePositivesRemembered, m.FilterTruePositive)
	}
}

// Sampled lookups are spread over all keys and all sorts of lookups, whatever the order in which
// a program asks: in turns, or for keys that are scattered by a usual multiplier.
func TestSampled_AnyOrder(t *testing.T) {
	const n, parts = 1 << 18, 32
	for name, part := range map[string]func(i uint64) uint64{
		"in turns":               func(i uint64) uint64 { return i % parts },
		"rising":                 func(i uint64) uint64 { return i * parts / n },
		"by the golden ratio":    func(i uint64) uint64 { return i * 0x9e3779b97f4a7c15 / (1 << 59) },
		"the same, odd ones":     func(i uint64) uint64 { return (2*i + 1) * 0x9e3779b97f4a7c15 / (1 << 59) },
		"by a prime of xxHash":   func(i uint64) uint64 { return i * 0xc2b2ae3d27d4eb4f / (1 << 59) },
		"by one of MurmurHash":   func(i uint64) uint64 { return i * 0xff51afd7ed558ccd / (1 << 59) },
		"by Knuth's in 32 bits":  func(i uint64) uint64 { return uint64(uint32(i)*2654435769) / (1 << 27) },
		"by that of PCG and LCG": func(i uint64) uint64 { return i * 6364136223846793005 / (1 << 59) },
	} {
		var asked, taken [parts]float64
		for i := range uint64(n) {
			p := part(i)
			if asked[p]++; sampled(i) {
				taken[p] += float64(tree.SampleEvery)
			}
		}
		for p := range asked {
			if taken[p] < asked[p]*0.8 || taken[p] > asked[p]*1.2 {
				t.Errorf("%s: %.0f of %.0f lookups of part %d are counted", name, taken[p], asked[p], p)
				break
			}
		}
	}
}
