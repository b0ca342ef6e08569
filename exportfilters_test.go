package shale

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"

	"github.com/shaledb/shale/bundle"
	"github.com/shaledb/shale/internal/testenv"
)

// exportTest exports the filters of db, and opens the bundle.
func exportTest(t testing.TB, db *DB) (*bundle.Bundle, ExportInfo) {
	t.Helper()
	var w bytes.Buffer
	info, err := db.Inspect().ExportFilters(context.Background(), &w)
	if err != nil {
		t.Fatalf("ExportFilters: %v", err)
	}
	b, err := bundle.Open(w.Bytes())
	if err == nil {
		err = b.Err()
	}
	if err != nil {
		t.Fatalf("the bundle of %+v: %v", info, err)
	}
	if info.Bytes != int64(w.Len()) || info.Seq != b.Seq() || info.Runs != b.Runs() || info.Tables != b.Tables() || info.Keys != b.Keys() || b.StoreID() != db.storeID {
		t.Fatalf("%+v of a bundle of %d bytes, sequence number %d, %d runs, %d tables, %d keys, store %x of %x",
			info, w.Len(), b.Seq(), b.Runs(), b.Tables(), b.Keys(), b.StoreID(), db.storeID)
	}
	return b, info
}

// Bundles are made while a goroutine writes and deletes, and flushes and compactions run. Each answers
// maybe for every key that was there at the bundle's sequence number. As there is one writer, the
// sequence numbers are those of its operations, from 1 up.
func TestExportFilters_Meanwhile(t *testing.T) {
	testenv.CheckLeaks(t)
	rng := rand.New(rand.NewPCG(testenv.Seed(t), 4))
	ops, keys := 30_000, 700
	if testing.Short() || testenv.Race {
		ops = 6000
	}
	if testenv.Long(t) > 0 {
		ops *= 20
	}
	opts := small()
	opts.MemtableSize, opts.CompactionWorkers = 8<<10, 2
	db := openTest(t, opts)
	type op struct {
		key     uint16
		deleted bool
	}
	history := make([]op, 1, ops+1)
	for range ops {
		history = append(history, op{uint16(rng.IntN(keys)), rng.IntN(2) == 0})
	}
	key := func(k uint16) []byte { return fmt.Appendf(nil, "key%05d", k) }
	var wg sync.WaitGroup
	done := make(chan struct{})
	wg.Go(func() {
		defer close(done)
		for _, o := range history[1:] {
			var err error
			if o.deleted {
				err = db.Delete(key(o.key))
			} else {
				err = db.Put(key(o.key), make([]byte, 40))
			}
			if err != nil {
				t.Error(err)
				return
			}
		}
	})
	bundles, asked, memtables := 0, 0, 0
	for writing := true; writing && !t.Failed(); bundles++ {
		select {
		case <-done:
			writing = false
		default:
		}
		b, info := exportTest(t, db)
		memtables += info.Memtables
		there := make([]bool, keys)
		for _, o := range history[1 : info.Seq+1] {
			there[o.key] = !o.deleted
		}
		for k := range uint16(keys) {
			if there[k] && !b.MayContain(key(k)) {
				t.Errorf("bundle %d, at sequence number %d, denies %s, which was there", bundles, info.Seq, key(k))
			}
		}
		asked += keys
	}
	wg.Wait()
	if n := uint64(db.commits.Visible()); n != uint64(ops) {
		t.Fatalf("%d operations have sequence numbers up to %d", ops, n)
	}
	t.Logf("%d bundles while %d operations went on, %d keys asked, %d runs of memtables; %d flushes", bundles, ops, asked, memtables, db.Metrics().Flushes)
}
