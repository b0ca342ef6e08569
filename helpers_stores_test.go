package shale

import (
	"bufio"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/shaledb/shale/bloom"
	"github.com/shaledb/shale/internal/offheap"
	"github.com/shaledb/shale/internal/testenv"
	"github.com/shaledb/shale/vfs"
	"github.com/shaledb/shale/vfs/faultfs"
)

// readStore opens a store with entries in two levels or more, in level 0 and in the
// memtable. All its blocks are cached.
func readStore(tb testing.TB) *DB {
	tb.Helper()
	opts := small()
	opts.CacheSize, opts.CompactionWorkers = 64<<20, -1
	db := openTest(tb, opts)
	fill(tb, db, 20000, 0)
	settle(tb, db)
	for len(levelsInUse(db)) < 2 { // all entries went down to the last level
		fill(tb, db, 5000, 1)
		settle(tb, db)
	}
	fill(tb, db, 500, 1)
	mustFlush(tb, db)
	mustPut(tb, db, "key000000", "in the memtable")
	for range db.Scan(Range{}) {
		continue // fills the cache
	}
	if levels := levelsInUse(db); len(levels) < 3 || levels[0] != 0 {
		tb.Fatalf("the tree has levels %v; want level 0 and two more", levels)
	}
	return db
}

// missStore returns a store of n keys in levels where no compaction is due, and as many
// runs in level 0 as young says.
func missStore(tb testing.TB, n, young int) *DB {
	tb.Helper()
	opts := &Options{MemtableSize: 4 << 20, TableSize: 4 << 20, CacheSize: 1 << 30, Durability: SyncManual, CompactionWorkers: -1}
	db := openTest(tb, opts)
	var b Batch
	var key []byte
	put := func(from, to int) {
		for i := from; i < to; i++ {
			key = missKey(key, 2*uint64(i)*0x2545f4914f6cdd1d&(1<<32-1))
			if err := b.Put(key, make([]byte, 32)); err != nil {
				tb.Fatal(err)
			}
			if b.Len() == 1000 || i == to-1 {
				if err := db.Write(db.life.Context, &b); err != nil {
					tb.Fatal(err)
				}
				b.Reset()
			}
		}
	}
	for i := range 10 {
		put(n*i/10, n*(i+1)/10)
		settle(tb, db)
	}
	if err := db.Compact(db.life.Context, Range{}); err != nil { // level 0 may keep runs
		tb.Fatal(err)
	}
	for i := range young {
		put(n+i*n/500, n+(i+1)*n/500)
		mustFlush(tb, db)
	}
	return db
}

// missKey writes key i of 2^32 scattered keys of 16 bytes. missStore stores keys with even
// numbers; those with odd numbers are absent and lie between them.
func missKey(dst []byte, i uint64) []byte {
	var b [8]byte
	binary.BigEndian.PutUint64(b[:], i*0x9e3779b97f4a7c15)
	return hex.AppendEncode(dst[:0], b[:])
}

// dataLines returns every step-th line of a file in ../shared/data, or skips the test if
// this machine does not have it.
func dataLines(t *testing.T, name string, step int) [][]byte {
	t.Helper()
	f, err := os.Open(testenv.Shared(t, "data/"+name))
	if err != nil {
		t.Fatal(err)
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

// load writes the keys in random order and calls settle several times on the way. The last
// time is so early that level 0 has some runs at the end.
func load(t *testing.T, opts *Options, keys [][]byte, times int) *DB {
	t.Helper()
	db := openTest(t, opts)
	rng := rand.New(rand.NewPCG(1, uint64(len(keys))))
	var b Batch
	write := func() {
		if err := db.Write(db.life.Context, &b); err != nil {
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

// valueOf returns the value that load writes for a key.
func valueOf(key []byte) string { return fmt.Sprintf("%032x", bloom.Hash(key)) }

// slowTables makes a file system in memory on which each write and sync of a table takes as
// long as d says at that moment.
func slowTables(d func() time.Duration) vfs.FS {
	return faultfs.New(vfs.NewMem(), func(op vfs.Op, name string, _ int64) error {
		if strings.HasSuffix(name, ".sst") && (op == vfs.OpWrite || op == vfs.OpSync) {
			time.Sleep(d())
		}
		return nil
	})
}

// longestPut writes n entries, each as soon as the one before has returned, and returns how
// long the slowest of them took.
func longestPut(t *testing.T, db *DB, n int) (longest time.Duration) {
	t.Helper()
	value := make([]byte, 200)
	for i := range n {
		begin := time.Now()
		if err := db.Put(fmt.Appendf(nil, "key%08d", i*7919%n), value); err != nil {
			t.Fatal(err)
		}
		longest = max(longest, time.Since(begin))
	}
	return longest
}

// allocationsOf returns how many allocations a call of f makes. The runtime counts those of
// all goroutines, and sometimes another one allocates too, such as a cleanup for a store of
// an earlier test. So this is the smallest of several measurements.
func allocationsOf(f func()) float64 {
	least := math.Inf(1)
	for range 5 {
		if least = min(least, testing.AllocsPerRun(3, f)); least == 0 {
			break
		}
	}
	return least
}

// heapInUse returns the bytes of live objects in the heap, and of memory that the store
// allocates outside of it.
func heapInUse() int64 {
	beside := besideHeap()
	if testenv.Race || runtime.GOOS == "windows" {
		beside = 0 // there package offheap allocates in the heap
	}
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc) + beside
}

// besideHeap returns the bytes that package offheap has allocated, after collections have
// freed what nothing uses.
func besideHeap() int64 {
	for last := int64(-1); ; {
		runtime.GC()
		time.Sleep(time.Millisecond) // cleanups have a goroutine of their own
		n := offheap.InUse()
		if n == last {
			return n
		}
		last = n
	}
}
