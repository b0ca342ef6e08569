package shale

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/shaledb/shale/internal/testenv"
	"github.com/shaledb/shale/vfs"
)

// A followed is a store that is written, with a model of its states by sequence number, and
// read-only handles of its directory.
type followed struct {
	t    testing.TB
	opts Options
	db   *DB
	r    *rand.Rand

	mu     sync.Mutex
	now    map[string]string
	states map[uint64]string // as text; a number within a batch has none
	acked  uint64            // the last number that was acknowledged
}

func newFollowed(t testing.TB, seed uint64, opts Options) *followed {
	f := &followed{t: t, opts: opts, r: rand.New(rand.NewPCG(seed, 18)), now: make(map[string]string), states: map[uint64]string{0: ""}}
	f.open()
	t.Cleanup(func() { closeTest(t, f.db) })
	return f
}

func (f *followed) open() {
	f.t.Helper()
	opts := f.opts
	db, err := Open("db", &opts)
	if err != nil {
		f.t.Fatalf("Open: %v", err)
	}
	f.db = db
}

// follow opens a read-only handle.
func (f *followed) follow() *DB {
	f.t.Helper()
	opts := f.opts
	opts.ReadOnly = true
	ro, err := Open("db", &opts)
	if err != nil {
		f.t.Fatalf("Open beside the writer: %v", err)
	}
	f.t.Cleanup(func() { closeTest(f.t, ro) })
	return ro
}

// text is the state of the model as scanAll gives that of a store.
func text(m map[string]string) string {
	var s strings.Builder
	for _, k := range slices.Sorted(maps.Keys(m)) {
		fmt.Fprintf(&s, "%s=%s ", k, m[k])
	}
	return strings.TrimSpace(s.String())
}

// expect notes the state that the next write leads to, which takes n numbers.
func (f *followed) expect(n uint64, change func(m map[string]string)) (seq uint64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	change(f.now)
	seq = uint64(f.db.commits.Last()) + n
	f.states[seq] = text(f.now)
	return seq
}

func (f *followed) ack(seq uint64, err error) {
	f.t.Helper()
	if err != nil {
		f.t.Fatalf("write %d: %v", seq, err)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.acked = seq
}

// write makes one change: of one key or a few, or an ingestion.
func (f *followed) write() {
	f.t.Helper()
	key := func() string { return fmt.Sprintf("k%03d", f.r.IntN(300)) }
	value := fmt.Sprintf("%d-%s", f.r.IntN(1000), strings.Repeat("v", f.r.IntN(200)))
	switch n := f.r.IntN(40); {
	case n == 0:
		from := f.r.IntN(250)
		seq := f.expect(1, func(m map[string]string) {
			for i := range 40 {
				m[fmt.Sprintf("k%03d", from+i)] = value
			}
		})
		f.ack(seq, f.db.Ingest(context.Background(), func(yield func(k, v []byte) bool) {
			for i := range 40 {
				if !yield(fmt.Appendf(nil, "k%03d", from+i), []byte(value)) {
					return
				}
			}
		}))
	case n < 10:
		k := key()
		seq := f.expect(1, func(m map[string]string) { delete(m, k) })
		f.ack(seq, f.db.Delete([]byte(k)))
	default:
		b := new(Batch)
		keys := []string{key(), key(), key(), key()}[:1+f.r.IntN(4)]
		seq := f.expect(uint64(len(keys)), func(m map[string]string) {
			for _, k := range keys {
				m[k] = value
				if err := b.Put([]byte(k), []byte(value)); err != nil {
					f.t.Fatal(err)
				}
			}
		})
		f.ack(seq, f.db.Write(context.Background(), b))
	}
}

// upkeep does something to the files of the store that changes no key.
func (f *followed) upkeep() {
	f.t.Helper()
	var err error
	ctx := context.Background()
	switch f.r.IntN(6) {
	case 0:
		err = f.db.Flush(ctx)
	case 1:
		err = f.db.Compact(ctx, Range{})
	case 2:
		f.db.tree.RenewManifest()
	case 3:
		_, err = f.db.Inspect().RebuildFilters(ctx)
	case 4:
		if err = f.db.Close(); err == nil {
			f.opts.FilterBits = []float64{5, 10, 14}[f.r.IntN(3)]
			f.open()
		}
	}
	if err != nil {
		f.t.Fatalf("upkeep: %v", err)
	}
}

// advance advances a handle and checks what it shows.
func (f *followed) advance(ro *DB) (seq uint64) {
	f.t.Helper()
	before := uint64(ro.commits.Visible())
	f.mu.Lock()
	acked := f.acked
	f.mu.Unlock()
	seq, err := ro.Advance(context.Background())
	if err != nil {
		f.t.Fatalf("Advance: %v", err)
	}
	if seq < before || seq < acked {
		f.t.Fatalf("Advance shows number %d, the handle has shown %d, and %d was acknowledged", seq, before, acked)
	}
	f.check(ro, seq)
	return seq
}

// check checks that a reader shows the state of a number.
func (f *followed) check(r Reader, seq uint64) {
	f.t.Helper()
	f.mu.Lock()
	want, ok := f.states[seq]
	f.mu.Unlock()
	if !ok {
		f.t.Fatalf("number %d is within a batch, or unknown", seq)
	}
	if got := scanAll(f.t, r, Range{}); got != want {
		f.t.Fatalf("at number %d: %s\nwant %s", seq, got, want)
	}
	for i := range uint64(4) {
		k := fmt.Sprintf("k%03d", (seq+75*i)%300)
		value, err := r.Get([]byte(k))
		if there := strings.Contains(" "+want, " "+k+"="); there != (err == nil) || there && !strings.Contains(" "+want+" ", " "+k+"="+string(value)+" ") {
			f.t.Fatalf("at number %d: Get(%s) = %q, %v; the scan has %s", seq, k, value, err, want)
		}
	}
}

// Before each operation of the writer that changes a file, the handle advances to what was
// acknowledged: no half written file, no rename and no removal is in its way.
func TestAdvance_AtEachOperationOfTheWriter(t *testing.T) {
	mem := vfs.NewMem()
	opts := tinyStore(mem)
	opts.CompactionWorkers, opts.testing.noMap = -1, true
	f := newFollowed(t, 1, opts)
	ro := f.follow()
	var turn sync.Mutex
	n := 0
	mem.OnOp(func(op vfs.Op, name string) {
		turn.Lock()
		defer turn.Unlock()
		if n++; n%3 == 0 {
			f.advance(ro)
		}
	})
	rounds := 60
	if testenv.Race {
		rounds = 5
	}
	for range rounds {
		for range 20 {
			f.write()
		}
		if f.r.IntN(3) == 0 {
			f.upkeep()
		}
	}
	mem.OnOp(nil)
	if n < 15*rounds {
		t.Errorf("only %d operations", n)
	}
	tables := len(ro.Inspect().Tables())
	closeTest(t, f.db)
	if open := mem.OpenFiles(); open > 2*tables { // of tables, and sidecars of some
		t.Errorf("the handle has %d files open and shows %d tables", open, tables)
	}
}

// An Advance with nothing new opens no table, lists no directory and reads a few hundred bytes. After 100
// batches it reads these, and not what it has read before.
func TestAdvance_CostsWhatIsNew(t *testing.T) {
	counted := &readCounter{FS: vfs.NewMem()}
	opts := Options{FS: counted, Durability: SyncManual}
	f := newFollowed(t, 1, opts)
	for range 300 {
		f.write()
	}
	mustFlush(t, f.db)
	waitIdle(t, f.db) // a compaction would be new
	for range 3000 {
		f.db.Put([]byte("k"), []byte(strings.Repeat("v", 100)))
	}
	ro := f.follow()
	measure := func() readCounts {
		t.Helper()
		counted.take()
		if _, err := ro.Advance(context.Background()); err != nil {
			t.Fatal(err)
		}
		return counted.take()
	}
	wantIdle := func(when string) {
		t.Helper()
		if c := measure(); c.bytes > 512 || c.tables > 0 || c.lists > 0 || c.opens > 3 {
			t.Errorf("%s: an Advance with nothing new costs %+v", when, c)
		}
	}
	wantIdle("after Open")
	for range 100 {
		mustPut(t, f.db, "k", strings.Repeat("v", 100))
	}
	if c := measure(); c.bytes > 100*150+(64<<10) || c.tables > 0 || c.lists > 0 {
		t.Errorf("an Advance over 100 batches costs %+v", c)
	}
	wantIdle("after 100 batches")
	mustFlush(t, f.db)
	if c := measure(); c.tables != 1 || c.lists > 0 {
		t.Errorf("an Advance over a flush costs %+v", c)
	}
	wantIdle("after a flush")
	f.db.tree.RenewManifest()
	mustPut(t, f.db, "k", "v")
	mustFlush(t, f.db)
	if c := measure(); c.tables != 1 || c.lists > 0 {
		t.Errorf("an Advance over a new manifest costs %+v", c)
	}
	wantIdle("after a new manifest")
	ctx, most := context.Background(), 40.
	if runtime.GOOS == "windows" {
		most = 60 // its calls take names in UTF-16
	}
	if n := testing.AllocsPerRun(100, func() { _, _ = ro.Advance(ctx) }); n > most && !testenv.Race {
		t.Errorf("an Advance with nothing new allocates %v times", n)
	}
}

// readCounts is what a readCounter has counted.
type readCounts struct{ opens, tables, lists, bytes int64 }

// A readCounter is a file system that counts opened files, opened tables, and bytes that were read.
type readCounter struct {
	vfs.FS
	mu sync.Mutex
	c  readCounts
}

func (c *readCounter) add(add func(c *readCounts)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	add(&c.c)
}

// take returns the counts and begins again with zeros.
func (c *readCounter) take() (counts readCounts) {
	c.add(func(n *readCounts) { counts, *n = *n, readCounts{} })
	return counts
}

func (c *readCounter) Open(name string) (vfs.File, error) {
	f, err := c.FS.Open(name)
	if err != nil {
		return nil, err
	}
	c.add(func(n *readCounts) {
		if n.opens++; strings.HasSuffix(name, ".sst") {
			n.tables++
		}
	})
	return countedFile{f, c}, nil
}

func (c *readCounter) List(dir string) ([]string, error) {
	c.add(func(n *readCounts) { n.lists++ })
	return c.FS.List(dir)
}

type countedFile struct {
	vfs.File
	c *readCounter
}

func (f countedFile) ReadAt(p []byte, off int64) (int, error) {
	f.c.add(func(n *readCounts) { n.bytes += int64(len(p)) })
	return f.File.ReadAt(p, off)
}

// Advance is for read-only handles, and ends with the handle or the context.
func TestAdvance_Refusals(t *testing.T) {
	f := newFollowed(t, 1, tinyStore(vfs.NewMem()))
	f.write()
	if _, err := f.db.Advance(context.Background()); err == nil || !strings.Contains(err.Error(), "ReadOnly") {
		t.Errorf("Advance of the writer: %v", err)
	}
	ro := f.follow()
	cause := errors.New("enough")
	ctx, cancel := context.WithCancelCause(context.Background())
	cancel(cause)
	if seq, err := ro.Advance(ctx); !errors.Is(err, cause) || !errors.Is(err, context.Canceled) || seq != f.acked {
		t.Errorf("Advance with a done context = %d, %v", seq, err)
	}
	ctx, cancel = context.WithCancelCause(context.Background())
	ro.follower.turn <- struct{}{} // somebody else is at it
	time.AfterFunc(time.Millisecond, func() { cancel(cause) })
	if _, err := ro.Advance(ctx); !errors.Is(err, cause) || !errors.Is(err, context.Canceled) {
		t.Errorf("a waiting Advance with a done context: %v", err)
	}
	<-ro.follower.turn
	closeTest(t, ro)
	if _, err := ro.Advance(context.Background()); err != ErrClosed {
		t.Errorf("Advance after Close: %v", err)
	}
}
