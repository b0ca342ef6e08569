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

// layered writes keys a to h so that each part of the store has some: h is in
// the last level, the others above, up to the memtable; d and f are deleted.
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

// layerKeys are what one sees who looks at layered; each is its own value.
var layerKeys = []string{"a", "b", "c", "e", "g", "h"}

// A move is one call of an Iterator, and the same on a position among sorted
// keys: -1 is before the first, len(keys) after the last.
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

// Every sequence of four moves, in every range, ends each where it would among
// sorted keys.
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

// A key with many versions, and many newer than what is seen, is passed by a
// seek instead of by steps, in both directions.
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

// Neither writes nor compactions reach an iterator; the files that it needs
// live as long as it does.
func TestIterator_KeepsItsState(t *testing.T) {
	mem := vfs.NewMem()
	opts := small()
	opts.FS, opts.CacheSize = mem, -1
	db := openTest(t, opts)
	fill(t, db, 3000, 0)
	mustFlush(t, db)
	waitIdle(t, db)
	it := db.NewIterator(Range{})
	fill(t, db, 3000, 1)
	mustDelete(t, db, "key000005")
	if err := db.Compact(t.Context(), Range{}); err != nil {
		t.Fatal(err)
	}
	held := tablesOnDisk(t, db, mem)
	for _, back := range []bool{false, true} {
		n := 0
		first, next := it.First, it.Next
		if back {
			first, next = it.Last, it.Prev
		}
		for ok := first(); ok; ok = next() {
			i := n
			if back {
				i = 2999 - n
			}
			if want := fmt.Sprintf("key%06d=value %d of round 0", i, i); string(it.Key())+"="+string(it.Value()) != want {
				t.Fatalf("backwards %v: %s=%s, want %s", back, it.Key(), it.Value(), want)
			}
			n++
		}
		if n != 3000 || it.Err() != nil {
			t.Errorf("backwards %v: %d entries, %v", back, n, it.Err())
		}
	}
	if err := it.Close(); err != nil {
		t.Error(err)
	}
	if now := tablesOnDisk(t, db, mem); now >= held || now != len(db.Tables()) {
		t.Errorf("%d tables on disk, %d while the iterator was open, %d in the store", now, held, len(db.Tables()))
	}
}

func TestIterator_Closed(t *testing.T) {
	db := layered(t)
	it := db.NewIterator(Range{})
	if !it.Next() {
		t.Fatal(it.Err())
	}
	for range 2 {
		if err := it.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
		if it.Valid() {
			t.Error("a closed iterator is valid")
		}
		for _, m := range moves {
			if m.on(it) || !errors.Is(it.Err(), ErrClosed) {
				t.Errorf("%s of a closed iterator: %v, want ErrClosed", m.name, it.Err())
			}
		}
	}
	if n := db.Metrics().OpenIterators; n != 0 {
		t.Errorf("%d iterators are open", n)
	}
}

// What a closed iterator was made of may serve another one: neither knows of
// the other.
func TestIterator_ClosedBesideOthers(t *testing.T) {
	db := layered(t)
	want := entriesOf(t, db, Range{})
	for range 20 {
		old := db.NewIterator(Range{Upper: []byte("b")})
		if !old.Next() {
			t.Fatal(old.Err())
		}
		if err := old.Close(); err != nil {
			t.Fatal(err)
		}
		it := db.NewIterator(Range{})
		var got []string
		for it.Next() {
			if old.Next() || old.SeekGE(nil) || old.Prev() || old.Last() || old.Valid() || !errors.Is(old.Err(), ErrClosed) {
				t.Fatalf("a closed iterator moves; Err() = %v", old.Err())
			}
			if len(old.Key())+len(old.Value()) > 0 {
				t.Fatalf("a closed iterator is at %q = %q", old.Key(), old.Value())
			}
			if err := old.Close(); err != nil {
				t.Fatal(err)
			}
			got = append(got, string(it.Key())+"="+string(it.Value()))
		}
		if err := errors.Join(it.Err(), it.Close()); err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(got, want) {
			t.Fatalf("beside a closed one: %q, want %q", got, want)
		}
	}
}

// entriesOf lists the entries of r as key=value.
func entriesOf(t *testing.T, db *DB, r Range) (list []string) {
	t.Helper()
	for e, err := range db.Scan(r) {
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, string(e.Key)+"="+string(e.Value))
	}
	return list
}

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

// A read error is not an end: it stops the iterator, which tells it, and can
// be moved elsewhere.
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

// Once the store is closed, each movement of an iterator fails, wherever it
// stands, and Err is ErrClosed.
func TestIterator_EveryMoveAfterClose(t *testing.T) {
	k := []byte("c")
	places := map[string]func(it *Iterator){
		"fresh":            func(*Iterator) {},
		"on an entry":      func(it *Iterator) { it.SeekGE(k) },
		"backward":         func(it *Iterator) { it.SeekLT(k) },
		"after the last":   func(it *Iterator) { it.Last(); it.Next() },
		"before the first": func(it *Iterator) { it.First(); it.Prev() },
		"sought too far":   func(it *Iterator) { it.SeekGE([]byte("z")) },
	}
	for place, goThere := range places {
		for _, r := range []Range{{}, {Lower: []byte("b"), Upper: []byte("e")}, {Upper: []byte{}}} {
			for _, m := range moves {
				db := layered(t)
				s := mustSnapshot(t, db)
				iters := []*Iterator{db.NewIterator(r), s.NewIterator(r)}
				for _, it := range iters {
					goThere(it)
					if it.Err() != nil {
						t.Fatal(it.Err())
					}
				}
				if err := db.Close(); err != nil {
					t.Fatal(err)
				}
				for _, it := range iters {
					for range 2 {
						if m.on(it) || it.Valid() || it.Err() != ErrClosed {
							t.Errorf("%s, [%s, %s), %s: Err is %v, want ErrClosed", place, r.Lower, r.Upper, m.name, it.Err())
						}
					}
					if err := it.Close(); err != nil {
						t.Error(err)
					}
					if m.on(it) || it.Err() != ErrClosed {
						t.Errorf("%s after the iterator's Close: Err is %v, want ErrClosed", m.name, it.Err())
					}
				}
			}
		}
	}
}

// A movement that finds the store open, and its files closed when it comes to read
// them, gives ErrClosed itself.
func TestIterator_CloseBeforeARead(t *testing.T) {
	for _, m := range moves {
		opts := small()
		opts.CompactionWorkers, opts.CacheSize = -1, -1
		db := openTest(t, opts)
		for i := range 500 {
			mustPut(t, db, fmt.Sprintf("%c%d", 'a'+i%8, i), strings.Repeat("v", 50))
		}
		mustFlush(t, db)
		it := db.NewIterator(Range{})
		it.SeekGE([]byte("c"))
		db.files.Close() // as Close does after it has told that the store is closed
		for range 500 {  // Next and Prev come to the end of a block
			if !m.on(it) {
				break
			}
		}
		if it.Err() != ErrClosed || it.Valid() {
			t.Errorf("%s: %v, want ErrClosed itself", m.name, it.Err())
		}
		if err := it.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
	}
}

// A scan whose read ahead meets Close raises no alarm.
func TestIterator_CloseBeforeAReadAhead(t *testing.T) {
	opts := small()
	opts.CompactionWorkers, opts.CacheSize = -1, -1
	opts.MemtableSize, opts.TableSize = 1<<20, 1<<20
	opts.OnEvent = func(e Event) {
		if e.Err != nil {
			t.Errorf("event %v (%s): %v", e.Kind, e.Reason, e.Err)
		}
	}
	db := openTest(t, opts)
	fill(t, db, 5000, 0)
	mustFlush(t, db)
	for n := range 100 { // one of them comes to a read ahead
		db.files.Reset()
		it := db.NewIterator(Range{})
		for ok, i := it.First(), 0; ok && i < 20*n; i++ {
			ok = it.Next()
		}
		db.files.Close()
		for it.Next() {
		}
		if it.Err() != ErrClosed {
			t.Errorf("%v, want ErrClosed", it.Err())
		}
		it.Close()
	}
}
