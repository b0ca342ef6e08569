package shale

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/shaledb/shale/bundle"
	"github.com/shaledb/shale/internal/testenv"
	"github.com/shaledb/shale/vfs"
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

// An exportOracle asks the bundle of a store about the same keys as the store.
type exportOracle struct {
	filterOracle
	equal     int // absent keys for which bundle and store had to give the same answer
	bundles   int
	memtables int // runs of bundles that were made from memtables
	noFilter  int // tables of bundles without a filter
	maybe     int // absent keys that the bundle answered maybe
}

// compare exports the filters, and compares the answers of the bundle with those of the store.
func (o *exportOracle) compare(when string) {
	o.t.Helper()
	b, info := exportTest(o.t, o.db)
	o.bundles++
	o.memtables += info.Memtables
	o.noFilter += info.NoFilter
	for _, key := range o.present {
		if !b.MayContain(key) {
			o.t.Fatalf("%s, %s: the bundle denies %.60q, which is there", o.name, when, key)
		}
	}
	o.yes += len(o.present)
	same := info.Memtables == 0 && o.allResident()
	for _, key := range o.absent {
		got, want := b.MayContain(key), o.db.MayContain(key)
		if same && got != want || info.Memtables == 0 && got && !want {
			o.t.Fatalf("%s, %s: the bundle answers %v for the absent key %.60q, the store %v", o.name, when, got, key, want)
		}
		if got {
			o.maybe++
		}
	}
	o.no += len(o.absent)
	if same {
		o.equal += len(o.absent)
	}
}

// allResident reports whether the filters of all tables are in memory as a whole.
func (o *exportOracle) allResident() bool {
	v := o.db.mems.Acquire()
	defer o.db.tree.Release(v.Version)
	for _, r := range v.Runs {
		for _, t := range r.Tables {
			if f := t.Filter(); t.Reader.FilterBytes() > 0 && (f == nil || int64(f.SizeBytes()) != t.Reader.FilterBytes()) {
				return false
			}
		}
	}
	return true
}

// life makes one store and exports its filters at each stage.
func (o *exportOracle) life(n int) {
	opts := o.options(vfs.NewMem())
	if o.stores%5 == 1 {
		opts.FilterBits = -1
	}
	o.name = o.choose(n) + " with " + fmt.Sprintf("%+v", *opts)
	o.stores++
	o.open("db", opts)
	o.write(1, 1)
	o.compare("written")
	o.write(2, 5)
	settle(o.t, o.db)
	o.compare("settled")
	o.write(3, 10)
	o.compare("in several levels")
	o.write(4, 20)
	closeTest(o.t, o.db)
	o.reading(opts)
	opts.ReadOnly = true
	o.open("db", opts)
	o.compare("read-only")
	closeTest(o.t, o.db)
	opts.ReadOnly, opts.FilterBits, opts.Tuning.FilterHash = false, 10, FilterHash(o.rng.IntN(3))
	o.open("db", opts)
	o.compare("opened again")
	closeTest(o.t, o.db)
}

// A bundle of a store's filters never denies a key of the store. Without memtables in it, it denies
// every absent key that the store denies, and if all filters are in memory, their answers are equal.
func TestExportFilters_Stores(t *testing.T) {
	testenv.SkipRace(t)
	testenv.CheckLeaks(t)
	seed, long := testenv.Seed(t), testenv.Long(t)
	o := &exportOracle{filterOracle: filterOracle{t: t, rng: rand.New(rand.NewPCG(seed, 3)), kinds: allKinds(t)}}
	n, limit := 3000, 500*time.Millisecond
	switch {
	case testenv.Race:
		n, limit = 300, 100*time.Millisecond
	case testing.Short():
		n, limit = 1000, 200*time.Millisecond
	}
	limit = max(limit, long)
	begin := time.Now()
	for time.Since(begin) < limit || o.memtables == 0 || o.noFilter == 0 || o.equal == 0 {
		o.life(n)
	}
	t.Logf("%d bundles of %d stores, with %d runs of memtables and %d tables without a filter: %d present keys asked, %d absent ones, %d of them compared, %.3f answered maybe",
		o.bundles, o.stores, o.memtables, o.noFilter, o.yes, o.no, o.equal, float64(o.maybe)/float64(max(o.no, 1)))
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
