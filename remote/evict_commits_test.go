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

// A commitTest is a store whose filters are all in the tails of tables, and its model.
type commitTest struct {
	*testing.T
	b     *remotetest.Fake
	s     *Store
	model map[string]string
}

// settle brings what was written to the bucket, with n more entries, and waits until compactions have nothing to do: their GETs
// would be counted.
func (c *commitTest) settle(n int) {
	c.Helper()
	grow(c, c.s, c.model, n)
	testenv.WaitFor(c, "compactions to end", func() bool {
		m := c.s.DB().Metrics()
		return m.CompactionDebt == 0 && m.Compacting == 0 && m.Flushing == 0
	})
}

// present returns n keys of the store.
func (c *commitTest) present(n int) []string {
	all := slices.Sorted(maps.Keys(c.model))
	for i := range n {
		all[i] = all[i*len(all)/n]
	}
	return all[:n]
}

// absentKey returns a key that the store does not have, between those that it has.
func absentKey(i int) string { return fmt.Sprintf("key%08dx", i*499_979%1e8) }

// startCommits makes a store of many times its budget.
func startCommits(t *testing.T) *commitTest {
	testenv.CheckLeaks(t)
	c := &commitTest{t, remotetest.NewFake(NewMem()), nil, make(map[string]string)}
	o := manual(vfs.NewMem())
	evicting(o)
	o.Store.FilterMemory = 1
	c.s = openStore(t, "db", c.b, o)
	c.settle(8000)
	if m := c.s.DB().Metrics(); m.FilterMemory > 1 {
		t.Fatalf("%d bytes of filters are in memory", m.FilterMemory)
	}
	return c
}

// TestEvict_Commits: transactions read absent and present keys, and then so much is written, and ingested, that their commits have to
// ask the tables what was written since. They find exactly that, and of the absent keys they ask the bucket for false positives only.
func TestEvict_Commits(t *testing.T) {
	c := startCommits(t)
	db := c.s.DB()
	const n = 400
	for round, change := range []func(absent, present string) (conflict string, err error){
		func(_, _ string) (string, error) { return "", nil },
		func(absent, _ string) (string, error) {
			c.model[absent] = "new"
			return absent, db.Put([]byte(absent), []byte("new"))
		},
		func(_, present string) (string, error) {
			delete(c.model, present)
			return present, db.Delete([]byte(present))
		},
		func(absent, _ string) (string, error) {
			return absent, db.DeleteRange([]byte(absent), []byte(absent+"x"))
		},
		func(absent, _ string) (string, error) { // what nobody has read, next to what was read
			return "", errors.Join(db.DeleteRange([]byte(absent+"x"), []byte(absent+"y")), db.Delete([]byte(absent+"z")))
		},
	} {
		tx, err := db.Begin(true)
		mustNil(t, err)
		for i := range n {
			if _, err := tx.Get([]byte(absentKey(round*n + i))); err != shale.ErrNotFound {
				t.Fatalf("round %d: %s: %v", round, absentKey(round*n+i), err)
			}
		}
		present := c.present(5)
		for _, key := range present {
			if v, err := tx.Get([]byte(key)); err != nil || string(v) != c.model[key] {
				t.Fatalf("round %d: %s = %.10q, %v", round, key, v, err)
			}
		}
		// All that was read lies between the two keys of an ingestion, of which the commit queue notes no more than these. So it does not
		// look at what comes next.
		first, last := fmt.Sprint("kex", round), fmt.Sprint("kez", round)
		mustNil(t, db.Ingest(t.Context(), func(yield func(k, v []byte) bool) {
			_ = yield([]byte(first), []byte("in bulk")) && yield([]byte(last), []byte("in bulk"))
		}))
		c.model[first], c.model[last] = "in bulk", "in bulk"
		conflict, err := change(absentKey(round*n+n/2), present[2])
		mustNil(t, err)
		fillRandom(t, c.s, c.model, 1000)
		mustNil(t, db.Flush(t.Context()))
		mustNil(t, db.Compact(t.Context(), shale.Range{})) // now most tables have something new, and are in the bucket
		c.settle(100)
		key := fmt.Sprint("committed", round)
		mustNil(t, tx.Put([]byte(key), []byte("c")))
		gets, _ := c.b.During(func() { err = tx.Commit(t.Context()) })
		t.Logf("round %d: %d GETs, %v", round, gets, err)
		switch {
		case conflict == "" && err == nil:
			c.model[key] = "c"
			if gets > n/20+3*len(present) {
				t.Errorf("round %d: a commit asks for %d absent and %d present keys with %d GETs", round, n, len(present), gets)
			}
		case conflict == "" || !errors.Is(err, shale.ErrConflict) || !strings.Contains(err.Error(), conflict):
			t.Errorf("round %d: %v, want a conflict over %q", round, err, conflict)
		}
	}
	sameMap(t, "the store", contents(t, db), c.model)
}

// TestEvict_PutIfAbsent: whether a key is absent is asked of filters in tails, and a key that is there is not replaced. A deletion in
// the bucket counts.
func TestEvict_PutIfAbsent(t *testing.T) {
	c := startCommits(t)
	db := c.s.DB()
	deleted := c.present(40)
	for _, key := range deleted {
		mustNil(t, db.Delete([]byte(key)))
		delete(c.model, key)
	}
	c.settle(1000)
	put := func(what string, keys []string, want bool, most int) {
		t.Helper()
		gets, _ := c.b.During(func() {
			for _, key := range keys {
				inserted, err := db.PutIfAbsent([]byte(key), []byte("new"))
				if inserted != want || err != nil {
					t.Fatalf("%s: PutIfAbsent(%s) = %v, %v, want %v", what, key, inserted, err, want)
				}
				if inserted {
					c.model[key] = "new"
				}
			}
		})
		t.Logf("%d %s keys: %d GETs", len(keys), what, gets)
		if gets > most {
			t.Errorf("%d %s keys: %d GETs, want %d at most", len(keys), what, gets, most)
		}
	}
	absent := make([]string, 500)
	for i := range absent {
		absent[i] = absentKey(i)
	}
	there := c.present(40)
	put("absent", absent, true, len(absent)/10)
	put("present", there, false, 2*len(there))
	put("deleted", deleted, true, 2*len(deleted))
	c.settle(1000)
	put("added", append(absent[:40:40], deleted...), false, 4*len(deleted))
	sameMap(t, "the store", contents(t, db), c.model)
}
