package shale

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/shaledb/shale/internal/base"
	"github.com/shaledb/shale/internal/durable"
	"github.com/shaledb/shale/internal/testenv"
	"github.com/shaledb/shale/vfs"
	"github.com/shaledb/shale/vfs/faultfs"
)

// A line is one history of a store: its states by sequence number, as text, and its last one. No two
// writes have the same value, so a state is in two lines only if both have the same writes up to it.
type line struct {
	states map[uint64]string
	now    map[string]string
	last   uint64
}

func (l *line) clone() *line { return &line{maps.Clone(l.states), maps.Clone(l.now), l.last} }

// A backup is a directory that nobody writes, and the line whose last state it has.
type backup struct {
	dir  string
	line *line
}

// A restores is a directory that is written, copied and restored from its copies, and a handle that follows it.
// What the handle shows may be a state of a line that was in the directory during the Advance, and not before the
// one that it has shown, which must be of the same line. Otherwise Advance returns ErrReplaced, and nothing
// else for files that are whole.
type restores struct {
	t    testing.TB
	r    *rand.Rand
	mem  *vfs.Mem
	disk *faultfs.FS // of the reader
	opts Options
	n    int // values and directories so far

	db      *DB   // the writer; nil: nobody has the directory open
	line    *line // that is in the directory
	backups []backup

	reader   *DB
	seq      uint64 // what the reader shows
	text     string
	replaced bool           // the directory was, since the reader has shown its line
	seen     []*line        // that were in the directory during the present call
	steps    []func() error // of a copy that is under way
	under    *line          // that the copy overwrites
	copying  bool           // a copy was under way during the present call
	counts   map[string]int
}

func newRestores(t testing.TB, seed uint64) *restores {
	mem := vfs.NewMem()
	r := &restores{t: t, r: rand.New(rand.NewPCG(seed, 30)), mem: mem, disk: faultfs.New(mem, nil), opts: tinyStore(mem),
		line: &line{map[uint64]string{0: ""}, map[string]string{}, 0}, counts: make(map[string]int)}
	r.opts.testing.noMap = seed%2 == 0
	r.opts.CompactionWorkers = -1
	t.Cleanup(r.end)
	return r
}

// end closes what is open, and lets go of the disk: a long test has thousands of them.
func (r *restores) end() {
	if r.db != nil {
		closeTest(r.t, r.db)
	}
	if r.reader != nil {
		_ = r.reader.Close()
	}
	*r = restores{t: r.t}
}

func (r *restores) must(what string, err error) {
	r.t.Helper()
	if err != nil {
		r.t.Fatalf("%s: %v", what, err)
	}
}

// write makes changes of the same length in every line, so that records begin at the same offsets.
func (r *restores) write(n int) {
	r.t.Helper()
	if r.db == nil {
		opts := r.opts
		db, err := Open("db", &opts)
		r.must("Open of the writer", err)
		r.db = db
	}
	for range n {
		k := fmt.Sprintf("k%d", r.r.IntN(6))
		r.n++
		value := fmt.Sprintf("%08d%s", r.n, strings.Repeat("v", 60))
		if r.r.IntN(25) == 0 {
			r.must("Ingest", r.db.Ingest(context.Background(), func(yield func(k, v []byte) bool) { yield([]byte(k), []byte(value)) }))
		} else {
			r.must("Put", r.db.Put([]byte(k), []byte(value)))
		}
		r.line.now[k] = value
		r.line.last = uint64(r.db.commits.Last())
		r.line.states[r.line.last] = text(r.line.now)
	}
}

// upkeep does something to the files of the store.
func (r *restores) upkeep() {
	r.t.Helper()
	if r.db == nil {
		return
	}
	switch r.r.IntN(5) {
	case 0:
		r.must("Flush", r.db.Flush(context.Background()))
	case 1:
		r.must("Compact", r.db.Compact(context.Background(), Range{}))
	case 2:
		r.db.tree.RenewManifest()
	default:
		r.close()
	}
}

func (r *restores) close() {
	r.t.Helper()
	if r.db != nil {
		r.must("Close of the writer", r.db.Close())
		r.db = nil
	}
}

// dir returns a name for a new directory.
func (r *restores) dir(what string) string {
	r.n++
	return fmt.Sprintf("%s%d", what, r.n)
}

// back makes a backup: a copy of the closed store, or a checkpoint.
func (r *restores) back() {
	r.t.Helper()
	dir := r.dir("backup")
	if r.db != nil && r.r.IntN(2) == 0 {
		r.must("Checkpoint", r.db.Checkpoint("checkpoint"))
		copyDir(r.t, r.mem, "checkpoint", dir) // its files are links to those of the store
		removeDir(r.t, r.mem, "checkpoint")
	} else {
		r.close()
		copyDir(r.t, r.mem, "db", dir)
	}
	r.backups = append(r.backups, backup{dir, r.line.clone()})
}

// restore renames a copy of a backup to the name of the directory. It keeps the old directory as another backup.
func (r *restores) restore() {
	r.t.Helper()
	if len(r.backups) == 0 {
		return
	}
	r.close()
	b := r.backups[r.r.IntN(len(r.backups))]
	dir, old := r.dir("incoming"), r.dir("old")
	copyDir(r.t, r.mem, b.dir, dir)
	r.must("Rename", errors.Join(r.mem.Rename("db", old), r.mem.Rename(dir, "db")))
	r.backups = append(r.backups, backup{old, r.line})
	r.now(b.line.clone())
	if len(r.backups) > 6 {
		gone := r.backups[0]
		r.backups = r.backups[1:]
		removeDir(r.t, r.mem, gone.dir)
	}
}

// now notes that another line is in the directory.
func (r *restores) now(l *line) {
	r.line, r.replaced = l, true
	r.seen = append(r.seen, l)
	r.counts["restores"]++
}

// overwrite begins to copy a backup over the directory, file by file and in pieces, which step goes on with. It does
// nothing if a table of the same number is another one: a handle that has it open would read the other.
func (r *restores) overwrite() {
	r.t.Helper()
	if len(r.backups) == 0 || len(r.steps) > 0 {
		return
	}
	r.close()
	b := r.backups[r.r.IntN(len(r.backups))]
	names, err := r.mem.List(b.dir)
	r.must("List", err)
	var steps []func() error
	for _, name := range names {
		content := readAll(r.t, r.mem, b.dir+"/"+name)
		if typ, _, _ := base.ParseFileName(name); typ == base.FileTable || typ == base.FileFilter {
			if _, err := r.mem.Stat("db/" + name); err == nil && !slices.Equal(readAll(r.t, r.mem, "db/"+name), content) {
				return
			}
		}
		var f vfs.File
		steps = append(steps, func() (err error) { f, err = r.mem.Create("db/" + name); return err })
		for piece := range slices.Chunk(content, max(1, len(content)/3)) {
			steps = append(steps, func() error { _, err := f.Write(piece); return err })
		}
		steps = append(steps, func() error { return f.Close() })
	}
	here, err := r.mem.List("db")
	r.must("List", err)
	for _, name := range here {
		if !slices.Contains(names, name) && name != base.LockName {
			steps = append(steps, func() error { return r.mem.Remove("db/" + name) })
		}
	}
	r.steps, r.under, r.copying = steps, r.line, true
	r.now(b.line.clone())
	r.counts["overwrites"]++
}

// step goes on with a copy for n steps.
func (r *restores) step(n int) {
	r.t.Helper()
	for ; n > 0 && len(r.steps) > 0; n-- {
		r.must("copy", r.steps[0]())
		r.steps = r.steps[1:]
	}
}

// copyDir makes dir to a copy of dir from, which nobody writes. Files that are in to already stay.
func copyDir(t testing.TB, fsys vfs.FS, from, to string) {
	t.Helper()
	names, err := fsys.List(from)
	if err == nil {
		err = fsys.MkdirAll(to)
	}
	for _, name := range names {
		if err == nil && name != base.LockName {
			err = durable.Copy(fsys, from+"/"+name, to+"/"+name)
		}
	}
	if err != nil {
		t.Fatal(err)
	}
}

func removeDir(t testing.TB, fsys vfs.FS, dir string) {
	t.Helper()
	names, err := fsys.List(dir)
	for _, name := range names {
		err = errors.Join(err, fsys.Remove(dir+"/"+name))
	}
	if err := errors.Join(err, fsys.Remove(dir)); err != nil {
		t.Fatal(err)
	}
}

// during calls the reader, and do before its operations, with the number of that. The reader opens several files at a
// time: while one operation waits for do, others do not.
func (r *restores) during(call func() error, do func(op int)) error {
	var inside sync.Mutex
	n := 0
	r.seen, r.copying = []*line{r.line}, len(r.steps) > 0
	if r.copying {
		r.seen = append(r.seen, r.under)
	}
	r.disk.Inject(func(vfs.Op, string, int64) error {
		if do != nil && inside.TryLock() {
			defer inside.Unlock()
			n++
			do(n)
		}
		return nil
	})
	defer r.disk.Inject(nil)
	return call()
}

// open opens the reader.
func (r *restores) open(do func(op int)) {
	r.t.Helper()
	opts := r.opts
	opts.FS, opts.ReadOnly = r.disk, true
	var err error
	err = r.during(func() error { r.reader, err = Open("db", &opts); return err }, do)
	r.step(len(r.steps))
	if err != nil && r.copying && !r.t.Failed() {
		r.counts["opens that a copy has failed"]++
		r.open(nil)
		return
	}
	r.must("Open of the reader", err)
	r.seq, r.text, r.replaced = 0, "", len(r.seen) > 1
	r.shows(uint64(r.reader.commits.Visible()), 0)
}

// shows checks what the reader shows.
func (r *restores) shows(seq, least uint64) {
	r.t.Helper()
	got := scanAll(r.t, r.reader, Range{})
	ok := slices.ContainsFunc(r.seen, func(l *line) bool {
		return seq >= r.seq && l.states[r.seq] == r.text && l.states[seq] == got
	})
	if !ok || seq < least {
		r.t.Fatalf("the reader shows, at number %d, %s\nafter %s at number %d; the store has %s at %d", seq, got, r.text, r.seq, r.line.states[seq], seq)
	}
	for k := range r.line.now {
		v, err := r.reader.Get([]byte(k))
		if found := strings.Contains(got, k+"="+string(v)); err != nil && !errors.Is(err, ErrNotFound) || err == nil && !found {
			r.t.Fatalf("Get(%s) = %q, %v; the scan has %s", k, v, err, got)
		}
	}
	r.seq, r.text = seq, got
}

// advance advances the reader, and opens it if it is closed.
func (r *restores) advance(do func(op int)) {
	r.t.Helper()
	if r.reader == nil {
		r.open(do)
		return
	}
	least := r.line.last
	var seq uint64
	err := r.during(func() (err error) { seq, err = r.reader.Advance(context.Background()); return err }, do)
	r.step(len(r.steps))
	switch {
	case err == nil:
		if r.replaced = len(r.seen) > 1; r.replaced {
			least = 0
		}
		r.shows(seq, least)
		r.counts["advances"]++
		return
	case errors.Is(err, ErrReplaced) && (r.replaced || len(r.seen) > 1):
		r.counts["ErrReplaced"]++
	case r.copying:
		r.counts["advances that a copy has failed"]++
		r.advance(nil)
		return
	default:
		r.t.Fatalf("Advance: %v; the directory was replaced: %v", err, r.replaced)
	}
	if got := scanAll(r.t, r.reader, Range{}); got != r.text || seq != r.seq {
		r.t.Fatalf("after Advance = %d, %v, the reader shows %s\nafter %s at number %d", seq, err, got, r.text, r.seq)
	}
	if r.r.IntN(2) == 0 {
		r.must("Close of the reader", r.reader.Close())
		r.reader = nil
		r.open(nil)
	}
}

// some does one thing or a few, chosen at random.
func (r *restores) some(inside bool) {
	for range 1 + r.r.IntN(4) {
		switch n := r.r.IntN(20); {
		case n < 10:
			if len(r.steps) == 0 { // nobody writes while files are copied
				r.write(1 + r.r.IntN(40))
			}
		case n < 13:
			if len(r.steps) == 0 {
				r.upkeep()
			}
		case n < 15:
			if len(r.steps) == 0 {
				r.back()
			}
		case n < 18:
			if len(r.steps) == 0 {
				r.restore()
			}
		default:
			if len(r.steps) == 0 {
				r.overwrite()
			}
			if !inside {
				r.step(r.r.IntN(len(r.steps) + 1))
			}
		}
	}
}

// A backup comes into the place of the directory before each operation of a reader that advances, or that opens the store,
// and is written: in one step, or file by file.
func TestAdvance_RestoreAtEachOperation(t *testing.T) {
	testenv.SkipRace(t)
	drawn, all := testenv.Seed(t), testenv.Long(t) > 0
	for seed := range uint64(4) {
		if !all && seed%2 != drawn%2 {
			continue
		}
		for _, overwrite := range []bool{false, true} {
			for _, open := range []bool{false, true} {
				for at, last := 1, 0; at <= max(last, 1); at++ {
					r := newRestores(t, seed)
					r.write(50)
					r.back()
					r.write(30)
					if !open {
						r.open(nil)
					}
					r.write(10)
					do := func(op int) {
						last = max(last, op)
						switch {
						case op == at && overwrite:
							r.overwrite()
						case op == at:
							r.restore()
							r.write(60)
						}
						r.step(int(seed)) // the slower, the longer the files are not whole
					}
					r.advance(do)
					r.write(5)
					r.advance(nil)
				}
			}
		}
	}
}

// Random programs of writing, copying and restoring, between and within the calls of a reader.
func TestAdvance_BesideRestores(t *testing.T) {
	testenv.SkipRace(t)
	seed, long, begin := testenv.Seed(t), testenv.Long(t), time.Now()
	counts := make(map[string]int)
	for program := uint64(0); program < 15 || time.Since(begin) < long; program++ {
		r := newRestores(t, seed+program)
		r.write(1 + r.r.IntN(60))
		r.open(nil)
		for range 40 {
			if r.some(false); r.r.IntN(2) == 0 {
				r.advance(nil)
				continue
			}
			at := map[int]bool{1 + r.r.IntN(30): true, 1 + r.r.IntN(60): true}
			r.advance(func(op int) {
				if r.step(1); at[op] {
					r.some(true)
				}
			})
		}
		r.step(len(r.steps))
		for what, n := range r.counts {
			counts[what] += n
		}
		counts["programs"]++
		r.end()
	}
	t.Logf("%v", counts)
	if counts["ErrReplaced"] == 0 || counts["restores"] == 0 || counts["overwrites"] == 0 {
		t.Errorf("too little has happened: %v", counts)
	}
}
