package shale

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/shaledb/shale/vfs"
)

// layered opens a store in which the last level, two runs of level 0 and the memtable have some
// of the keys a to h. Newer values cover older ones, and d and f are deleted.
func layered(t *testing.T) *DB {
	t.Helper()
	opts := small()
	opts.CompactionWorkers = -1
	db := openTest(t, opts)
	for _, k := range []string{"a", "d", "f", "h"} {
		mustPut(t, db, k, "old "+k)
	}
	if err := db.Compact(t.Context(), Range{}); err != nil {
		t.Fatal(err)
	}
	mustPut(t, db, "b", "b")
	mustDelete(t, db, "d")
	mustPut(t, db, "h", "h")
	mustFlush(t, db)
	mustPut(t, db, "g", "g")
	mustDelete(t, db, "f")
	mustFlush(t, db)
	mustPut(t, db, "a", "a")
	mustPut(t, db, "c", "c")
	mustPut(t, db, "e", "e")
	return db
}

// layerKeys are the keys that a reader of layered finds. Each has itself as its value.
var layerKeys = []string{"a", "b", "c", "e", "g", "h"}

// A move is one movement of an Iterator.
type move struct {
	name string
	on   func(it *Iterator) bool
}

var moves = []move{
	{"First", (*Iterator).First}, {"Last", (*Iterator).Last}, {"Next", (*Iterator).Next}, {"Prev", (*Iterator).Prev},
	{"SeekGE", func(it *Iterator) bool { return it.SeekGE([]byte("d")) }},
	{"SeekLT", func(it *Iterator) bool { return it.SeekLT([]byte("d")) }},
}

// An iterator that meets a damaged block stops there and returns the damage from Err, so that it is
// not taken for the end. It can be moved elsewhere afterwards.
func TestIterator_DamagedBlock(t *testing.T) {
	mem := vfs.NewMem()
	opts := small()
	opts.FS, opts.CacheSize, opts.Compression, opts.CompactionWorkers = mem, -1, NoCompression, -1
	opts.OnEvent = func(Event) {}
	db, err := Open("db", opts)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	for i := range 200 {
		mustPut(t, db, fmt.Sprintf("key%03d", i), strings.Repeat("v", 40))
	}
	mustFlush(t, db)
	editFile(t, mem, fileNamed(t, mem, ".sst"), flipByte(4000)) // of about 9,000
	var damage *CorruptionError
	it := db.NewIterator(Range{})
	defer it.Close()
	counts := map[string]int{}
	for name, m := range map[string][2]func() bool{"forward": {it.First, it.Next}, "backward": {it.Last, it.Prev}} {
		for ok := m[0](); ok; ok = m[1]() {
			counts[name]++
		}
		if !errors.As(it.Err(), &damage) || it.Valid() || damage.File == "" {
			t.Errorf("%s: stopped after %d entries with %v, want a CorruptionError", name, counts[name], it.Err())
		}
		if !it.SeekGE([]byte("key000")) || it.Err() != nil || !it.SeekLT([]byte("zzz")) || it.Err() != nil {
			t.Errorf("%s: can't move away from the damage: %v", name, it.Err())
		}
	}
	if sum := counts["forward"] + counts["backward"]; sum < 150 || sum >= 200 {
		t.Errorf("entries before and after the damaged block: %v of 200", counts)
	}
	for _, r := range []Range{{}, {Reverse: true}} {
		n, errs := 0, 0
		for e, err := range db.Scan(r) {
			if err != nil {
				errs++
				if !errors.As(err, &damage) || e.Key != nil {
					t.Errorf("Scan yields %q, %v", e.Key, err)
				}
				continue
			}
			n++
		}
		if errs != 1 || n == 0 || n >= 200 {
			t.Errorf("Scan(%+v): %d entries and %d errors", r, n, errs)
		}
	}
	if db.Metrics().CorruptionsMet == 0 {
		t.Error("the damage was not counted")
	}
}

// A loop over Scan may end early, panic, and run again. Scan copies the bounds of its range, and no
// iterator stays open.
func TestScan_LoopLeftEarly(t *testing.T) {
	db := layered(t)
	lower := []byte("b")
	scan := db.Scan(Range{Lower: lower, Limit: 3})
	lower[0] = 'z'
	for range 2 {
		var got strings.Builder
		for e := range scan {
			got.Write(e.Key)
		}
		if got.String() != "bce" {
			t.Errorf("Scan: %s, want bce", &got)
		}
		mustPut(t, db, "f", "not within the first three")
	}
	for range scan {
		break
	}
	func() {
		defer func() { _ = recover() }()
		for range scan {
			panic("in the loop")
		}
	}()
	if n := db.Metrics().OpenIterators; n != 0 {
		t.Errorf("%d iterators are open after loops that were left", n)
	}
	var kept []Entry
	for e := range db.Scan(Range{Limit: 4}) {
		kept = append(kept, e.Clone())
	}
	for i, e := range kept {
		if string(e.Key) != layerKeys[i] || string(e.Value) != layerKeys[i] {
			t.Errorf("clone %d is %s = %s", i, e.Key, e.Value)
		}
	}
}

// Keys have so many versions that the iterator of a snapshot passes over them by a seek instead of
// by steps. It finds the right ones in both directions.
func TestIterator_ManyVersions(t *testing.T) {
	opts := small()
	opts.CompactionWorkers = -1
	db := openTest(t, opts)
	var snaps []*Snapshot
	var want []string
	const rounds = 3 * maxSteps
	for round := range rounds {
		for _, k := range []string{"a", "b", "c"} {
			if k == "b" && round%5 == 0 {
				mustDelete(t, db, k)
			} else {
				mustPut(t, db, k, fmt.Sprint(round))
			}
		}
		s, err := db.Snapshot()
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		snaps = append(snaps, s)
		w := fmt.Sprintf("a=%d b=%d c=%d", round, round, round)
		if round%5 == 0 {
			w = fmt.Sprintf("a=%d c=%d", round, round)
		}
		want = append(want, w)
	}
	for _, flushed := range []bool{false, true} {
		if flushed {
			mustFlush(t, db)
		}
		for i, s := range snaps {
			if got := scanAll(t, s, Range{}); got != want[i] {
				t.Errorf("flushed %v, snapshot %d: %s, want %s", flushed, i, got, want[i])
			}
			back := strings.Fields(scanAll(t, s, Range{Reverse: true}))
			slices.Reverse(back)
			if got := strings.Join(back, " "); got != want[i] {
				t.Errorf("flushed %v, snapshot %d backwards: %s, want %s", flushed, i, got, want[i])
			}
			it := s.NewIterator(Range{})
			for _, m := range []func() bool{it.Next, it.Next, it.Prev, it.Next, it.Prev, it.Prev} {
				m()
			}
			if it.Valid() || !it.Next() || string(it.Key()) != "a" || string(it.Value()) != fmt.Sprint(i) {
				t.Errorf("flushed %v, snapshot %d: after turns at %s = %s, %v", flushed, i, it.Key(), it.Value(), it.Err())
			}
			if err := it.Close(); err != nil {
				t.Error(err)
			}
		}
	}
}
