package shale

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/shaledb/shale/internal/testenv"
	"github.com/shaledb/shale/vfs"
)

// An error of the function ends GetMany, even if it is ErrNotFound. GetMany must not take it for its own
// answer, not even for a key that it looks up later than others: the first five are not in the cache, and
// the values of the others fill a batch.
func TestGetMany_ErrNotFoundOfFn(t *testing.T) {
	testenv.SkipRace(t)
	db := openTest(t, &Options{FS: vfs.NewMem(), CacheSize: -1})
	var keys [][]byte
	for i := range 10 {
		key := fmt.Appendf(nil, "key%02d", 9-i)
		mustPut(t, db, string(key), strings.Repeat("v", 1<<20))
		keys = append(keys, key)
		if i == 4 {
			mustFlush(t, db)
		}
	}
	calls := make(map[int]int)
	for i := range keys {
		err := db.GetMany(keys, func(j int, value []byte, found bool) error {
			calls[j]++
			if !found || len(value) != 1<<20 {
				t.Errorf("key %d: found %v, %d bytes", j, found, len(value))
			}
			if j == i {
				return ErrNotFound
			}
			return nil
		})
		if err != ErrNotFound {
			t.Errorf("GetMany = %v, want the error that fn returned for key %d", err, i)
		}
		if calls[i] != 1 || len(calls) != i+1 {
			t.Errorf("fn was called %v times, and was to end it at key %d", calls, i)
		}
		clear(calls)
	}
}

// A slowFS takes a millisecond for each read, and records how many reads run at the same time.
type slowFS struct {
	vfs.FS
	under, most atomic.Int32
}

type slowFile struct {
	vfs.File
	fs *slowFS
}

func (fs *slowFS) Open(name string) (vfs.File, error) {
	f, err := fs.FS.Open(name)
	return slowFile{f, fs}, err
}

func (f slowFile) ReadAt(b []byte, off int64) (int, error) {
	n := f.fs.under.Add(1)
	defer f.fs.under.Add(-1)
	for m := f.fs.most.Load(); n > m && !f.fs.most.CompareAndSwap(m, n); m = f.fs.most.Load() {
	}
	time.Sleep(time.Millisecond)
	return f.File.ReadAt(b, off)
}

// Blocks that are not cached are read several at a time, and once for all their keys. Each key counts
// as one lookup.
func TestGetMany_Cold(t *testing.T) {
	const n = 4000
	fs := &slowFS{FS: vfs.NewMem()}
	opts := tinyStore(fs)
	opts.CacheSize, opts.CompactionWorkers, opts.MemtableSize, opts.TableSize = -1, -1, 1<<20, 64<<10
	db := openTest(t, &opts)
	fill(t, db, n, 0)
	settle(t, db)
	blocks := uint64(0)
	for _, info := range db.Inspect().Tables() {
		blocks += uint64(info.Size) / uint64(opts.BlockSize) // a lower bound, as blocks are compressed
	}
	var keys [][]byte
	for i := range n {
		keys = append(keys, fmt.Appendf(nil, "key%06d", i), fmt.Appendf(nil, "key%06dx", i))
	}
	rand.New(rand.NewPCG(1, 2)).Shuffle(len(keys), func(i, j int) { keys[i], keys[j] = keys[j], keys[i] })
	fs.most.Store(0)
	before := db.Metrics()
	found := 0
	err := db.GetMany(keys, func(i int, value []byte, ok bool) error {
		if ok != !bytes.HasSuffix(keys[i], []byte("x")) || ok && !bytes.HasPrefix(value, []byte("value ")) {
			t.Errorf("%q is %q, %v", keys[i], value, ok)
		}
		if ok {
			found++
		}
		return nil
	})
	m := db.Metrics().Sub(before)
	if err != nil || found != n || m.Gets != 2*n || m.GetHits != n {
		t.Errorf("%v, %d found; %d lookups, %d hits", err, found, m.Gets, m.GetHits)
	}
	if fs.most.Load() < coldReaders/2 {
		t.Errorf("%d reads at a time, want up to %d", fs.most.Load(), coldReaders)
	}
	if most := n / 10; m.BlockReads > uint64(most) {
		t.Errorf("%d reads for %d keys side by side, want at most %d", m.BlockReads, n, most)
	}
	t.Logf("%d reads, up to %d at a time", m.BlockReads, fs.most.Load())
}

// GetMany returns the error of a read in one of its goroutines.
func TestGetMany_ReadError(t *testing.T) {
	mem := vfs.NewMem()
	opts := small()
	opts.FS, opts.CacheSize, opts.CompactionWorkers = mem, -1, -1
	db := mustOpen(t, "db", opts) // openTest would verify the damaged tables
	fill(t, db, 3000, 0)
	mustFlush(t, db)
	var keys [][]byte
	for i := range 3000 {
		keys = append(keys, fmt.Appendf(nil, "key%06d", i))
	}
	for name, data := range storeFiles(t, mem) {
		if strings.HasSuffix(name, ".sst") {
			if err := writeFile(mem, db.path(name), bytes.Repeat([]byte{1}, len(data))); err != nil {
				t.Fatal(err)
			}
		}
	}
	var damage *CorruptionError
	if err := db.GetMany(keys, func(int, []byte, bool) error { return nil }); !errors.As(err, &damage) {
		t.Errorf("GetMany of damaged tables = %v", err)
	}
}

// The memory that GetMany allocates does not grow with the number and the size of the values. It hands
// out all of them, in order.
func TestGetMany_CopiesFewAtATime(t *testing.T) {
	testenv.SkipRace(t)
	for _, c := range []struct {
		keys, size, large int // one value of 500 is large
		most              uint64
	}{
		{5000, 4 << 10, 4 << 10, 32 << 20},
		{12, 3 << 20, 3 << 20, 32 << 20}, // the values of the first batch exceed its limit of bytes
		{4000, 100, 4 << 20, 48 << 20},   // one of 500 is large
	} {
		for _, tables := range []bool{false, true} { // with tables, half of the entries are in one
			opts := &Options{FS: vfs.NewMem(), CacheSize: 1 << 20, MemtableSize: 256 << 20, Compression: NoCompression,
				CompactionWorkers: -1, Durability: SyncManual}
			db := openTest(t, opts)
			keys := make([][]byte, c.keys)
			size := func(i int) int {
				if i%500 == 499 {
					return c.large
				}
				return c.size
			}
			value, total := make([]byte, max(c.size, c.large)), 0
			for i := range keys {
				keys[i] = fmt.Appendf(nil, "key%06d", i*7919%c.keys)
				binary.LittleEndian.PutUint32(value, uint32(i))
				total += size(i)
				if err := db.Put(keys[i], value[:size(i)]); err != nil {
					t.Fatal(err)
				}
				if tables && i == c.keys/2 {
					mustFlush(t, db)
				}
			}
			next := 0
			before := db.Metrics()
			var begin, end runtime.MemStats
			runtime.ReadMemStats(&begin)
			err := db.GetMany(keys, func(i int, value []byte, found bool) error {
				if i != next || !found || len(value) != size(i) || binary.LittleEndian.Uint32(value) != uint32(i) {
					return fmt.Errorf("key %d after %d: found %v, %d bytes", i, next, found, len(value))
				}
				next++
				return nil
			})
			runtime.ReadMemStats(&end)
			if err != nil || next != len(keys) {
				t.Errorf("%+v: %v after %d keys", c, err, next)
			}
			if m := db.Metrics().Sub(before); m.Gets != uint64(c.keys) || m.GetHits != m.Gets {
				t.Errorf("%+v: %d lookups, %d hits", c, m.Gets, m.GetHits)
			}
			took := end.TotalAlloc - begin.TotalAlloc
			t.Logf("%+v, tables %v: allocated %d MB for %d MB of values", c, tables, took>>20, total>>20)
			if !tables && took > c.most {
				t.Errorf("%+v: allocated %d bytes for %d bytes of values, want %d at most", c, took, total, c.most)
			}
			closeTest(t, db)
		}
	}
}

// mixedStore has tables in several levels with different hash functions and kinds of filters, tables
// without a filter, and keys in the memtable. manyTables: the last run has more than 64 tables.
func mixedStore(t *testing.T, manyTables bool) (db *DB, keys [][]byte) {
	t.Helper()
	opts := tinyStore(vfs.NewMem())
	opts.CompactionWorkers = -1
	for round, choice := range []struct {
		hash FilterHash
		kind FilterKind
		bits float64
	}{{Murmur3, BlockedFilter, 10}, {XXH3, FuseFilter, 8}, {Murmur3, BlockedFilter, -1}, {SipHash, BlockedFilter, 20}} {
		opts.Tuning.FilterHash, opts.Tuning.LastLevelFilter, opts.FilterBits = choice.hash, choice.kind, choice.bits
		db = openTest(t, &opts)
		n := 2000
		switch {
		case round == 0 && manyTables:
			n = 30_000
		case round == 2:
			n = 50 // few keys, so that most are not in a table without a filter
		}
		for i := range n {
			key := fmt.Appendf(nil, "key%d-%06d", round, i*7919%n)
			if mustPut(t, db, string(key), "value"); i%5 == 0 {
				keys = append(keys, key, append(key, 'x'))
			}
		}
		mustFlush(t, db)
		if round == 3 { // a later flush would change which absent keys pass
			for i := range 20 {
				key := fmt.Appendf(nil, "new%d", i)
				mustPut(t, db, string(key), "value")
				keys = append(keys, key, append(key, 'x'))
			}
			break
		}
		if round == 0 {
			if err := db.Compact(t.Context(), Range{}); err != nil {
				t.Fatal(err)
			}
		}
		if err := db.Close(); err != nil {
			t.Fatal(err)
		}
	}
	rand.Shuffle(len(keys), func(i, j int) { keys[i], keys[j] = keys[j], keys[i] })
	return db, append(keys, nil, []byte("a"), []byte("z"))
}

// MayContainMany has the answers of MayContain, whatever the tables, the filters and the number of
// keys, and says maybe where there is no key.
func TestMayContainMany(t *testing.T) {
	testenv.SkipRace(t)
	for _, manyTables := range []bool{false, true} {
		db, keys := mixedStore(t, manyTables)
		widest := 0
		for _, r := range db.mems.View().Runs {
			widest = max(widest, len(r.Tables))
		}
		if widest < 5 || manyTables != (widest > 64) {
			t.Fatalf("the widest run has %d tables", widest)
		}
		want, absent := make([]bool, len(keys)), 0
		for i, key := range keys {
			if want[i] = db.MayContain(key); !want[i] {
				absent++
			}
		}
		if absent < len(keys)/4 || absent > len(keys)/2+3 {
			t.Fatalf("%d of %d keys are certainly absent", absent, len(keys))
		}
		for _, n := range []int{0, 1, 2, 64, 255, 256, 257, 1000, len(keys)} {
			for _, first := range []int{0, len(keys) - n} {
				for _, outs := range []int{n, n / 2, n + 3} {
					out := make([]bool, outs)
					db.MayContainMany(keys[first:first+n], out)
					for i, maybe := range out {
						if maybe != (i >= n || want[first+i]) {
							t.Fatalf("%d keys from %d, %d answers: answer %d is %v", n, first, outs, i, maybe)
						}
					}
				}
			}
		}
	}
}

// GetMany finds what Get finds, and the metrics count the same.
func TestGetMany_CountsLikeGet(t *testing.T) {
	testenv.SkipRace(t)
	for _, manyTables := range []bool{false, true} {
		db, keys := mixedStore(t, manyTables)
		for _, n := range []int{1, 300, len(keys)} {
			some := keys[len(keys)-n:]
			for _, key := range some { // fill the cache, and the memory of false positives
				if _, err := db.Has(key); err != nil {
					t.Fatal(err)
				}
			}
			before := db.Metrics()
			values := make([][]byte, n)
			for i, key := range some {
				values[i], _ = db.Get(key)
			}
			middle := db.Metrics()
			err := db.GetMany(some, func(i int, value []byte, found bool) error {
				if found != (values[i] != nil) || !bytes.Equal(value, values[i]) {
					t.Errorf("%d tables: %q = %q, %v; want %q", len(db.Inspect().Tables()), some[i], value, found, values[i])
				}
				return nil
			})
			if err != nil {
				t.Fatal(err)
			}
			one, many := middle.Sub(before), db.Metrics().Sub(middle)
			type counts struct{ lookups, hits, no, yes, wrong, remembered, without uint64 }
			count := func(m Metrics) counts {
				return counts{m.Gets, m.GetHits, m.FilterNegative, m.FilterTruePositive, m.FilterFalsePositive, m.FalsePositivesRemembered, m.NoFilter}
			}
			if count(one) != count(many) {
				t.Errorf("%d keys: GetMany counts %+v, Get %+v", n, count(many), count(one))
			}
		}
	}
}

// The keys that the filter of a table denies count for that table, whether many of them come at once or
// few, all of one table or not, and whether a run has few tables or many.
func TestGetMany_CountsForTables(t *testing.T) {
	testenv.SkipRace(t)
	for _, manyTables := range []bool{false, true} {
		db, _ := mixedStore(t, manyTables)
		for _, c := range []struct{ keys, span int }{{7, 30_000}, {1000, 30_000}, {1000, 10}} {
			asked := make([][]byte, c.keys)
			before, begin := db.Metrics(), sumNegatives(db)
			for n := 0; n < 20_000; n += c.keys {
				for i := range asked {
					asked[i] = fmt.Appendf(nil, "key%d-%06dx%d", i%4, rand.IntN(c.span), n+i)
				}
				if err := db.GetMany(asked, func(int, []byte, bool) error { return nil }); err != nil {
					t.Fatal(err)
				}
			}
			no, counted := float64(db.Metrics().Sub(before).FilterNegative), float64(sumNegatives(db)-begin)
			if no < 3000 || counted < 0.9*no || counted > 1.1*no {
				t.Errorf("many tables %v, %+v: the tables count %.0f negatives, the levels %.0f", manyTables, c, counted, no)
			}
		}
	}
}

// sumNegatives returns how many negatives the tables count.
func sumNegatives(db *DB) (sum uint64) {
	for table := range db.mems.View().Tables() {
		sum += table.Negatives.Load()
	}
	return sum
}
