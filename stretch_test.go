package shale

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"sort"
	"strings"
	"testing"

	"github.com/shaledb/shale/internal/testenv"
	"github.com/shaledb/shale/vfs"
)

// A stretched store has most of its keys in the last level, in blocks of one sequence number, through
// which cursors go without a merge. What it had at each time is in states.
type stretched struct {
	db      *DB
	readers []Reader
	states  []map[string]string
	now     map[string]string
}

func stretchedKey(i int) string { return fmt.Sprintf("k%06d", i) }

func (s *stretched) put(t *testing.T, i int, value string) {
	mustPut(t, s.db, stretchedKey(i), value)
	s.now[stretchedKey(i)] = value
}

func (s *stretched) remove(t *testing.T, i int) {
	mustDelete(t, s.db, stretchedKey(i))
	delete(s.now, stretchedKey(i))
}

// keep keeps what the store has now, and r, which is to see that.
func (s *stretched) keep(r Reader) {
	s.readers, s.states = append(s.readers, r), append(s.states, maps.Clone(s.now))
}

const stretchedKeys = 4000

func newStretched(t *testing.T) *stretched {
	t.Helper()
	opts := small()
	opts.CompactionWorkers, opts.BlockSize, opts.CacheSize = -1, 1024, 1<<20
	s := &stretched{db: openTest(t, opts), now: map[string]string{}}
	snapshot := func() {
		snap := mustSnapshot(t, s.db)
		t.Cleanup(func() { _ = snap.Close() })
		s.keep(snap)
	}
	compact := func() {
		if err := s.db.Compact(t.Context(), Range{}); err != nil {
			t.Fatal(err)
		}
	}
	for i := range stretchedKeys {
		s.put(t, i, fmt.Sprintf("old %d", i))
	}
	compact()
	snapshot()
	// A large value takes a block of its own. So the older version, which the snapshot needs, is the
	// first entry of the next one.
	for i := 0; i < stretchedKeys; i += 60 {
		s.put(t, i, strings.Repeat(fmt.Sprintf("large %d ", i), 150))
	}
	// Keys that the snapshot does not see come into the same blocks as those that it does.
	for i := 5; i < stretchedKeys; i += 35 {
		later := stretchedKey(i) + "later"
		mustPut(t, s.db, later, "later")
		s.now[later] = "later"
	}
	// And a block has both versions of some keys.
	for i := 10; i < stretchedKeys; i += 45 {
		s.put(t, i, "newer")
	}
	compact()
	snapshot()
	mustIngest(t, s.db, func(yield func([]byte, []byte) bool) {
		for i := 1000; i < 1200; i++ {
			s.now[stretchedKey(i)] = "ingested"
			if !yield([]byte(stretchedKey(i)), []byte("ingested")) {
				return
			}
		}
	})
	snapshot()
	for i := 7; i < stretchedKeys; i += 53 {
		s.remove(t, i)
		s.put(t, i+20, "in level 0")
	}
	mustFlush(t, s.db)
	for i := 11; i < stretchedKeys; i += 97 {
		s.put(t, i, "in the memtable")
	}
	s.keep(s.db)
	return s
}

// A stroll moves an iterator and looks at a sorted list of what it must show.
type stroll struct {
	it      *Iterator
	keys    []string
	state   map[string]string
	at      int // from -1, before the first, to len(keys)
	inside  int // steps within stretches, in either direction
	outside int
}

func (s *stroll) check(ok bool) error {
	if s.it.c.stretch.table != nil {
		s.inside++
	} else {
		s.outside++
	}
	if want := s.at >= 0 && s.at < len(s.keys); ok != want || s.it.Err() != nil {
		return fmt.Errorf("place %d of %d: a movement returned %v and %v", s.at, len(s.keys), ok, s.it.Err())
	}
	if !ok {
		return nil
	}
	if key, value := string(s.it.Key()), string(s.it.Value()); key != s.keys[s.at] || value != s.state[key] {
		return fmt.Errorf("place %d: %q %.20q, want %q %.20q", s.at, key, value, s.keys[s.at], s.state[s.keys[s.at]])
	}
	return nil
}

func (s *stroll) next() error {
	s.at = min(s.at+1, len(s.keys))
	return s.check(s.it.Next())
}

func (s *stroll) prev() error {
	s.at = max(s.at-1, -1)
	return s.check(s.it.Prev())
}

func (s *stroll) seekGE(key []byte) error {
	s.at = sort.SearchStrings(s.keys, string(key))
	return s.check(s.it.SeekGE(key))
}

func (s *stroll) seekLT(key []byte) error {
	s.at = sort.SearchStrings(s.keys, string(key)) - 1
	return s.check(s.it.SeekLT(key))
}

// jump moves to another place.
func (s *stroll) jump(r *rand.Rand) error {
	random := []byte(stretchedKey(r.IntN(stretchedKeys)))
	if s.it.Valid() && r.IntN(2) == 0 {
		random = s.it.Key() // as programs do, without a copy
	}
	switch r.IntN(6) {
	case 0:
		s.at = 0
		return s.check(s.it.First())
	case 1:
		s.at = len(s.keys) - 1
		return s.check(s.it.Last())
	case 2, 3:
		return s.seekGE(random)
	}
	return s.seekLT(random)
}

func (s *stroll) walk(r *rand.Rand, legs int) error {
	for range legs {
		if r.IntN(3) == 0 {
			if err := s.jump(r); err != nil {
				return err
			}
		}
		step := s.next
		if r.IntN(2) == 0 {
			step = s.prev
		}
		for range r.IntN(150) {
			if err := step(); err != nil {
				return err
			}
		}
	}
	return nil
}

// Iterators that go up and down, turn, and jump see what each reader must see, with all that may lie
// between the entries of a block: newer versions in other tables and in the block before, deletions,
// entries that are newer than the reader, and bounds.
func TestStretch_Walks(t *testing.T) {
	s := newStretched(t)
	r := rand.New(rand.NewPCG(testenv.Seed(t), 0))
	for i, reader := range s.readers {
		for _, rng := range []Range{{}, {Lower: []byte("k000490"), Upper: []byte("k0033333")}} {
			keys := slices.DeleteFunc(slices.Sorted(maps.Keys(s.states[i])), func(key string) bool {
				return key < string(rng.Lower) || rng.Upper != nil && key >= string(rng.Upper)
			})
			it := reader.NewIterator(rng)
			w := &stroll{it: it, keys: keys, state: s.states[i], at: -1}
			if err := w.walk(r, 200); err != nil {
				t.Errorf("reader %d, range [%s, %s): %v", i, rng.Lower, rng.Upper, err)
			}
			if w.inside < w.outside/4 {
				t.Errorf("reader %d: %d steps within stretches and %d others: the test shows little", i, w.inside, w.outside)
			}
			if err := it.Close(); err != nil {
				t.Error(err)
			}
		}
	}
}

// What a range delete covers is hidden within blocks of one sequence number too, and so is what a
// transaction has deleted.
func TestStretch_RangeDeletes(t *testing.T) {
	s := newStretched(t)
	count := func(r Reader) (n int) {
		for _, err := range r.Scan(Range{}) {
			if err != nil {
				t.Fatal(err)
			}
			n++
		}
		return n
	}
	before, covered := count(s.db), 0
	for key := range s.now {
		if key >= "k002000" && key < "k002010" {
			covered++
		}
	}
	if err := s.db.Update(t.Context(), func(tx *Txn) error {
		if err := tx.DeleteRange([]byte("k002000"), []byte("k002010")); err != nil {
			return err
		}
		if n := before - count(tx); n != covered {
			t.Errorf("%d entries less after a range delete of %d in the transaction", n, covered)
		}
		return errors.New("not to be committed")
	}); err == nil {
		t.Fatal("committed")
	}
	if err := s.db.DeleteRange([]byte("k002000"), []byte("k002010")); err != nil {
		t.Fatal(err)
	}
	if n := before - count(s.db); n != covered {
		t.Errorf("%d entries less after a range delete of %d", n, covered)
	}
}

// lastLevel puts 1,000 keys and brings them to the last level by a merge, after which their sequence numbers are 0.
func lastLevel(t *testing.T, db *DB, value string) {
	t.Helper()
	for range 2 {
		for i := range 1000 {
			mustPut(t, db, stretchedKey(i), value)
		}
		mustFlush(t, db)
	}
	if err := db.Compact(t.Context(), Range{}); err != nil {
		t.Fatal(err)
	}
}

// Damage is met where it is. Entries before it, in either direction, are returned first.
func TestStretch_DamagedBlock(t *testing.T) {
	mem := vfs.NewMem()
	opts := small()
	opts.FS, opts.MemtableSize, opts.TableSize = mem, 1<<20, 1<<20
	opts.CacheSize, opts.Compression, opts.CompactionWorkers = -1, NoCompression, -1
	opts.OnEvent = func(Event) {}
	db, err := Open("db", opts)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	lastLevel(t, db, strings.Repeat("v", 40))
	editFile(t, mem, fileNamed(t, mem, ".sst"), flipByte(25000)) // of about 50,000
	it := db.NewIterator(Range{})
	defer it.Close()
	var damage *CorruptionError
	up, down := 0, 0
	for ok := it.First(); ok; ok = it.Next() {
		if string(it.Key()) != stretchedKey(up) {
			t.Fatalf("entry %d is %q", up, it.Key())
		}
		up++
	}
	if !errors.As(it.Err(), &damage) || it.Next() || it.Err() == nil {
		t.Errorf("up: stopped after %d entries with %v, want a CorruptionError", up, it.Err())
	}
	for ok := it.Last(); ok; ok = it.Prev() {
		if down++; string(it.Key()) != stretchedKey(1000-down) {
			t.Fatalf("entry %d from the end is %q", down, it.Key())
		}
	}
	if !errors.As(it.Err(), &damage) {
		t.Errorf("down: stopped after %d entries with %v, want a CorruptionError", down, it.Err())
	}
	if sum := up + down; sum < 980 || sum >= 1000 {
		t.Errorf("%d entries before the damaged block and %d after it, of 1000", up, down)
	}
}

// The store may be closed while an iterator is in a stretch.
func TestStretch_Closed(t *testing.T) {
	for _, back := range []bool{false, true} {
		for _, m := range moves {
			opts := small()
			opts.CompactionWorkers, opts.BlockSize = -1, 4096
			db := openTest(t, opts)
			lastLevel(t, db, "v")
			it := db.NewIterator(Range{})
			begin, step := it.First, it.Next
			if back {
				begin, step = it.Last, it.Prev
			}
			begin()
			for n := 0; it.c.stretch.left == 0; n++ {
				if step(); n > 100 {
					t.Fatal("no stretch")
				}
			}
			if err := db.Close(); err != nil {
				t.Fatal(err)
			}
			for range 2 {
				if m.on(it) || it.Valid() || it.Err() != ErrClosed {
					t.Errorf("back %v, %s: Err is %v, want ErrClosed", back, m.name, it.Err())
				}
			}
			if err := it.Close(); err != nil {
				t.Error(err)
			}
		}
	}
}
