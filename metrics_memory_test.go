package shale

import (
	"context"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"runtime"
	"testing"

	"github.com/shaledb/shale/internal/offheap"
	"github.com/shaledb/shale/internal/testenv"
)

// The figures in docs/PERFORMANCE.md, "Where memory goes", come from go test -run Memory -v . and
// the tests of this file keep them within bounds.

// memoryKey returns key i of 16 bytes; the order of keys is not that of their numbers. Keys with even
// numbers are stored.
func memoryKey(i int) []byte {
	key := make([]byte, 16)
	binary.BigEndian.PutUint64(key, uint64(i)*0x9e3779b97f4a7c15)
	binary.BigEndian.PutUint64(key[8:], uint64(i))
	return key
}

// fillMemory puts n entries of 16 + 100 bytes. Half of each value is random.
func fillMemory(t *testing.T, db *DB, n int) {
	t.Helper()
	r := rand.New(rand.NewPCG(1, 1))
	value := make([]byte, 100)
	for i := range n {
		for j := 0; j < 48; j += 8 {
			binary.LittleEndian.PutUint64(value[j:], r.Uint64())
		}
		if err := db.Put(memoryKey(2*i), value); err != nil {
			t.Fatal(err)
		}
	}
}

// inBounds prints a figure and checks that it is between least and most.
func inBounds(t *testing.T, what string, got, least, most float64) {
	t.Helper()
	t.Logf("%-64s %10.2f", what, got)
	if got < least || got > most {
		t.Errorf("%s: %.2f, want %v to %v", what, got, least, most)
	}
}

// manyTables makes a store of small tables, one run in the last level, with n
// entries, and closes it.
func manyTables(t *testing.T, n int) (dir string) {
	t.Helper()
	dir = t.TempDir()
	db := mustOpen(t, dir, &Options{Durability: SyncManual, TableSize: 64 << 10, MemtableSize: 8 << 20})
	fillMemory(t, db, n)
	if err := db.Compact(context.Background(), Range{}); err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	return dir
}

// An open table takes little memory in addition to its filter and index, so that a machine can open
// a store of very many tables.
func TestMemory_Table(t *testing.T) {
	testenv.SkipRace(t)
	const n = 200_000
	dir := manyTables(t, n)
	before := heapInUse()
	empty := mustOpen(t, t.TempDir(), &Options{CacheSize: -1})
	store := heapInUse() - before
	defer runtime.KeepAlive(empty)

	before = heapInUse()
	db := mustOpen(t, dir, &Options{CacheSize: -1})
	all := heapInUse() - before
	m := db.Metrics()
	tables := 0
	var entries uint64
	for _, l := range m.Levels {
		tables += l.Tables
		entries += l.Entries
	}
	if tables < 100 || entries != n {
		t.Fatalf("%d tables with %d entries: not the store that was wanted", tables, entries)
	}
	perTable := float64(all-store-m.FilterMemory-m.IndexMemory) / float64(tables)
	inBounds(t, "KiB of heap, an open store without tables and cache", float64(store)/1024, 0, 2048)
	inBounds(t, "tables", float64(tables), 100, 1000)
	inBounds(t, "bytes of heap a table, beside filter and index", perTable, 200, 4096)
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	before = heapInUse()
	few := mustOpen(t, dir, &Options{CacheSize: -1, Tuning: Tuning{MaxOpenFiles: 16}})
	defer runtime.KeepAlive(few)
	perFile := float64(all-(heapInUse()-before)) / float64(tables-16)
	inBounds(t, "bytes of heap of them for its open file", perFile, 50, 1024)
	inBounds(t, "bits of filter a key", 8*float64(m.FilterMemory)/n, 8, 12)
	inBounds(t, "bytes of index a key", float64(m.IndexMemory)/n, 0.1, 2)

	// A lookup asks one filter a run, whatever the number of tables.
	runs := 0
	for _, l := range m.Levels {
		runs += l.Runs
	}
	const lookups = 1000
	for i := range lookups {
		if found, err := few.Has(memoryKey(2*i + 1)); found || err != nil {
			t.Fatalf("Has of an absent key: %v, %v", found, err)
		}
	}
	d := few.Metrics()
	asked := d.FilterNegative + d.FilterFalsePositive + d.FalsePositivesRemembered
	inBounds(t, fmt.Sprintf("filters asked a miss, in %d runs", runs), float64(asked)/lookups, 0, float64(runs))
}

// An entry of the memtable takes at most 240 bytes, and Metrics reports the memory of the memtable.
func TestMemory_Memtable(t *testing.T) {
	testenv.SkipRace(t)
	const n = 100_000
	db := mustOpen(t, t.TempDir(), &Options{Durability: SyncManual, MemtableSize: 64 << 20, CacheSize: -1})
	before := heapInUse()
	fillMemory(t, db, n)
	all := heapInUse() - before
	m := db.Metrics()
	if m.MemtableEntries != n {
		t.Fatalf("%d entries in the memtable, want %d", m.MemtableEntries, n)
	}
	inBounds(t, "bytes of heap an entry of 16+100 bytes in the memtable", float64(all)/n, 116, 240)
	inBounds(t, "heap over Metrics.MemtableMemory", float64(all)/float64(m.MemtableMemory), 0.8, 1.3)
}

// The cache keeps to its size, and Metrics reports its memory.
func TestMemory_Cache(t *testing.T) {
	testenv.SkipRace(t)
	dir := manyTables(t, 100_000)
	const size = 4 << 20
	db := mustOpen(t, dir, &Options{CacheSize: size})
	before := heapInUse()
	for _, err := range db.Scan(Range{}) {
		if err != nil {
			t.Fatal(err)
		}
	}
	all := heapInUse() - before
	m := db.Metrics()
	inBounds(t, "MiB in a cache of 4 MiB after a scan of 12 MB", float64(m.CacheMemory)/(1<<20), 3, 4)
	inBounds(t, "memory taken over Metrics.CacheMemory", float64(all)/float64(m.CacheMemory), 0.8, 1.5)
}

// A store that fills many memtables has at most three and a half times the size of one allocated
// outside of the heap, and nothing once it is closed.
func TestMemory_FillStaysWithin(t *testing.T) {
	const size = 4 << 20
	before := besideHeap()
	db := mustOpen(t, t.TempDir(), &Options{MemtableSize: size, Durability: SyncManual, CacheSize: -1})
	value := make([]byte, 1000)
	most := int64(0)
	n := 40_000
	if testing.Short() {
		n = 20_000 // two memtables may wait to be flushed
	}
	for i := range n {
		if err := db.Put(fmt.Appendf(nil, "key%08d", i*7919%n), value); err != nil {
			t.Fatal(err)
		}
		most = max(most, offheap.InUse()-before)
	}
	flushes := db.Metrics().Flushes
	closeTest(t, db)
	t.Logf("%.1f memtables of memory at most, %d flushes", float64(most)/size, flushes)
	if most > 3*size+size/2 || most < size/2 {
		t.Errorf("%d bytes beside the heap at most, memtables have %d", most, size)
	}
	if flushes < 2 {
		t.Errorf("%d flushes", flushes)
	}
	if left := besideHeap() - before; left != 0 {
		t.Errorf("%d bytes are left", left)
	}
}
