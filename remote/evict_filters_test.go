package remote

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/shaledb/shale"
	"github.com/shaledb/shale/internal/testenv"
	"github.com/shaledb/shale/remote/internal/remotetest"
	"github.com/shaledb/shale/vfs"
)

// A manyReader is a DB or a Reader.
type manyReader interface {
	shale.Reader
	GetMany(keys [][]byte, fn func(i int, value []byte, found bool) error) error
}

// absentGets returns how many GETs of tables n absent keys make, one by one and then together.
func absentGets(t *testing.T, b *remotetest.Fake, db manyReader, n int) int {
	t.Helper()
	keys := make([][]byte, n)
	for i := range keys {
		keys[i] = fmt.Appendf(nil, "key%08dx", i*49999%1e8)
	}
	gets, _ := b.During(func() {
		for _, key := range keys[:n/2] {
			if has, err := db.Has(key); has || err != nil {
				t.Fatalf("Has(%s) = %v, %v", key, has, err)
			}
		}
		mustNil(t, db.GetMany(keys[n/2:], func(i int, _ []byte, found bool) error {
			if found {
				return errors.New("an absent key was found")
			}
			return nil
		}))
	})
	return gets
}

// awaitFilters waits until the filters in memory have no more than limit bytes, and returns how many they have.
func awaitFilters(t *testing.T, metrics func() shale.Metrics, limit int64) (bytes int64) {
	t.Helper()
	testenv.WaitFor(t, "filters to fit", func() bool {
		bytes = metrics().FilterMemory
		return bytes <= limit
	})
	return bytes
}

// TestEvict_FiltersNotInMemory: with room for a tenth of the filters, absent keys ask the bucket for false positives only, in a writer,
// right after Open too, and in a reader with and without a directory. The filters are asked in the tails.
func TestEvict_FiltersNotInMemory(t *testing.T) {
	testenv.CheckLeaks(t)
	b, o := remotetest.NewFake(NewMem()), manual(vfs.NewMem())
	evicting(o)
	o.Store.TableSize = 512 << 10
	model := make(map[string]string)
	s := openStore(t, "db", b, o)
	grow(t, s, model, 10_000)
	limit := s.DB().Metrics().FilterMemory / 10
	mustNil(t, s.Close())
	o.Store.FilterMemory = limit
	const n = 4000
	s = openStore(t, "db", b, o)
	if gets := absentGets(t, b, s.DB(), n); gets > n/50 {
		t.Errorf("right after Open, %d absent keys made %d GETs", n, gets)
	}
	awaitFilters(t, s.DB().Metrics, limit)
	before := s.DB().Metrics()
	if gets := absentGets(t, b, s.DB(), n); gets > n/50 {
		t.Errorf("with a tenth of the filters, %d absent keys made %d GETs", n, gets)
	}
	if after := s.DB().Metrics(); after.FilterMemory > limit || after.FilterNegative-before.FilterNegative < n/2 {
		t.Errorf("%d bytes of filters of %d are in memory, %d absent keys were denied", after.FilterMemory, limit, after.FilterNegative-before.FilterNegative)
	}
	// Compactions write filters as large as without the limit.
	tx, err := s.DB().Begin(true)
	mustNil(t, err)
	for i := range 200 {
		if _, err := tx.Get(fmt.Appendf(nil, "key%08dx", i*499_979%1e8)); err != shale.ErrNotFound {
			t.Fatal(err)
		}
	}
	grow(t, s, model, 5000)
	mustNil(t, tx.Put([]byte("one"), nil))
	if gets, _ := b.During(func() { mustNil(t, tx.Commit(t.Context())) }); gets > 8 {
		t.Errorf("a transaction that has read 200 absent keys asks for them with %d GETs", gets)
	}
	model["one"] = ""
	if gets := absentGets(t, b, s.DB(), n); gets > n/50 {
		t.Errorf("after compactions, %d absent keys made %d GETs", n, gets)
	}
	mustNil(t, s.DB().Flush(t.Context()))
	mustNil(t, s.Publish(t.Context()))
	mustNil(t, s.Close())
	for _, dir := range []string{"", "copies"} {
		r := openTestReader(t, b, ReaderOptions{Dir: dir, FS: vfs.NewMem(), Store: shale.Options{FilterMemory: limit, CacheSize: -1}})
		if gets := absentGets(t, b, r, n); gets > n/50 {
			t.Errorf("right after OpenReader in %q, %d absent keys made %d GETs", dir, n, gets)
		}
		awaitFilters(t, r.db.Load().Metrics, limit)
		if gets := absentGets(t, b, r, n); gets > n/50 {
			t.Errorf("a reader in %q: %d absent keys made %d GETs", dir, n, gets)
		}
		for key := range model {
			if has, err := r.Has([]byte(key)); !has || err != nil {
				t.Fatalf("Has(%s) = %v, %v", key, has, err)
			}
		}
		mustNil(t, r.Close())
	}
}

// TestEvict_FilterInTailDamaged: filters in the tails of tables lose bits, which would deny keys. That is noticed by the lookup that
// asks them: it fetches the tail again, and finds its key.
func TestEvict_FilterInTailDamaged(t *testing.T) {
	b, disk := remotetest.NewFake(NewMem()), vfs.NewMem()
	o := manual(disk)
	evicting(o)
	o.Store.TableSize, o.Store.FilterMemory = 512<<10, 1
	model := make(map[string]string)
	s := openStore(t, "db", b, o)
	grow(t, s, model, 8000)
	mustNil(t, s.Close())
	o.Store.CompactionWorkers = -1 // the lookups below would pay for one, which removes tails
	s = openStore(t, "db", b, o)
	keys := slices.Sorted(maps.Keys(model)) // in this order, the cache of one page has most of them
	has := func(when string) {
		t.Helper()
		for _, key := range keys {
			if has, err := s.DB().Has([]byte(key)); !has || err != nil {
				t.Fatalf("%s: Has(%s) = %v, %v", when, key, has, err)
			}
		}
	}
	has("before the damage")
	tails := tailFiles(t, disk)
	if len(tails) < 3 {
		t.Fatalf("%d tails", len(tails))
	}
	for _, share := range []int{8, 3, 2} { // where the damage begins; all filters are in the first half of the tails or more
		for _, name := range tails {
			remotetest.ChangeFile(t, disk, name, func(b []byte) []byte {
				at := 200 + (len(b)-200)/share
				if share == 8 {
					clear(b[200:at])
				} else {
					b[at] &= b[at] >> 1 // some bits
				}
				return b
			})
		}
		has(fmt.Sprint("after damage at a part of ", share))
	}
	damaged := 0
	for _, name := range tails {
		if strings.Contains(string(remotetest.ReadFile(t, disk, name)), strings.Repeat("\x00", 500)) {
			damaged++
		}
	}
	if damaged > len(tails)/2 {
		t.Errorf("%d of %d tails are still damaged, although their filters were asked", damaged, len(tails))
	}
}

// TestEvict_FilterBits: with LocalBytes filters have 16 bits a key, if the program asks for no other number.
func TestEvict_FilterBits(t *testing.T) {
	for _, c := range []struct {
		local      int64
		asked, got float64
	}{{testBudget, 0, 16}, {testBudget, 12, 12}, {0, 0, 10}, {testBudget, -1, 0}} {
		o := manual(vfs.NewMem())
		evicting(o)
		o.LocalBytes, o.Store.FilterBits, o.Store.TableSize = c.local, c.asked, 4<<20 // one table
		s := openStore(t, "db", NewMem(), o)
		fillRandom(t, s, make(map[string]string), 1000)
		mustNil(t, s.DB().Compact(t.Context(), shale.Range{}))
		tables := s.DB().Inspect().Tables()
		if len(tables) != 1 {
			t.Errorf("%+v: %d tables", c, len(tables))
		}
		for _, table := range tables {
			if table.FilterBits < 0.9*c.got || table.FilterBits > 1.1*c.got {
				t.Errorf("%+v: a filter has %.1f bits a key", c, table.FilterBits)
			}
		}
		mustNil(t, s.Close())
	}
}
