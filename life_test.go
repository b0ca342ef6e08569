package shale

import (
	"context"
	"fmt"
	"iter"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/shaledb/shale/vfs"
)

// A history is the writes of a test, in order, known beforehand: commit i puts
// a marker key that nobody else touches, and puts or deletes some of a few keys
// that many commits share. So from what is found in a store one can tell which
// commits it holds, and from these what else must be there.
type history [][]Op

// newHistory returns n commits, the same ones for the same arguments. The keys
// of histories with different names are different.
func newHistory(name string, seed uint64, n int) history {
	h := make(history, n)
	for i := range h {
		r := rand.New(rand.NewPCG(seed, uint64(i)))
		h[i] = []Op{{OpPut, marker(name, i), []byte(strings.Repeat("m", r.IntN(20)))}}
		for j := range r.IntN(6) {
			key := fmt.Appendf(nil, "%s-k%03d", name, r.IntN(120))
			if r.IntN(4) == 0 {
				h[i] = append(h[i], Op{OpDelete, key, nil})
				continue
			}
			size := r.IntN(160)
			if r.IntN(100) == 0 {
				size = 5000
			}
			value := fmt.Appendf(nil, "%d.%d.", i, j)
			for len(value) < size {
				value = append(value, byte(r.Uint32()))
			}
			h[i] = append(h[i], Op{OpPut, key, value})
		}
	}
	return h
}

func marker(name string, i int) []byte { return fmt.Appendf(nil, "%s-c%06d", name, i) }

// batch returns commit i as a batch.
func (h history) batch(i int, d Durability) *Batch {
	b := new(Batch)
	for _, op := range h[i] {
		if op.Kind == OpDelete {
			_ = b.Delete(op.Key) // far below every limit
		} else {
			_ = b.Put(op.Key, op.Value) // likewise
		}
	}
	b.SetDurability(d)
	return b
}

// A claim is what a test knows about the commits of its history. Claims are
// not changed but replaced.
type claim struct {
	safe  int          // those below survive
	begun int          // those from here on can't be there
	lost  map[int]fate // exceptions
	// copies are the checkpoints that were made and the commits in each.
	copies []lifeCopy
}

type lifeCopy struct {
	dir string
	n   int
}

// fate is what became of a commit that did not simply succeed.
type fate int

const (
	unknown fate = iota + 1 // its Write failed: it may be there or not
	gone                    // it was seen to be missing: it must not come back
)

// read returns what r holds of the history, and which commits are there.
func (h history) read(r Reader, name string) (got map[string]string, present []bool, err error) {
	got = make(map[string]string)
	present = make([]bool, len(h))
	for e, err := range r.Scan(Prefix(name + "-")) {
		if err != nil {
			return nil, nil, fmt.Errorf("Scan: %w", err)
		}
		if digits, ok := strings.CutPrefix(string(e.Key), name+"-c"); ok {
			i, err := strconv.Atoi(digits)
			if err != nil || i >= len(h) {
				return nil, nil, fmt.Errorf("key %q is nobody's", e.Key)
			}
			present[i] = true
		}
		got[string(e.Key)] = string(e.Value)
	}
	return got, present, nil
}

// check compares what r holds of the history with the claim: the commits that
// are there are all up to some point, apart from exceptions, each with all of
// its operations. It returns the number behind the last.
func (h history) check(r Reader, name string, c claim) (n int, err error) {
	got, present, err := h.read(r, name)
	if err != nil {
		return 0, err
	}
	for i, there := range present {
		if there {
			n = i + 1
		}
	}
	if n > c.begun {
		return 0, fmt.Errorf("commit %d is there, which was never begun", n-1)
	}
	for i := range max(n, c.safe) {
		switch {
		case present[i] && c.lost[i] == gone:
			return 0, fmt.Errorf("commit %d is back, which was lost", i)
		case !present[i] && c.lost[i] == 0:
			return 0, fmt.Errorf("commit %d is missing: %d are safe, %d were begun, %d is the last there", i, c.safe, c.begun, n-1)
		}
	}
	return n, h.compare(r, got, present[:n])
}

// compare checks got against the state that the present commits lead to, and
// some single lookups against got.
func (h history) compare(r Reader, got map[string]string, present []bool) error {
	want := make(map[string]string)
	deleted := ""
	for i, p := range present {
		if !p {
			continue
		}
		for _, op := range h[i] {
			if op.Kind == OpDelete {
				deleted = string(op.Key)
				delete(want, deleted)
			} else {
				want[string(op.Key)] = string(op.Value)
			}
		}
	}
	for k, v := range want {
		if g, ok := got[k]; !ok || g != v {
			return fmt.Errorf("key %q is %.40q (there: %v), want %.40q", k, g, ok, v)
		}
	}
	asked := 0
	for k, v := range got {
		if _, ok := want[k]; !ok {
			return fmt.Errorf("key %q is there, with value %.40q", k, v)
		}
		if asked++; asked > 8 {
			continue
		}
		if g, err := r.Get([]byte(k)); err != nil || string(g) != v {
			return fmt.Errorf("Get(%q) = %.40q, %w; the scan has %.40q", k, g, err, v)
		}
	}
	if _, there := want[deleted]; deleted != "" && !there {
		if has, err := r.Has([]byte(deleted)); has || err != nil {
			return fmt.Errorf("Has(%q) = %v, %w; it is deleted", deleted, has, err)
		}
	}
	return nil
}

// A life is a store that a script uses, and what is known of its history.
type life struct {
	t    testing.TB
	name string
	opts Options
	db   *DB
	h    history

	known atomic.Pointer[claim] // atomic because hooks of the file system look at it
}

// tinyStore are options under which some hundred commits make levels, logs
// that are used again, and tables that are merged.
func tinyStore(fs vfs.FS) Options {
	return Options{FS: fs, MemtableSize: 4 << 10, TableSize: 4 << 10, BlockSize: 512, CacheSize: 32 << 10,
		CompactionWorkers: 1, Durability: SyncManual, OnEvent: func(Event) {},
		testing: testOptions{baseSize: 8 << 10, seed: 77, minPrepared: 1}}
}

// claim returns what is known now.
func (l *life) claim() claim {
	if c := l.known.Load(); c != nil {
		return *c
	}
	return claim{}
}

func (l *life) learn(change func(c *claim)) {
	c := l.claim()
	change(&c)
	l.known.Store(&c)
}

// allSafe notes that all that was written is durable.
func (l *life) allSafe() { l.learn(func(c *claim) { c.safe = c.begun }) }

func (l *life) open() {
	l.t.Helper()
	db, err := Open("db", &l.opts)
	if err != nil {
		l.t.Fatalf("%s: Open: %v", l.name, err)
	}
	l.db = db
}

func (l *life) close() {
	l.t.Helper()
	l.must("Close", l.db.Close())
	l.allSafe()
}

func (l *life) must(what string, err error) {
	l.t.Helper()
	if err != nil {
		l.t.Fatalf("%s: %s: %v", l.name, what, err)
	}
}

// write makes the next n commits, each k-th synced; 0: none. Some leave it to the
// options how durable they are.
func (l *life) write(n, k int) {
	l.t.Helper()
	for j := range n {
		i := l.claim().begun
		if i >= len(l.h) {
			l.t.Fatalf("%s: the history has only %d commits", l.name, len(l.h))
		}
		b := l.h.written(i, k > 0 && j%k == k-1, l.opts.Durability)
		l.learn(func(c *claim) { c.begun++ })
		l.must("Write", l.db.Write(context.Background(), b.Batch))
		if b.synced {
			l.allSafe()
		}
	}
}

// A lifeBatch is a batch, and whether it is durable when it is acknowledged.
type lifeBatch struct {
	*Batch
	synced bool
}

// written returns commit i for a store whose writes are as durable as of says:
// it chooses for itself, or, every other one, leaves it at that if that is what
// it would choose.
func (h history) written(i int, synced bool, of Durability) lifeBatch {
	d := SyncManual
	switch {
	case synced:
		d = SyncEach
	case i%3 == 1:
		d = SyncPeriodic
	}
	b := h.batch(i, d)
	if i%2 == 0 && (of == SyncEach) == synced {
		b.ownChoice = false
	}
	return lifeBatch{b, synced}
}

// ingestible makes commit i one of puts in the order of keys, the keys of commits
// before it. To be called before the first.
func (h history) ingestible(i int) {
	puts := make(map[string]Op)
	for j := i - min(i, 8); j <= i; j++ {
		for n, op := range h[j] {
			if j == i || n > 0 { // not their markers
				puts[string(op.Key)] = Op{OpPut, op.Key, fmt.Appendf(nil, "%d.%s", i, op.Value)}
			}
		}
	}
	h[i] = nil
	for _, key := range slices.Sorted(maps.Keys(puts)) {
		h[i] = append(h[i], puts[key])
	}
}

// sorted gives the entries of an ingestible commit.
func (h history) sorted(i int) iter.Seq2[[]byte, []byte] {
	return func(yield func([]byte, []byte) bool) {
		for _, op := range h[i] {
			if !yield(op.Key, op.Value) {
				return
			}
		}
	}
}

// ingest makes the next commit, which is ingestible. All is durable then.
func (l *life) ingest() {
	l.t.Helper()
	i := l.claim().begun
	l.learn(func(c *claim) { c.begun++ })
	l.must("Ingest", l.db.Ingest(context.Background(), l.h.sorted(i)))
	l.allSafe()
}

func (l *life) sync() {
	l.t.Helper()
	l.must("Sync", l.db.Sync())
	l.allSafe()
}

func (l *life) flush() {
	l.t.Helper()
	l.must("Flush", l.db.Flush(context.Background()))
	l.allSafe()
}

func (l *life) compact() {
	l.t.Helper()
	l.must("Compact", l.db.Compact(context.Background(), Range{}))
	l.allSafe()
}

func (l *life) rebuildFilters() {
	l.t.Helper()
	r, err := l.db.RebuildFilters(context.Background())
	l.must("RebuildFilters", err)
	if r.Rebuilt == 0 {
		l.t.Fatalf("%s: RebuildFilters: %+v: the script means filters to be rebuilt", l.name, r)
	}
}

func (l *life) checkpoint(dir string) {
	l.t.Helper()
	l.must("Checkpoint", l.db.Checkpoint(dir))
	l.learn(func(c *claim) { c.copies = append(slices.Clip(c.copies), lifeCopy{dir, c.begun}) })
}

// rollManifest makes the next edit begin a new manifest.
func (l *life) rollManifest() {
	l.db.tree.RenewManifest()
}

// idle waits for the background.
func (l *life) idle() { waitIdle(l.t, l.db) }
