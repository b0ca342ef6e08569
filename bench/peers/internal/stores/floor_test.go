package stores

import (
	"bytes"
	"testing"

	"github.com/shaledb/shale/bench/peers/internal/data"
)

// The floor has what was put before it settled, in one file, with all blocks in memory and with none.
func TestFloor(t *testing.T) {
	kind, err := Find("floor")
	must(t, err)
	dir := t.TempDir()
	s := open(t, kind, dir, Options{Sync: true})
	w, err := s.Writer()
	must(t, err)
	put := func(from, to int) {
		values := data.NewValues(valueBytes, 1)
		for i := from; i < to; i += 4 {
			must(t, w.Put(key(i), values.Next(key(i))))
		}
	}
	put(0, 2*testEntries)
	put(0, 40) // twice
	must(t, s.Settle())
	put(2, 2*testEntries) // into the table that there is
	must(t, s.Settle())
	must(t, s.Close())
	for _, cache := range []int64{8 << 20, 1000} {
		s := kind.New()
		must(t, s.Open(dir, Options{Reading: true, Cache: cache}))
		checkFloor(t, s)
		must(t, s.Close())
	}
}

func checkFloor(t *testing.T, s Store) {
	t.Helper()
	r, err := s.Reader(Held)
	must(t, err)
	for i := range 2 * testEntries {
		if size, tag, err := r.Get(key(i)); err != nil || i%2 == 0 && (size != valueBytes || tag != data.Tag(key(i))) || i%2 == 1 && size != Absent {
			t.Fatalf("%q: size %d, tag %x, %v", key(i), size, tag, err)
		}
	}
	it, err := s.Iterator()
	must(t, err)
	at := 0
	for ok := it.First(); ok; ok = it.Next() {
		checkEntry(t, it, at)
		at += 2
	}
	if at != 2*testEntries {
		t.Errorf("forward up to %d", at)
	}
	for ok := it.Last(); ok; ok = it.Prev() {
		at -= 2
		checkEntry(t, it, at)
	}
	if at != 0 {
		t.Errorf("backwards down to %d", at)
	}
	for i := range 2*testEntries - 1 {
		if want := (i + 1) &^ 1; !it.SeekGE(key(i)) || !bytes.Equal(it.Key(), key(want)) {
			t.Fatalf("sought %q, at %q", key(i), it.Key())
		}
	}
	if it.SeekGE(key(2*testEntries - 1)) {
		t.Errorf("found %q behind the last", it.Key())
	}
	must(t, it.Close())
	must(t, r.Close())
}
