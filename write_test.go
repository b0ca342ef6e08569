package shale

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/shaledb/shale/internal/base"
	"github.com/shaledb/shale/memtable"
	"github.com/shaledb/shale/vfs"
)

// Several goroutines claim the same keys by PutIfAbsent, and each key goes to one of them:
// with every hash function of filters, and with and without syncs.
func TestPutIfAbsent_OneWinner(t *testing.T) {
	for _, hash := range []FilterHash{Murmur3, XXH3, SipHash} {
		for _, d := range []Durability{SyncEach, SyncManual} {
			t.Run(fmt.Sprintf("%v/%v", hash, d), func(t *testing.T) {
				o := small()
				o.Tuning.FilterHash, o.Durability = hash, d
				claimAll(t, openTest(t, o))
			})
		}
	}
}

// claimAll has goroutines claim the same keys. Each key must be won once, and have the value
// of its winner.
func claimAll(t *testing.T, db *DB) {
	const goroutines, keys = 8, 2000
	var won [goroutines]int
	var wg sync.WaitGroup
	for g := range goroutines {
		wg.Go(func() {
			for i := range keys {
				ok, err := db.PutIfAbsent(fmt.Appendf(nil, "key%05d", i), fmt.Append(nil, g))
				if err != nil {
					t.Error(err)
					return
				}
				if ok {
					won[g]++
				}
			}
		})
	}
	wg.Wait()
	sum := 0
	for _, n := range won {
		sum += n
	}
	if sum != keys {
		t.Errorf("%d claims won for %d keys", sum, keys)
	}
	counts := make([]int, goroutines)
	for e, err := range db.Scan(Range{}) {
		if err != nil {
			t.Fatal(err)
		}
		counts[e.Value[0]-'0']++
	}
	if !slices.Equal(counts, won[:]) {
		t.Errorf("values in the store %v, claims won %v", counts, won)
	}
}

// A batch that is nil or was decoded is refused before it reaches the queue. The store takes
// other writes afterwards.
func TestWrite_RefusesForeignBatches(t *testing.T) {
	db := openTest(t, small())
	own := batchOf(t, "k", SyncEach)
	_, decoded, err := DecodeBatch(own.setSeq(1))
	if err != nil {
		t.Fatal(err)
	}
	for name, b := range map[string]*Batch{"nil": nil, "decoded": decoded} {
		if err := db.Write(context.Background(), b); !errors.Is(err, ErrBatchNotWritable) {
			t.Errorf("Write of a batch that is %s = %v, want ErrBatchNotWritable", name, err)
		}
	}
	if err := decoded.Put([]byte("k"), nil); !errors.Is(err, ErrBatchNotWritable) {
		t.Errorf("Put into a decoded batch = %v, want ErrBatchNotWritable", err)
	}
	decoded.Reset()
	if err := decoded.Put([]byte("fresh"), []byte("1")); err != nil {
		t.Fatal(err)
	}
	if err := db.Write(context.Background(), decoded); err != nil {
		t.Errorf("Write of a batch that was Reset = %v", err)
	}
	wantGet(t, db, "fresh", "1", true)
	mustPut(t, db, "after", "value")
}

// A tornBatch is a batch that panics after its first operation was applied.
type tornBatch struct{ *committed }

func (b tornBatch) Apply(mem *memtable.Memtable) {
	for op := range (*Batch)(b.committed).Ops() {
		mem.Add(b.seq, base.Kind(op.Kind), op.Key, op.Value)
		break
	}
	mem.EndWrite() // the operation reaches the tree, as in a large group
	panic("by intention")
}

// A panic while a batch is applied leaves a part of it in the memtable. Resume refuses to go on
// from there, whatever the durability, because the flush that it begins with would show that
// part. The next Open finds the batch whole in the log.
func TestResume_AfterTornBatch(t *testing.T) {
	for _, durability := range []Durability{SyncEach, SyncPeriodic, SyncManual} {
		fs := vfs.NewMem()
		db := openTest(t, &Options{FS: fs, Durability: durability, OnEvent: func(Event) {}})
		mustPut(t, db, "k", "old")
		var b Batch
		for _, key := range []string{"k", "l"} {
			if err := b.Put([]byte(key), []byte("new")); err != nil {
				t.Fatal(err)
			}
		}
		func() {
			defer func() { _ = recover() }()
			r := db.commits.NewRequest()
			r.Batch = tornBatch{(*committed)(&b)}
			_ = db.commits.Commit(context.Background(), r)
		}()
		for range 2 {
			if err := db.Resume(); !errors.Is(err, ErrReadOnly) || !strings.Contains(err.Error(), "open it again") {
				t.Errorf("durability %d: Resume = %v, want ErrReadOnly and what to do", durability, err)
			}
			if err := db.Flush(context.Background()); !errors.Is(err, ErrReadOnly) {
				t.Errorf("durability %d: Flush = %v, want ErrReadOnly", durability, err)
			}
		}
		wantGet(t, db, "k", "old", true)
		wantGet(t, db, "l", "", false)
		if err := db.Close(); !errors.Is(err, ErrReadOnly) {
			t.Errorf("durability %d: Close = %v, want ErrReadOnly", durability, err)
		}
		db = openTest(t, &Options{FS: fs})
		got, _ := db.Get([]byte("k"))
		has, _ := db.Has([]byte("l"))
		if string(got) == "new" != has {
			t.Errorf("durability %d: after Open k is %q and l there: %v: a part of the batch", durability, got, has)
		}
		closeTest(t, db)
	}
}
