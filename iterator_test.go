package shale

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/shaledb/shale/internal/testenv"
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

// A move is one movement of an Iterator, and the same movement on a position in a list of sorted
// keys, where -1 is before the first and len(keys) after the last.
type move struct {
	name  string
	on    func(it *Iterator) bool
	model func(keys []string, at int) int
}

var moves = []move{
	{"First", (*Iterator).First, func([]string, int) int { return 0 }},
	{"Last", (*Iterator).Last, func(keys []string, _ int) int { return len(keys) - 1 }},
	{"Next", (*Iterator).Next, func(keys []string, at int) int { return min(at+1, len(keys)) }},
	{"Prev", (*Iterator).Prev, func(_ []string, at int) int { return max(at-1, -1) }},
	seekGE("b"), seekGE("d"), seekLT("d"), seekLT("zz"),
}

func seekGE(key string) move {
	return move{"SeekGE " + key, func(it *Iterator) bool { return it.SeekGE([]byte(key)) }, func(keys []string, _ int) int {
		i, _ := slices.BinarySearch(keys, key)
		return i
	}}
}

func seekLT(key string) move {
	return move{"SeekLT " + key, func(it *Iterator) bool { return it.SeekLT([]byte(key)) }, func(keys []string, _ int) int {
		i, _ := slices.BinarySearch(keys, key)
		return i - 1
	}}
}

// After every sequence of up to four moves, in every range, an iterator is where the same moves
// lead in a list of sorted keys.
func TestIterator_AllMoves(t *testing.T) {
	testenv.SkipRace(t)
	db := layered(t)
	nothing := []byte{}
	for _, r := range []Range{
		{}, {Lower: []byte("b"), Upper: []byte("g")}, {Lower: []byte("bb")}, {Upper: []byte("d")}, {Lower: nothing},
		{Lower: []byte("d"), Upper: []byte("e")}, {Lower: []byte("z")}, {Upper: nothing}, {Lower: []byte("g"), Upper: []byte("b")},
	} {
		var keys []string
		for _, k := range layerKeys {
			if k >= string(r.Lower) && (r.Upper == nil || k < string(r.Upper)) {
				keys = append(keys, k)
			}
		}
		const depth = 4
		total := 1
		for range depth {
			total *= len(moves)
		}
		for code := range total {
			var path []string
			it := db.NewIterator(r)
			at := -1
			for range depth {
				m := moves[code%len(moves)]
				code /= len(moves)
				path = append(path, m.name)
				ok := m.on(it)
				at = m.model(keys, at)
				want := at >= 0 && at < len(keys)
				if ok != want || it.Valid() != want || it.Err() != nil {
					t.Fatalf("[%s, %s) %v: %v, Valid %v, Err %v; want %v", r.Lower, r.Upper, path, ok, it.Valid(), it.Err(), want)
				}
				if want && (string(it.Key()) != keys[at] || string(it.Value()) != keys[at]) {
					t.Fatalf("[%s, %s) %v: at %s = %s; want %s = %s", r.Lower, r.Upper, path, it.Key(), it.Value(), keys[at], keys[at])
				}
			}
			if err := it.Close(); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// An empty store has no entry to move to. Empty keys and values are empty and not nil, but for the
// values of a range with KeysOnly.
func TestIterator_KeysOnlyAndEmpty(t *testing.T) {
	db := openTest(t, small())
	it := db.NewIterator(Range{})
	for _, m := range moves {
		if m.on(it) || it.Err() != nil {
			t.Errorf("%s in an empty store: %v", m.name, it.Err())
		}
	}
	if err := it.Close(); err != nil {
		t.Error(err)
	}
	mustPut(t, db, "", "")
	mustPut(t, db, "k", "v")
	for _, keysOnly := range []bool{false, true} {
		it := db.NewIterator(Range{KeysOnly: keysOnly})
		for _, ok := range []bool{it.First(), it.Next() && it.Prev(), it.SeekLT([]byte("k"))} {
			if !ok || it.Key() == nil || len(it.Key()) != 0 || (it.Value() == nil) != keysOnly || len(it.Value()) != 0 {
				t.Errorf("keys only %v: %v at %q = %#v", keysOnly, ok, it.Key(), it.Value())
			}
		}
		if err := it.Close(); err != nil {
			t.Error(err)
		}
		for e, err := range db.Scan(Range{KeysOnly: keysOnly, Lower: []byte("k")}) {
			if err != nil || string(e.Key) != "k" || (e.Value == nil) != keysOnly {
				t.Errorf("keys only %v: Scan gives %q = %#v, %v", keysOnly, e.Key, e.Value, err)
			}
		}
	}
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
