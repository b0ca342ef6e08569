package shale

import (
	"bytes"
	"fmt"
	"testing"

	"github.com/shaledb/shale/internal/testenv"
)

// What a lookup of a present key costs when its block is not cached: one read of
// that block, and no allocation.
func TestReadCost_Uncached(t *testing.T) {
	opts := small()
	opts.CacheSize, opts.CompactionWorkers = -1, -1
	db := openTest(t, opts)
	const n = 5000
	fill(t, db, n, 0)
	settle(t, db)
	keys := make([][]byte, n)
	for i := range keys {
		keys[i] = fmt.Appendf(nil, "key%06d", i)
	}
	buf := make([]byte, 0, 512)
	get := func(i int) {
		var err error
		if buf, err = db.AppendValue(buf[:0], keys[i*37%n]); err != nil {
			t.Fatal(err)
		}
	}
	for i := range 500 {
		get(i) // opens the files, fills the pools
	}
	const lookups = 1000
	before, calls := db.Metrics(), db.counters.tables.ReadCalls.Load()
	for i := range lookups {
		get(i)
	}
	d := db.Metrics().Sub(before)
	if calls = db.counters.tables.ReadCalls.Load() - calls; d.BlockReads != lookups || calls != lookups {
		t.Errorf("%d lookups read %d blocks in %d calls", lookups, d.BlockReads, calls)
	}
	if testenv.Race {
		return // it has pools forget at random
	}
	i := 0
	if a := testing.AllocsPerRun(lookups, func() { get(i); i++ }); a != 0 {
		t.Errorf("a lookup allocates %v times", a)
	}
}

// A key may lie where its value is appended to.
func TestAppendValue_KeyInDst(t *testing.T) {
	testenv.SkipRace(t)
	db := readStore(t)
	for i := range 2000 {
		key := fmt.Appendf(nil, "key%06d", i*7)
		want, err := db.Get(key)
		if err != nil {
			t.Fatal(err)
		}
		buf := append(make([]byte, 0, 600), key...)
		got, err := db.AppendValue(buf[:0], buf)
		if err != nil || !bytes.Equal(got, want) {
			t.Fatalf("%q: got %q, %v; want %q", key, got, err, want)
		}
		buf = append(make([]byte, 0, 600), key...)
		if got, err = db.AppendValue(buf[:2], buf[2:][:0]); err == nil {
			t.Fatalf("an empty key has the value %q", got)
		}
	}
	for _, c := range []struct {
		a, b, n, m int
		want       bool
	}{{0, 0, 4, 4, true}, {0, 4, 4, 4, false}, {4, 0, 4, 4, false}, {0, 3, 4, 4, true}, {3, 0, 4, 4, true}, {0, 2, 8, 1, true}} {
		var mem [16]byte
		if got := overlap(mem[c.a:c.a+c.n], mem[c.b:c.b+c.m]); got != c.want {
			t.Errorf("%+v: %v", c, got)
		}
	}
}
