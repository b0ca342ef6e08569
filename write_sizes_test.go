package shale

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

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

// TestWrite_LargeBatchBlocksNoReader reads while large batches are committed: one of many puts,
// and one of few large values. It prints the longest Get, and checks it with SHALE_LONG, which
// is for machines that do nothing else. It also limits the bytes that a commit allocates. That
// a commit lets readers in between is what TestAdd_LeavesReadersRoom of package memtable holds.
func TestWrite_LargeBatchBlocksNoReader(t *testing.T) {
	puts, values := 100_000, 4
	if testenv.Long(t) > 0 {
		puts, values = 1_000_000, 60
	}
	for _, c := range []struct{ n, size int }{{puts, 16}, {values, 4 << 20}} {
		t.Run(fmt.Sprintf("%d of %d bytes", c.n, c.size), func(t *testing.T) {
			db, err := Open(t.TempDir(), &Options{Durability: SyncManual, MemtableSize: 1 << 30})
			if err != nil {
				t.Fatal(err)
			}
			defer closeTest(t, db)
			mustPut(t, db, "key", "value")
			b := new(Batch)
			value := make([]byte, c.size)
			for i := range c.n {
				if err := b.Put(fmt.Appendf(nil, "key%09d", i*7919%c.n), value); err != nil {
					t.Fatal(err)
				}
			}
			var longest atomic.Int64
			var gets int
			var stop atomic.Bool
			var wg sync.WaitGroup
			wg.Go(func() {
				key, dst := []byte("key"), make([]byte, 0, 16)
				for !stop.Load() {
					begin := time.Now()
					_, err := db.AppendValue(dst, key) // allocates nothing
					longest.Store(max(longest.Load(), int64(time.Since(begin))))
					if gets++; err != nil {
						t.Error(err)
						return
					}
				}
			})
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			begin := time.Now()
			err = db.Write(context.Background(), b)
			took := time.Since(begin)
			stop.Store(true)
			wg.Wait()
			runtime.ReadMemStats(&after)
			if err != nil {
				t.Fatal(err)
			}
			allocated := int64(after.TotalAlloc - before.TotalAlloc)
			t.Logf("a batch of %d bytes takes %v and %d bytes of heap; %d Gets beside it, the longest %v",
				b.Size(), took, allocated, gets, time.Duration(longest.Load()))
			// The tree of the memtable takes 60 bytes an entry or so.
			if limit := int64(c.n)*150 + 1<<20; !testenv.Race && allocated > limit {
				t.Errorf("a batch of %d bytes takes %d bytes of heap, want at most %d", b.Size(), allocated, limit)
			}
			if testenv.Long(t) > 0 && longest.Load() > int64(20*time.Millisecond) {
				t.Errorf("a Get took %v, want at most 20ms", time.Duration(longest.Load()))
			}
		})
	}
}
