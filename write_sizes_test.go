package shale

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"testing"

	"github.com/shaledb/shale/internal/testenv"
	"github.com/shaledb/shale/vfs"
)

// Keys and values have the sizes at which something changes: the width of a length, a
// fragment and a block of the log, a memtable, the log's reserved space, a table. They are
// found in memtables, in tables, and in the log after a crash.
func TestPut_EverySize(t *testing.T) {
	for _, noMap := range []bool{false, true} {
		for _, compression := range []Compression{Snappy, NoCompression, Zstd} {
			if testing.Short() && noMap == (compression == Zstd) || testenv.Race && (noMap || compression != Snappy) {
				continue // half of the cases, or one of them
			}
			t.Run(fmt.Sprintf("without mapping %v, compression %v", noMap, compression), func(t *testing.T) {
				putSizes(t, noMap, compression)
			})
		}
	}
}

func putSizes(t *testing.T, noMap bool, compression Compression) {
	mem := vfs.NewMem()
	opts := &Options{FS: mem, MemtableSize: 64 << 10, TableSize: 64 << 10, BlockSize: 1 << 10, CacheSize: 1 << 20, Compression: compression,
		Durability: SyncManual, testing: testOptions{noMap: noMap, baseSize: 128 << 10}}
	db := openTest(t, opts)
	r := rand.New(rand.NewPCG(9, uint64(len(compression.String()))))
	contents := make(map[string][]byte)
	put := func(keySize, valueSize int) {
		key, value := make([]byte, keySize), make([]byte, valueSize)
		for i := range key {
			key[i] = byte(r.Uint32())
		}
		for i := range value[:valueSize/2] { // half of it can be compressed
			value[i] = byte(r.Uint32())
		}
		if err := db.Put(key, value); err != nil {
			t.Fatalf("Put of %d and %d bytes: %v", keySize, valueSize, err)
		}
		contents[string(key)] = value
	}
	for _, n := range []int{0, 1, 15, 16, 127, 128, 255, 256, 1023, 1024, 4095, 16383, 16384, 32700, 32768, MaxKeySize - 1, MaxKeySize} {
		put(n, n%7)
		put(n, 200)
	}
	for _, n := range []int{32768 - 50, 32768, 65535, 65536, 72 << 10, 200 << 10, 1 << 20, 3<<20 + 1} {
		for around := range 3 {
			put(20, n-1+around)
		}
	}
	check := func(when string) {
		t.Helper()
		n := 0
		for _, rng := range []Range{{}, {Reverse: true}} {
			for e, err := range db.Scan(rng) {
				if err != nil {
					t.Fatalf("%s: %v", when, err)
				}
				if want, ok := contents[string(e.Key)]; !ok || !bytes.Equal(e.Value, want) {
					t.Errorf("%s: Scan gives a value of %d bytes for a key of %d, want %d", when, len(e.Value), len(e.Key), len(want))
				}
				n++
			}
		}
		if n != 2*len(contents) {
			t.Errorf("%s: %d entries in two scans, want %d", when, n, 2*len(contents))
		}
		for k, v := range contents {
			if got, err := db.Get([]byte(k)); err != nil || !bytes.Equal(got, v) {
				t.Errorf("%s: Get of a key of %d bytes: %d bytes, %v; want %d", when, len(k), len(got), err, len(v))
			}
			if len(k) > 0 && len(k) < MaxKeySize {
				if has, err := db.Has(append([]byte(k), 0)); has || err != nil {
					t.Errorf("%s: Has of a key of %d bytes and a zero: %v, %v", when, len(k), has, err)
				}
			}
		}
	}
	check("written")
	killed := mem.Crash(vfs.CrashConfig{Policy: vfs.KeepAll, Names: vfs.NamesKeep})
	if err := db.Compact(context.Background(), Range{}); err != nil {
		t.Fatal(err)
	}
	check("compacted")
	closeTest(t, db)
	db = openTest(t, opts)
	check("opened again")
	opts.FS = killed
	db = openTest(t, opts)
	check("opened after a crash")
}

// A key or a value that is too large is refused before it is copied, and leaves a batch as it
// was. Lookups of a key that is too large find nothing.
func TestPut_RefusesSizes(t *testing.T) {
	if testenv.Race {
		t.Skip("the race detector touches all memory")
	}
	db := openTest(t, small())
	huge := make([]byte, MaxValueSize+1) // its memory is never touched, so that it takes none
	var b Batch
	mustPut(t, &b, "a", "1")
	size := b.Size()
	for name, w := range map[string]Writer{"DB": db, "Batch": &b} {
		if err := w.Put([]byte("k"), huge); !errors.Is(err, ErrValueTooLarge) {
			t.Errorf("%s.Put of %d bytes: %v, want ErrValueTooLarge", name, len(huge), err)
		}
		for _, err := range []error{w.Put(huge[:MaxKeySize+1], nil), w.Delete(huge[:MaxKeySize+1])} {
			if !errors.Is(err, ErrKeyTooLarge) {
				t.Errorf("%s with a key of %d bytes: %v, want ErrKeyTooLarge", name, MaxKeySize+1, err)
			}
		}
	}
	if _, err := db.PutIfAbsent(huge[:MaxKeySize+1], nil); !errors.Is(err, ErrKeyTooLarge) {
		t.Errorf("PutIfAbsent: %v, want ErrKeyTooLarge", err)
	}
	if b.Len() != 1 || b.Size() != size {
		t.Errorf("the batch has %d operations of %d bytes, had 1 of %d", b.Len(), b.Size(), size)
	}
	full := Batch{data: make([]byte, MaxBatchSize-100), count: 1}
	if err := full.Put([]byte("k"), huge[:100]); !errors.Is(err, ErrValueTooLarge) || full.Len() != 1 {
		t.Errorf("Put into a full batch: %v, want ErrValueTooLarge", err)
	}
	// A key that is too large is absent, wherever it is asked for.
	long := huge[:MaxKeySize+1]
	wantGet(t, db, string(long), "", false)
	it := db.NewIterator(Range{Lower: long, Upper: huge[:MaxKeySize+2]})
	if it.First() || it.SeekLT(long) || it.SeekGE(long) || it.Err() != nil {
		t.Errorf("an iterator over keys that are too large: %v", it.Err())
	}
	if err := it.Close(); err != nil {
		t.Error(err)
	}
}

// Values that fit into the memory of the ones before allocate next to nothing.
func TestPut_LargeAllocatesNothing(t *testing.T) {
	if testenv.Race {
		t.Skip("the race detector has pools forget at random")
	}
	db, err := Open(t.TempDir(), &Options{MemtableSize: 256 << 20}) // a file in memory would grow
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	value := make([]byte, 1<<20)
	put := func() {
		if err := db.Put([]byte("key"), value); err != nil {
			t.Fatal(err)
		}
	}
	put()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for range 20 {
		put()
	}
	runtime.ReadMemStats(&after)
	if n := after.TotalAlloc - before.TotalAlloc; n > 8<<20 { // the collector may empty the pool
		t.Errorf("20 values of 1 MiB allocated %d bytes", n)
	}
}
