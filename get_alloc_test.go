package shale

import (
	"encoding/binary"
	"errors"
	"fmt"
	"strconv"
	"testing"

	"github.com/shaledb/shale/internal/testenv"
)

// readPaths returns the read operations that allocate nothing, by name.
func readPaths(tb testing.TB, db *DB) map[string]func(i int) {
	const n = 1 << 10
	present, absent := make([][]byte, n), make([][]byte, n)
	for i := range n {
		present[i] = fmt.Appendf(nil, "key%06d", i*17%20000)
		absent[i] = fmt.Appendf(nil, "key%06dx", i*17%20000)
	}
	check := func(ok bool, err error, want bool) {
		if ok != want || err != nil {
			tb.Fatalf("got %v, %v; want %v", ok, err, want)
		}
	}
	buf := make([]byte, 0, 256)
	seen, asked, fresh := 0, 0, make([]byte, 0, 64)
	look := func(v []byte) error { seen += len(v); return nil }
	it, back := db.NewIterator(Range{}), db.NewIterator(Range{})
	s := mustSnapshot(tb, db)
	tb.Cleanup(func() {
		if err := errors.Join(it.Close(), back.Close(), s.Close()); err != nil {
			tb.Error(err)
		}
	})
	return map[string]func(i int){
		"MayContainMany": func(i int) {
			var out [40]bool
			db.MayContainMany(absent[:30], out[:])
			db.MayContainMany(present[:30], out[:30])
			check(out[i%30], nil, true)
		},
		"MayContain absent":  func(i int) { db.MayContain(absent[i%n]) },
		"MayContain present": func(i int) { check(db.MayContain(present[i%n]), nil, true) },
		"Has absent":         func(i int) { ok, err := db.Has(absent[i%n]); check(ok, err, false) },
		"Has present":        func(i int) { ok, err := db.Has(present[i%n]); check(ok, err, true) },
		"Has absent, never asked": func(int) { // one in a hundred passes a filter and is remembered
			asked++
			fresh = binary.BigEndian.AppendUint64(append(fresh[:0], present[asked%n]...), uint64(asked))
			ok, err := db.Has(fresh)
			check(ok, err, false)
		},
		"AppendValue": func(i int) {
			v, err := db.AppendValue(buf, present[i%n])
			check(len(v) > 0, err, true)
		},
		"AppendValue absent": func(i int) {
			v, err := db.AppendValue(buf, absent[i%n])
			check(len(v) > 0, nil, err == nil)
		},
		"ViewValue":           func(i int) { check(true, db.ViewValue(present[i%n], look), true) },
		"Snapshot.Has absent": func(i int) { ok, err := s.Has(absent[i%n]); check(ok, err, false) },
		"Snapshot.AppendValue": func(i int) {
			v, err := s.AppendValue(buf, present[i%n])
			check(len(v) > 0, err, true)
		},
		"Iterator SeekGE": func(i int) {
			check(it.SeekGE(present[i%n]), it.Err(), true)
			it.Next()
		},
		"Iterator SeekLT": func(i int) {
			check(back.SeekLT(absent[i%n]), back.Err(), true)
			back.Prev()
		},
		"Iterator Next": func(int) { check(it.Next() || it.First(), it.Err(), true) },
		"Iterator Prev": func(int) { check(back.Prev() || back.Last(), back.Err(), true) },
	}
}

// Reads of cached blocks allocate nothing.
func TestAllocations(t *testing.T) {
	if testenv.Race {
		t.Skip("the race detector allocates")
	}
	db := readStore(t)
	for name, read := range readPaths(t, db) {
		i := 0
		// The first round may fill pools.
		for ; i < 3000; i++ {
			read(i)
		}
		// Many reads in one run, because AllocsPerRun rounds down.
		const reads = 2000
		n := allocationsOf(func() {
			for range reads {
				read(i)
				i++
			}
		})
		if n > 0 {
			t.Errorf("%s: %v allocations in %d; want none", name, n, reads)
		}
	}
}

// A new iterator makes one allocation, the Iterator itself, whatever the store holds and
// wherever the iterator goes. A Scan makes a few more, and none for an entry.
func TestAllocations_NewIterator(t *testing.T) {
	if testenv.Race {
		t.Skip("the race detector allocates")
	}
	db := readStore(t)
	s := mustSnapshot(t, db)
	defer s.Close()
	i := 0
	key, upper := make([]byte, 0, 16), []byte("key019000")
	few := func(r Reader, rng Range) {
		it := r.NewIterator(rng)
		i++
		key = append(key[:0], "key0"...)
		key = strconv.AppendInt(key, int64(10000+i*17%8000), 10)
		for ok, n := it.SeekGE(key), 0; ok && n < 10; ok, n = it.Next(), n+1 {
			continue
		}
		for ok, n := it.SeekLT(key), 0; ok && n < 10; ok, n = it.Prev(), n+1 {
			continue
		}
		if err := errors.Join(it.Err(), it.Close()); err != nil {
			t.Fatal(err)
		}
	}
	scan := func(rng Range, want int) {
		n := 0
		for _, err := range db.Scan(rng) {
			if n++; err != nil {
				t.Fatal(err)
			}
		}
		if n != want {
			t.Fatalf("%d entries, want %d", n, want)
		}
	}
	for _, test := range []struct {
		name    string
		allowed float64
		read    func()
	}{
		{"of all", 1.5, func() { few(db, Range{}) }}, // 0.5 for a pool that the collector may empty
		{"of a range", 1.5, func() { few(db, Range{Lower: upper[:4], Upper: upper}) }},
		{"of a snapshot", 1.5, func() { few(s, Range{}) }},
		{"scan forward", 4, func() { scan(Range{Limit: 1000}, 1000) }},
		{"scan backward", 4, func() { scan(Range{Limit: 1000, Reverse: true}, 1000) }},
	} {
		for range 100 {
			test.read()
		}
		const reads = 200
		n := testing.AllocsPerRun(3, func() {
			for range reads {
				test.read()
			}
		}) / reads
		t.Logf("%s: %.2f allocations", test.name, n)
		if n > test.allowed {
			t.Errorf("%s: %v allocations; want %v", test.name, n, test.allowed)
		}
	}
}

// A lookup of a present key whose block is not cached reads that block by one call, and
// allocates nothing.
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
		return // under the race detector, pools drop entries at random
	}
	i := 0
	if a := testing.AllocsPerRun(lookups, func() { get(i); i++ }); a != 0 {
		t.Errorf("a lookup allocates %v times", a)
	}
}
