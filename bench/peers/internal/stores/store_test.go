package stores

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/shaledb/shale/bench/peers/internal/data"
)

const (
	testEntries = 500
	valueBytes  = 100
)

// Every store does what its interface says.
func TestStores(t *testing.T) {
	for _, kind := range kinds {
		if kind.Unverified || !kind.Can.Has(Updates) {
			continue
		}
		t.Run(kind.Name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			s := open(t, kind, dir, Options{Compactions: true})
			write(t, s)
			must(t, s.Settle())
			checkReads(t, s, Fresh)
			must(t, s.Close())

			s = open(t, kind, dir, Options{Reading: true, FilterCache: 1 << 20})
			checkReads(t, s, Held)
			if kind.SeekName != "" {
				checkReads(t, s, Seeking)
			}
			checkIterator(t, s)
			must(t, s.Close())

			s = open(t, kind, dir, Options{Sync: true})
			checkFresh(t, s)
			checkRuns(t, kind, s)
			must(t, s.Close())

			if kind.Can.Has(Transactions) {
				s = open(t, kind, dir, Options{Sync: true, Clients: 4})
				checkTransactions(t, s)
				must(t, s.Close())
			}
		})
	}
}

func open(t *testing.T, kind Kind, dir string, o Options) Store {
	t.Helper()
	o.Memtable, o.Cache, o.Quiet = 1<<20, 8<<20, 40*time.Millisecond
	s := kind.New()
	if err := s.Open(dir, o); err != nil {
		t.Fatal(err)
	}
	return s
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func key(i int) []byte { return fmt.Appendf(nil, "key%013d", i) }

// write puts the even keys, half of them by batches, and takes every tenth of
// all back.
func write(t *testing.T, s Store) {
	t.Helper()
	w, err := s.Writer()
	must(t, err)
	values := data.NewValues(valueBytes, 1)
	for i := 0; i < testEntries; i += 2 {
		must(t, w.Put(key(i), values.Next(key(i))))
	}
	i := testEntries
	next := func() ([]byte, []byte) {
		k := key(i)
		i += 2
		return k, values.Next(k)
	}
	for i < 2*testEntries {
		must(t, w.Batch(25, next))
	}
	for i := 0; i < 2*testEntries; i += 20 {
		must(t, w.Delete(key(i)))
	}
	must(t, w.Close())
}

func isThere(i int) bool { return i%2 == 0 && i%20 != 0 }

func checkReads(t *testing.T, s Store, way Way) {
	t.Helper()
	r, err := s.Reader(way)
	must(t, err)
	for i := range 2 * testEntries {
		if i%100 == 0 {
			must(t, r.Refresh())
		}
		size, tag, err := r.Get(key(i))
		must(t, err)
		if isThere(i) && (size != valueBytes || tag != data.Tag(key(i))) || !isThere(i) && size != Absent {
			t.Fatalf("way %d: %q: size %d, tag %x", way, key(i), size, tag)
		}
	}
	must(t, r.Close())
}

func checkIterator(t *testing.T, s Store) {
	t.Helper()
	var want []int
	for i := range 2 * testEntries {
		if isThere(i) {
			want = append(want, i)
		}
	}
	it, err := s.Iterator()
	must(t, err)
	n := 0
	for ok := it.First(); ok; ok = it.Next() {
		checkEntry(t, it, want[n])
		n++
	}
	if n != len(want) {
		t.Errorf("%d entries, want %d", n, len(want))
	}
	for _, from := range []int{1, 2, 20, 501} {
		at := 0
		for want[at] < from {
			at++
		}
		for ok := it.SeekGE(key(from)); ok && at < len(want); ok = it.Next() {
			checkEntry(t, it, want[at])
			at++
		}
		if at != len(want) {
			t.Errorf("from %d on: %d entries, want %d", from, at, len(want))
		}
	}
	must(t, it.Close())
	if it, err = s.Iterator(); err != nil {
		t.Fatal(err)
	}
	for ok := it.Last(); ok; ok = it.Prev() {
		n--
		checkEntry(t, it, want[n])
	}
	if n != 0 {
		t.Errorf("backwards %d entries are missing", n)
	}
	must(t, it.Close())
}

func checkEntry(t *testing.T, it Iterator, i int) {
	t.Helper()
	value, err := it.Value()
	must(t, err)
	if !bytes.Equal(it.Key(), key(i)) || len(value) != valueBytes || data.TagOf(value) != data.Tag(key(i)) {
		t.Fatalf("at %q with %x, want %q", it.Key(), value, key(i))
	}
}

// checkFresh sees that a fresh reader has what was written just before.
func checkFresh(t *testing.T, s Store) {
	t.Helper()
	w, err := s.Writer()
	must(t, err)
	r, err := s.Reader(Fresh)
	must(t, err)
	values := data.NewValues(valueBytes, 2)
	for i := range 20 {
		k := key(2*i + 1)
		must(t, w.Put(k, values.Next(k)))
		if size, tag, err := r.Get(k); err != nil || size != valueBytes || tag != data.Tag(k) {
			t.Fatalf("%q after it was put: size %d, %v", k, size, err)
		}
		must(t, w.Delete(k))
		if size, _, err := r.Get(k); err != nil || size != Absent {
			t.Fatalf("%q after it was deleted: size %d, %v", k, size, err)
		}
	}
	must(t, r.Close())
	must(t, w.Close())
}

// checkRuns sees that each flush makes a run, while no compactions run.
func checkRuns(t *testing.T, kind Kind, s Store) {
	t.Helper()
	must(t, s.Flush())
	levels, err := s.Levels()
	must(t, err)
	before := Level0Runs(levels)
	w, err := s.Writer()
	must(t, err)
	values := data.NewValues(valueBytes, 3)
	for run := range 3 {
		for i := range testEntries {
			k := key(2*i + run%2)
			must(t, w.Put(k, values.Next(k)))
		}
		must(t, s.Flush())
	}
	must(t, w.Close())
	if levels, err = s.Levels(); err != nil {
		t.Fatal(err)
	}
	if got := Level0Runs(levels); got != before+3 && !kind.Tree {
		t.Errorf("%d runs in level 0, want %d: %+v", got, before+3, levels)
	}
	if Live(levels) <= 0 && !kind.Tree && !strings.HasPrefix(kind.Name, "rocksdb") { // which tells MiB
		t.Errorf("live tables of %d bytes: %+v", Live(levels), levels)
	}
}

// checkTransactions has clients add to one number, and to one of their own.
func checkTransactions(t *testing.T, s Store) {
	t.Helper()
	const clients, each = 4, 50
	shared := key(0)
	set := func(tx Tx) error {
		err := tx.SetNumber(shared, 5)
		for i := range clients {
			err = errors.Join(err, tx.SetNumber(key(1+i), 0))
		}
		return err
	}
	must(t, s.(Transactional).Client().Update(set))
	var wg sync.WaitGroup
	for i := range clients {
		wg.Go(func() {
			client := s.(Transactional).Client()
			for range each {
				if err := client.Update(func(tx Tx) error {
					for _, k := range [][]byte{shared, key(1 + i)} {
						n, err := tx.Number(k)
						if err != nil {
							return err
						}
						if err := tx.SetNumber(k, n+1); err != nil {
							return err
						}
					}
					return nil
				}); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	must(t, s.(Transactional).Client().View(func(tx Tx) error {
		n, err := tx.Number(shared)
		if n != 5+clients*each {
			t.Errorf("the number of all clients is %d, want %d", n, 5+clients*each)
		}
		for i := range clients {
			if n, err := tx.Number(key(1 + i)); err != nil || n != each {
				t.Errorf("the number of client %d is %d, %v, want %d", i, n, err, each)
			}
		}
		return err
	}))
}

func TestFind(t *testing.T) {
	for _, name := range append(Names(), "null", "pebble-apart") {
		if k, err := Find(name); err != nil || k.Name != name {
			t.Errorf("Find(%q) = %+v, %v", name, k, err)
		}
	}
	if _, err := Find("leveldb"); err == nil {
		t.Error("found a store that is not there")
	}
}
