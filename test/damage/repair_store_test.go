package damage

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/shaledb/shale"
	"github.com/shaledb/shale/internal/base"
	"github.com/shaledb/shale/repair"
	"github.com/shaledb/shale/test/harness"
	"github.com/shaledb/shale/vfs"
)

// A lostStore is a store of which tests damage copies, to repair them. It knows what the store held
// after each commit.
type lostStore struct {
	shape string
	opts  string // that it was written with last
	mem   *vfs.Mem
	files map[string]string
	torn  bool // a crash has ended it, which may have torn the ends of files
	// unused are files that the store does not need any more.
	unused map[string]bool

	lasts   []uint64 // the last sequence number after n commits
	states  []harness.State
	written map[harness.Entry]bool // ever
	ranges  []shale.Op             // all range deletes
	safe    int                    // commits that are there, whatever tore the ends
}

// A lostScript is the life of a lostStore.
type lostScript struct {
	*harness.Script
	store *lostStore
	held  []*shale.Snapshot
}

// lostShapes are the stores that tests damage: with all that a store can have on disk, closed or
// crashed.
var lostShapes = map[string]struct {
	torn   bool
	script func(s *lostScript)
}{
	"closed": {false, func(s *lostScript) {
		s.deep()
		s.Write(8, 0)
	}},
	"filters beside tables": {false, func(s *lostScript) {
		hash := func(add shale.FilterHash) func(o *shale.Options) {
			return func(o *shale.Options) { o.FilterBits, o.FilterMemory, o.Tuning.FilterHash = 10, 0, add }
		}
		s.deep(hash(0))
		s.Write(8, 0)
		s.options(64<<10, -1, hash(1))
		s.RebuildFilters()
		s.Write(3, 0)
	}},
	// The manifest names all flushes and merges. Their tables are gone.
	"one life": {false, func(s *lostScript) {
		s.options(4<<10, 1)
		s.fill(16)
		s.Write(5, 0)
	}},
	"crashed": {true, func(s *lostScript) {
		s.deep()
		for range 3 { // for logs that are kept to be used again, and older ones that are gone
			s.Write(4, 0)
			s.Flush()
		}
		s.Write(6, 0)
		s.Sync()
		s.Write(5, 0)
	}},
	// With many versions of keys, over the borders of blocks.
	"versions": {false, func(s *lostScript) {
		s.Keys, s.Exact = s.Keys[40:43], true
		for range 60 {
			s.Do("hold", func(l *harness.Life) error {
				snapshot, err := l.DB.Snapshot()
				s.held = append(s.held, snapshot)
				return err
			})
			s.Write(2, 0)
			if s.IntN(8) == 0 {
				s.Flush()
			}
		}
		s.Keys, s.Exact = harness.ShortKeys, false
		s.Compact()
		s.Write(10, 0)
		s.Flush()
		s.Write(4, 0)
	}},
	"small": {false, func(s *lostScript) {
		s.Write(12, 0)
		s.Flush()
		s.Compact()
		for range 2 {
			s.Write(4, 0)
			s.Flush()
		}
		s.Write(4, 0)
		s.Reopen(nil)
		s.Write(4, 0)
	}},
	"logs only": {true, func(s *lostScript) { s.Write(10, 0) }},
	// Each life leaves a log, because little was written.
	"many logs": {false, func(s *lostScript) {
		s.Write(8, 0)
		s.Flush()
		for range 5 {
			s.Write(4, 0)
			if s.IntN(3) == 0 {
				s.Crash(harness.KeepAll)
			} else {
				s.Reopen(nil)
			}
		}
		s.Write(4, 0)
	}},
	// The first commits of a live log are in tables too.
	"half flushed": {true, func(s *lostScript) {
		s.Write(40, 0)
		s.crash(8<<10, -1)
		s.Idle()
	}},
	// A log is live of which the first commits are in tables, merged to the last level, without
	// numbers and deletions.
	"split log": {true, func(s *lostScript) {
		s.Write(50, 0)
		s.crash(4<<10, 1)
		s.Idle()
		for range s.IntN(3) {
			s.crash(64<<10, -1)
			s.Write(s.IntN(4), 0)
		}
	}},
}

// deep makes several levels, with runs in level 0. Options change as said.
func (s *lostScript) deep(change ...func(o *shale.Options)) {
	s.options(4<<10, 1, change...)
	s.fill(16)
	s.options(64<<10, -1, change...)
	for range 2 {
		s.Write(5, 0)
		s.Flush()
	}
}

// fill makes n flushes, with what follows from them.
func (s *lostScript) fill(n int) {
	for range n {
		s.Write(10, 0)
		s.Flush()
		s.Idle()
	}
}

// options closes the store and opens it with other options.
func (s *lostScript) options(memtable int64, workers int, change ...func(o *shale.Options)) {
	s.Reopen(func(o *shale.Options) {
		o.MemtableSize, o.CompactionWorkers = memtable, workers
		for _, c := range change {
			c(o)
		}
	})
}

// crash crashes the store and opens it with other options.
func (s *lostScript) crash(memtable int64, workers int) {
	s.Do("options", func(l *harness.Life) error {
		l.Change = func(o *shale.Options) { o.MemtableSize, o.CompactionWorkers = memtable, workers }
		return nil
	})
	s.Crash(harness.KeepAll)
}

func (s *lostScript) Reopen(change func(o *shale.Options)) { s.Script.Reopen(change); s.allSafe() }
func (s *lostScript) Flush()                               { s.Script.Flush(); s.allSafe() }
func (s *lostScript) Sync()                                { s.Script.Sync(); s.allSafe() }

func (s *lostScript) allSafe() {
	s.Do("all are safe", func(*harness.Life) error {
		s.store.safe = len(s.store.states) - 1
		return nil
	})
}

// look notes what the step has committed.
func (b *lostStore) look(commits []harness.Commit) {
	for _, c := range commits {
		for _, op := range c.Ops {
			if op.Kind == shale.OpPut {
				b.written[harness.EntryOf(op)] = true
			}
		}
		last := len(b.lasts) - 1
		n := uint64(len(c.Ops))
		for _, op := range c.Ops {
			if op.Kind == shale.OpDeleteRange {
				b.ranges = append(b.ranges, op)
			}
			if op.Kind == shale.OpDeleteRange && op.Value != nil && string(op.Key) >= string(op.Value) {
				n-- // a batch leaves out a range without keys
			}
		}
		b.lasts = append(b.lasts, b.lasts[last]+n)
		b.states = append(b.states, b.states[last].With(c.Ops...))
	}
}

// newLostStore makes the store of a shape, the same one for the same seed but for what depends on
// the time.
func newLostStore(t testing.TB, shape string, seed uint64) *lostStore {
	t.Helper()
	b := &lostStore{shape: shape, torn: lostShapes[shape].torn, lasts: []uint64{0}, states: make([]harness.State, 1), written: make(map[harness.Entry]bool)}
	if err := b.live(seed); err != nil {
		t.Fatalf("%s, seed %d: %v; %s", shape, seed, err, b.opts)
	}
	var err error
	if b.files, err = harness.Files(b.mem, harness.Dir); err != nil {
		t.Fatal(err)
	}
	b.unused = map[string]bool{base.LockName: true}
	report, err := repair.Check(context.Background(), harness.Dir, &repair.Options{FS: b.mem})
	if err != nil {
		t.Fatal(err)
	}
	for i := range report.Findings {
		if f := &report.Findings[i]; f.Harm != repair.Stray {
			t.Fatalf("%s, seed %d: found before there is damage: %+v; %s", shape, seed, f, b.opts)
		}
		b.unused[report.Findings[i].File] = true
	}
	return b
}

// live lives the life of the store.
func (b *lostStore) live(seed uint64) error {
	l := harness.NewLife(seed)
	l.Trusting = true // a refused group uses up numbers, and lasts counts those of commits
	options := l.Options
	l.Options = func(n int) shale.Options {
		o := options(n)
		o.Durability, o.SyncEvery = shale.SyncManual, time.Hour // what is safe is what the script has synced
		o.MemtableSize, o.CompactionWorkers = 64<<10, -1        // what is flushed and merged, likewise
		o.TableSize = min(o.TableSize, 8<<10)
		o.BlockSize = min(o.BlockSize, 1<<10)
		*harness.KnobsOf(&o).Seed = seed%1000 + 1
		return o
	}
	seen := 0 // of the model's commits
	l.Look = func(l *harness.Life) {
		commits := l.Model.Claim().Commits
		b.look(commits[min(seen, len(commits)):])
		seen = len(commits)
	}
	s := &lostScript{Script: harness.NewScript(seed), store: b}
	s.Marked = true
	lostShapes[b.shape].script(s)
	defer func() { b.opts = harness.OptionsText(&l.Opts) }()
	if err := l.Open(); err != nil {
		return err
	}
	for i, step := range s.Steps {
		if err := l.Do(step); err != nil {
			return fmt.Errorf("step %d, %.200s: %w", i, step, err)
		}
	}
	b.mem = l.Mem.Crash(harness.KeepAll)
	for _, snapshot := range s.held {
		if err := snapshot.Close(); err != nil {
			return err
		}
	}
	if err := l.Close(); err != nil {
		return err
	}
	if !b.torn {
		b.mem, b.safe = l.Mem, len(b.states)-1
	}
	return nil
}

// someLostShapes returns the names of the shapes; with -short two of them, others for another seed.
func someLostShapes(seed uint64) []string {
	names := slices.Sorted(maps.Keys(lostShapes))
	if testing.Short() {
		rand.New(rand.NewPCG(seed, 2)).Shuffle(len(names), func(i, j int) { names[i], names[j] = names[j], names[i] })
		names = names[:2]
	}
	return names
}

// after returns how many commits there were up to a sequence number.
func (b *lostStore) after(seq uint64) int {
	n, found := slices.BinarySearch(b.lasts, seq)
	if !found {
		n--
	}
	return n
}
