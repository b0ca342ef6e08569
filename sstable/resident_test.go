package sstable

import (
	"encoding/binary"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/shaledb/shale/bloom"
	"github.com/shaledb/shale/internal/base"
)

// TestResident_FreedBehindLookups looks keys up in tables whose index and filter are off the
// heap. Meanwhile indexes and filters are dropped, loaded and replaced, tables are opened again, and the
// old ones are collected. Memory that is freed too early causes a fault.
func TestResident_FreedBehindLookups(t *testing.T) {
	const n = 50_000
	list := make([]entry, n)
	for i := range list {
		key := make([]byte, 16)
		binary.BigEndian.PutUint64(key, uint64(i))
		list[i] = entry{base.InternalKey{UserKey: key, Trailer: base.NewTrailer(1, base.KindPut)}, nil}
	}
	b, info := writeFile(t, WriterOptions{Num: testNum, StoreID: testStore, FilterBits: 24, BlockSize: 256}, list)
	open := func() *Reader {
		r, err := openFile(b, info)
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	var table atomic.Pointer[Reader]
	table.Store(open())
	if r := table.Load(); r.index.Load().offHeap < residentLarge || r.filter.Load().offHeap < residentLarge {
		t.Fatalf("%d bytes of index and %d of filter lie beside the heap", r.index.Load().offHeap, r.filter.Load().offHeap)
	}
	var wg sync.WaitGroup
	done := make(chan struct{})
	for g := range 4 {
		wg.Go(func() {
			for i := g; ; i++ {
				select {
				case <-done:
					return
				default:
				}
				key := list[i%n].key.UserKey
				if f := table.Load().Filter(); f != nil && !f.MayContainHash(bloom.Hash(key)) {
					t.Errorf("the filter denies key %d", i%n)
					return
				}
				if _, _, found, err := get(table.Load(), key, base.MaxSeq); !found || err != nil {
					t.Errorf("key %d: %v, %v", i%n, found, err)
					return
				}
			}
		})
	}
	for range 12 {
		r := table.Load()
		r.DropSecondUnit()
		r.DropIndex()
		runtime.GC()
		if err := r.LoadIndex(); err != nil {
			t.Error(err)
		}
		if _, err := r.LoadFilter(false); err != nil {
			t.Error(err)
		}
		r.DropFilter()
		runtime.GC()
		if _, err := r.LoadFilter(true); err != nil {
			t.Error(err)
		}
		table.Store(open())
		r.Retire()
		runtime.GC()
	}
	close(done)
	wg.Wait()
}
