package backup

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/shaledb/shale"
	"github.com/shaledb/shale/internal/logset"
	"github.com/shaledb/shale/manifest"
	"github.com/shaledb/shale/vfs"
	"github.com/shaledb/shale/vfs/faultfs"
)

// A world is a store in memory, with what it had after each commit.
type world struct {
	t    *testing.T
	fs   *vfs.Mem
	db   *shale.DB
	keep int64
	now  map[string]string
	was  map[uint64]map[string]string // by the number of the commit
	rand *rand.Rand
}

func newWorld(t *testing.T, keep int64) *world {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	w := &world{t: t, fs: vfs.NewMem(), keep: keep, now: map[string]string{}, was: map[uint64]map[string]string{0: {}}, rand: rand.New(rand.NewPCG(seed, 0))}
	w.open()
	t.Cleanup(func() { w.db.Close() })
	return w
}

func (w *world) must(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) open() {
	db, err := shale.Open("db", &shale.Options{FS: w.fs, KeepLog: w.keep, MemtableSize: 64 << 10})
	w.must(err)
	w.db = db
}

func (w *world) reopen() {
	w.must(w.db.Close())
	w.open()
}

// note remembers what the store has after a commit.
func (w *world) note() {
	s, err := w.db.Snapshot()
	w.must(err)
	w.was[s.Seq()] = maps.Clone(w.now)
	w.must(s.Close())
}

func (w *world) put(key, value string) {
	w.must(w.db.Put([]byte(key), []byte(value)))
	w.now[key] = value
	w.note()
}

// step commits something.
func (w *world) step() {
	ctx := w.t.Context()
	key := func() string { return fmt.Sprintf("k%02d", w.rand.IntN(50)) }
	switch n := w.rand.IntN(20); {
	case n < 10:
		w.put(key(), fmt.Sprint(w.rand.Uint64()))
	case n < 13:
		k := key()
		w.must(w.db.Delete([]byte(k)))
		delete(w.now, k)
		w.note()
	case n < 15:
		lo, hi := key(), key()
		w.must(w.db.DeleteRange([]byte(lo), []byte(hi)))
		maps.DeleteFunc(w.now, func(k, _ string) bool { return lo <= k && k < hi })
		w.note()
	case n < 18:
		b := new(shale.Batch)
		for range 1 + w.rand.IntN(4) {
			k, v := key(), fmt.Sprint(w.rand.Uint64())
			w.must(b.Put([]byte(k), []byte(v)))
			w.now[k] = v
		}
		w.must(w.db.Write(ctx, b))
		w.note()
	default:
		w.must(w.db.Flush(ctx))
	}
}

func (w *world) ingest(keys ...string) {
	w.must(w.db.Ingest(w.t.Context(), pairs(keys)))
	for _, k := range keys {
		w.now[k] = "ingested"
	}
	w.note()
}

func pairs(keys []string) iter.Seq2[[]byte, []byte] {
	return func(yield func(k, v []byte) bool) {
		for _, k := range keys {
			if !yield([]byte(k), []byte("ingested")) {
				return
			}
		}
	}
}

func (w *world) backup() *Report {
	w.t.Helper()
	r, err := Run(w.t.Context(), w.fs, "db", "to", new(Progress))
	w.must(err)
	return r
}

func contents(t *testing.T, fsys vfs.FS, dir string) map[string]string {
	t.Helper()
	db, err := shale.Open(dir, &shale.Options{FS: fsys, Exist: shale.MustExist})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	got := map[string]string{}
	for e, err := range db.Scan(shale.Range{}) {
		if err != nil {
			t.Fatal(err)
		}
		got[string(e.Key)] = string(e.Value)
	}
	return got
}

var restored int

// restore restores a moment and returns what the store has.
func restore(t *testing.T, fsys vfs.FS, m Moment) (map[string]string, error) {
	t.Helper()
	restored++
	dir := fmt.Sprintf("restored-%d", restored)
	if _, err := Restore(t.Context(), fsys, "to", dir, m, new(Progress)); err != nil {
		if names, lerr := fsys.List(dir); lerr == nil {
			t.Errorf("%v: %s is left, with %v", err, dir, names)
		}
		return nil, err
	}
	return contents(t, fsys, dir), nil
}

// check restores every number and compares what comes with what the store had. A number is a moment
// if a commit ended with it and a line has it.
func (w *world) check(fsys vfs.FS, least int) {
	w.t.Helper()
	lines, err := Lines(fsys, "to")
	w.must(err)
	n := 0
	for seq := uint64(0); seq <= lines[len(lines)-1].Last(); seq++ {
		inside := slices.ContainsFunc(lines, func(l *Line) bool { return l.First() <= seq && seq <= l.Last() })
		want, is := w.was[seq]
		got, err := restore(w.t, fsys, Moment{Seq: &seq})
		switch {
		case err == nil && (!inside || !is):
			w.t.Errorf("%d is restored, and is no moment", seq)
		case err != nil && inside && is:
			w.t.Errorf("%d: %v", seq, err)
		case err == nil:
			n++
			if !maps.Equal(got, want) {
				w.t.Errorf("at %d: %v, want %v", seq, got, want)
			}
		case !strings.Contains(err.Error(), "the nearest"):
			w.t.Errorf("%d: %v", seq, err)
		}
	}
	if n < least {
		w.t.Errorf("%d moments, want %d or more", n, least)
	}
}

// wantNewest checks that the newest moment has all that the store has.
func (w *world) wantNewest() {
	w.t.Helper()
	got, err := restore(w.t, w.fs, Moment{})
	w.must(err)
	if !maps.Equal(got, w.now) {
		w.t.Errorf("the newest moment has %v, want %v", got, w.now)
	}
}

// If the store keeps its logs, the store as it was after any commit since the first base can be restored.
func TestBackup_EveryCommit(t *testing.T) {
	w := newWorld(t, 1<<30)
	for range 6 {
		for range 12 {
			w.step()
		}
		if w.rand.IntN(3) == 0 {
			w.reopen()
		}
		w.backup()
		w.wantNewest()
	}
	if lines, err := Lines(w.fs, "to"); err != nil || len(lines) != 1 || len(lines[0].Points) < 6 {
		t.Errorf("%d lines, %v; want one", len(lines), err)
	}
	w.check(w.fs, len(w.was)/2)
}

// A run with nothing new writes nothing.
func TestBackup_NothingNew(t *testing.T) {
	w := newWorld(t, 0)
	w.put("a", "1")
	w.must(w.db.Flush(t.Context()))
	w.backup()
	for range 2 {
		if r := w.backup(); r.Bytes != 0 || r.Begun != 0 || r.Commits != 0 {
			t.Errorf("%+v", r)
		}
	}
	w.reopen()
	if r := w.backup(); r.Bytes != 0 || r.Begun != 0 {
		t.Errorf("after the store was opened again: %+v", r)
	}
}

// Without KeepLog, a flush takes the logs. A new line has what the logs lack, and does not copy
// tables again.
func TestBackup_LogsAreGone(t *testing.T) {
	w := newWorld(t, 0)
	for i := range 200 {
		w.put(fmt.Sprintf("k%d", i), fmt.Sprint(w.rand.Perm(50)))
	}
	w.must(w.db.Flush(t.Context()))
	first := w.backup()
	w.put("b", "2")
	w.must(w.db.Flush(t.Context()))
	w.reopen() // so that no log is kept to be used again
	w.put("c", "3")
	r := w.backup()
	if gone := new(logset.GoneError); r.Begun != 1 || !errors.As(r.Why, &gone) {
		t.Errorf("%+v, want a new base", r)
	}
	if r.Bytes*2 > first.Bytes {
		t.Errorf("%d bytes, the first backup %d", r.Bytes, first.Bytes)
	}
	w.wantNewest()
	w.check(w.fs, 2)
}

// An ingestion has no place in the logs, so a base follows.
func TestBackup_Ingestion(t *testing.T) {
	w := newWorld(t, 1<<30)
	w.put("a", "1")
	w.backup()
	w.put("b", "2")
	w.ingest("a", "c")
	w.put("a", "3")
	if r := w.backup(); r.Begun != 1 {
		t.Errorf("%+v, want a new base", r)
	}
	w.put("d", "4")
	if r := w.backup(); r.Begun != 0 || r.Commits != 1 {
		t.Errorf("%+v, want an increment", r)
	}
	w.wantNewest()
	w.check(w.fs, 4)
}

// The oldest lines may be removed, file by file. While a part of one is there, and no other, restore says so or works. The
// lines behind it lose nothing, and the next run goes on.
func TestBackup_OldestIsRemoved(t *testing.T) {
	w := newWorld(t, 0)
	for i := range 3 {
		w.put(fmt.Sprint("k", i), "1")
		w.must(w.db.Flush(t.Context()))
		w.reopen() // so that no log has it
		w.backup()
		w.put(fmt.Sprint("l", i), "1")
		w.backup()
	}
	for range 2 {
		lines, err := Lines(w.fs, "to")
		w.must(err)
		oldest := lines[0]
		for _, dir := range []string{oldest.dir, oldest.logs()} {
			names, err := w.fs.List(dir)
			w.must(err)
			for _, name := range names {
				if path := filepath.Join(dir, name); path != oldest.logs() {
					w.must(w.fs.Remove(path))
				}
				if got, err := restore(t, w.fs, Moment{}); err == nil && !maps.Equal(got, w.was[lines[len(lines)-1].Last()]) {
					t.Errorf("%s is removed, and the newest moment has %v", name, got)
				} else if err != nil && !strings.Contains(err.Error(), oldest.dir) {
					t.Errorf("%s is removed: %v", name, err)
				}
			}
		}
		w.must(errors.Join(w.fs.Remove(oldest.logs()), w.fs.Remove(oldest.dir)))
		for _, l := range lines[1:] {
			w.had(l.First())
			w.had(l.Last())
		}
		if _, err := restore(t, w.fs, Moment{Seq: &oldest.Points[0].Seq}); err == nil {
			t.Errorf("number %d can be restored", oldest.First())
		}
	}
	if lines, _ := Lines(w.fs, "to"); len(lines) != 1 || lines[0].Number != 3 {
		t.Errorf("%d lines", len(lines))
	}
	w.put("z", "1")
	w.backup()
	w.wantNewest()
	if lines, _ := Lines(w.fs, "to"); lines[0].Number != 3 || lines[len(lines)-1].Number > 4 {
		t.Errorf("%d lines, the last one is %d", len(lines), lines[len(lines)-1].Number)
	}
}

// A value that expires keeps its time.
func TestBackup_Expiry(t *testing.T) {
	w := newWorld(t, 1<<30)
	w.backup()
	w.must(w.db.PutTTL([]byte("k"), []byte("v"), time.Hour))
	at, err := w.db.ExpiresAt([]byte("k"))
	w.must(err)
	w.backup()
	if _, err := Restore(t.Context(), w.fs, "to", "copy", Moment{}, new(Progress)); err != nil {
		t.Fatal(err)
	}
	db, err := shale.Open("copy", &shale.Options{FS: w.fs})
	w.must(err)
	defer db.Close()
	if got, err := db.ExpiresAt([]byte("k")); err != nil || !got.Equal(at) {
		t.Errorf("expires at %v, %v; want %v", got, err, at)
	}
}

// A store that was restored to an earlier moment goes on in the same folder, in a line of its own.
func TestBackup_GoesOnAfterRestore(t *testing.T) {
	w := newWorld(t, 1<<30)
	w.backup()
	for i := range 5 {
		w.put(fmt.Sprint("k", i), "old")
	}
	w.backup()
	three := uint64(3)
	if _, err := Restore(t.Context(), w.fs, "to", "again", Moment{Seq: &three}, new(Progress)); err != nil {
		t.Fatal(err)
	}
	w.must(w.db.Close())
	w.must(w.fs.Rename("db", "db.old"))
	w.must(w.fs.Rename("again", "db"))
	w.open()
	w.now = maps.Clone(w.was[3])
	for i := range 5 { // these have the numbers of others that the folder has
		w.put(fmt.Sprint("k", i), "new")
	}
	if r := w.backup(); r.Begun != 1 {
		t.Errorf("%+v, want a new base", r)
	}
	w.wantNewest()
}

// A power cut can take writes that a run has already copied, because they were not durable. Later writes then get the same numbers.
func TestBackup_PowerCut(t *testing.T) {
	w := newWorld(t, 1<<30)
	w.put("a", "1")
	w.backup()
	before := w.fs.Crash(vfs.CrashConfig{Policy: vfs.DropAll})
	w.put("lost", "2")
	r := w.backup()
	if r.Commits != 1 {
		t.Fatalf("%+v", r)
	}
	lines, _ := Lines(w.fs, "to")
	// The folder is on another disk, which keeps what it has.
	copyTree(t, w.fs, before, "to")
	w.must(w.db.Close())
	w.fs = before
	w.open()
	delete(w.now, "lost")
	w.put("b", "2")
	if got := lines[0].Last(); len(w.was) == 0 || got < 2 {
		t.Fatalf("the line ends at %d", got)
	}
	if r := w.backup(); r.Begun != 1 {
		t.Errorf("%+v, want a new base", r)
	}
	w.wantNewest()
}

func copyTree(t *testing.T, from, to vfs.FS, dir string) {
	t.Helper()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(to.MkdirAll(dir))
	names, err := from.List(dir)
	must(err)
	for _, name := range names {
		path := filepath.Join(dir, name)
		if info, err := from.Stat(path); err == nil && info.IsDir {
			copyTree(t, from, to, path)
			continue
		}
		b, err := readFile(from, path)
		must(err)
		f, err := to.Create(path)
		must(err)
		_, err = f.Write(b)
		must(errors.Join(err, f.Sync(), f.Close()))
	}
	must(to.SyncDir(dir))
}

// A log is given up by Resume, with a write that a run has read: the run after that does not go on from it.
func TestExtends_LogGivenUp(t *testing.T) {
	w := newWorld(t, 1<<30)
	w.put("a", "1")
	w.must(w.db.Close())
	r := &run{fs: w.fs, dir: "db"}
	state, err := r.load()
	w.must(err)
	r.storeID = state.StoreID
	state, logs, err := r.logs()
	w.must(err)
	log := logs[len(logs)-1]
	p := Point{Seq: 1, Session: state.Session(), Log: uint64(log.Num)}
	if !extends(state, logs, p) {
		t.Error("the store does not go on from what it has")
	}
	log.Num, log.PrevSeq = log.Num+1, 0
	if extends(state, append(logs, log), p) {
		t.Error("the next log says that number 1 is not there, and the store goes on from it")
	}
	w.open()
}

// A store that was restored, or has lost writes, has another session than the one that was read, from a lower number.
func TestExtends_Sessions(t *testing.T) {
	state := &manifest.State{Sessions: []manifest.Session{{ID: 1, From: 0, Log: 1}, {ID: 2, From: 3, Log: 9}}}
	for _, c := range []struct {
		seq, session uint64
		want         bool
	}{
		{3, 1, true},
		{4, 1, false},
		{9, 2, true},
		{1, 7, false},
		{0, 0, false},
	} {
		if got := extends(state, nil, Point{Seq: c.seq, Session: c.session}); got != c.want {
			t.Errorf("number %d of session %d: %v", c.seq, c.session, got)
		}
	}
}

// Folders that are not those of the store are refused, and nothing is written to them.
func TestBackup_Refused(t *testing.T) {
	w := newWorld(t, 0)
	w.put("a", "1")
	w.backup()
	other, err := shale.Open("other", &shale.Options{FS: w.fs})
	w.must(err)
	w.must(other.Close())
	w.must(w.fs.MkdirAll("files/x"))
	for _, c := range [][3]string{
		{"other", "to", "of another store"},
		{"db", "files", "has other files"},
		{"db", "other", "has other files"},
		{"db", "db/to", "inside"},
		{"db", ".", "inside"},
		{"none", "new", "not exist"},
	} {
		before, _ := w.fs.List(c[1])
		if _, err := Run(t.Context(), w.fs, c[0], c[1], new(Progress)); err == nil || !strings.Contains(err.Error(), c[2]) {
			t.Errorf("%s to %s: %v, want %q", c[0], c[1], err, c[2])
		}
		if after, _ := w.fs.List(c[1]); !slices.Equal(before, after) {
			t.Errorf("%s to %s: %v, was %v", c[0], c[1], after, before)
		}
	}
	lock, err := w.fs.Lock("to/LOCK")
	w.must(err)
	if _, err := Run(t.Context(), w.fs, "db", "to", new(Progress)); !errors.Is(err, vfs.ErrLocked) {
		t.Errorf("next to another run: %v", err)
	}
	w.must(lock.Close())
	if _, err := Restore(t.Context(), w.fs, "to", "db", Moment{}, new(Progress)); err == nil || !strings.Contains(err.Error(), "not empty") {
		t.Errorf("restore over a store: %v", err)
	}
	if _, err := Restore(t.Context(), w.fs, "to", "to/x", Moment{}, new(Progress)); err == nil {
		t.Error("restore into the backup")
	}
	if _, err := Restore(t.Context(), w.fs, "files", "y", Moment{}, new(Progress)); err == nil {
		t.Error("restore of no backup")
	}
}

// A time stands for the last run up to it. The whole seconds that are shown can be asked for.
func TestRestore_AtTime(t *testing.T) {
	began := time.Now()
	w := newWorld(t, 1<<30)
	w.backup()
	for i := range 3 {
		w.put("k", fmt.Sprint(i))
		w.backup()
	}
	lines, err := Lines(w.fs, "to")
	w.must(err)
	points := lines[0].Points
	if at := points[3].Time; at != at.Truncate(time.Second) || at.Before(began) || at.After(time.Now().Add(time.Second)) {
		t.Errorf("the time of a run from %v to %v is %v", began, time.Now(), at)
	}
	for i := range points {
		points[i].Time = began.Add(time.Duration(i) * time.Hour)
	}
	for i := range points {
		for _, plus := range []time.Duration{0, time.Hour - 1} {
			l, seq, err := Moment{Time: points[i].Time.Add(plus)}.find(lines)
			if err != nil || l != lines[0] || seq != uint64(i) {
				t.Errorf("%d hours and %v: number %d, %v", i, plus, seq, err)
			}
		}
	}
	if _, _, err := (Moment{Time: began.Add(-1)}).find(lines); err == nil {
		t.Error("before the first backup")
	}
}

// Whatever byte of a backup is damaged, restore says so, or what it restores is right.
func TestRestore_Damage(t *testing.T) {
	w := newWorld(t, 1<<30)
	w.put("a", strings.Repeat("1", 500))
	w.must(w.db.Flush(t.Context()))
	w.backup()
	w.put("b", "2")
	w.backup()
	w.put("c", "3")
	w.backup()
	lines, err := Lines(w.fs, "to")
	w.must(err)
	damaged := 0
	for _, dir := range []string{lines[0].dir, lines[0].logs()} {
		names, err := w.fs.List(dir)
		w.must(err)
		for _, name := range names {
			path := filepath.Join(dir, name)
			if info, _ := w.fs.Stat(path); info.IsDir {
				continue
			}
			b, err := readFile(w.fs, path)
			w.must(err)
			for range 40 {
				bad := bytes.Clone(b)
				bad[w.rand.IntN(len(bad))] ^= 1 << w.rand.IntN(8)
				write(t, w.fs, path, bad)
				got, err := restore(t, w.fs, Moment{})
				if err != nil {
					damaged++
					if !strings.Contains(err.Error(), lines[0].dir) {
						t.Errorf("which backup is damaged? %v", err)
					}
				} else if !maps.Equal(got, w.now) {
					t.Errorf("%s is damaged, and %v is restored", path, got)
				}
			}
			write(t, w.fs, path, b)
			w.must(w.fs.Remove(path))
			if got, err := restore(t, w.fs, Moment{}); err == nil {
				t.Errorf("%s is missing, and %v is restored", path, got)
			}
			write(t, w.fs, path, b)
		}
	}
	if damaged == 0 {
		t.Error("no damage was found")
	}
	w.wantNewest()
}

// Whichever bit of the points is wrong, they are what they were, or an error. And if they are missing, no run takes the
// line for one that was not completed, which it would remove.
func TestPoints_Damage(t *testing.T) {
	w := newWorld(t, 1<<30)
	w.backup()
	w.put("a", "1")
	w.backup()
	lines, err := Lines(w.fs, "to")
	w.must(err)
	path := filepath.Join(lines[0].dir, pointsName)
	b, err := readFile(w.fs, path)
	w.must(err)
	found := 0
	for i := range len(b) * 8 {
		bad := bytes.Clone(b)
		bad[i/8] ^= 1 << (i % 8)
		points, err := decodePoints(bad)
		switch damage := new(shale.CorruptionError); {
		case err == nil && !slices.Equal(points, lines[0].Points):
			t.Errorf("%s: %v, want %v", bad, points, lines[0].Points)
		case err != nil && !errors.As(err, &damage):
			t.Error(err)
		case err != nil:
			found++
		}
	}
	if found < len(b)*4 {
		t.Errorf("%d of %d bits", found, len(b)*8)
	}
	w.must(w.fs.Remove(path))
	if _, err := Run(t.Context(), w.fs, "db", "to", new(Progress)); err == nil || !strings.Contains(err.Error(), pointsName) {
		t.Error(err)
	}
	write(t, w.fs, path, b)
	w.wantNewest()
}

// In a rotting file system one file has other content once it was opened some times.
type rotting struct {
	vfs.FS
	file, becomes string
	opens, after  int
}

func (r *rotting) Open(name string) (vfs.File, error) {
	if name == r.file {
		if r.opens++; r.opens > r.after {
			name = r.becomes
		}
	}
	return r.FS.Open(name)
}

// Increments are read twice. If the second time gives less, that is not taken for all there is.
func TestRestore_DamageMeanwhile(t *testing.T) {
	w := newWorld(t, 1<<30)
	w.backup()
	w.put("a", "1")
	w.put("b", "2")
	w.backup()
	lines, err := Lines(w.fs, "to")
	w.must(err)
	r := &rotting{FS: w.fs, file: filepath.Join(lines[0].logs(), "000001.wal"), becomes: "damaged.wal"}
	b, err := readFile(w.fs, r.file)
	w.must(err)
	b[bytes.LastIndexByte(b, '2')] ^= 1
	write(t, w.fs, r.becomes, b)
	for failed := 0; ; r.after++ {
		r.opens = 0
		got, err := restore(t, r, Moment{})
		if err != nil {
			failed++
		} else if !maps.Equal(got, w.now) {
			t.Errorf("damaged after %d reads: %v", r.after, got)
		}
		if r.opens <= r.after {
			if failed < 3 {
				t.Errorf("%d restores have failed", failed)
			}
			return
		}
	}
}

func write(t *testing.T, fsys vfs.FS, path string, b []byte) {
	t.Helper()
	f, err := fsys.Create(path)
	if err == nil {
		_, err = f.Write(b)
		err = errors.Join(err, f.Sync(), f.Close())
	}
	if err != nil {
		t.Fatal(err)
	}
}

// Each operation fails, alone or with all that follow it, as on a full disk; or the machine crashes there. The folder still
// has every moment that it had, and the next run goes on. A restore that fails leaves no store.
func TestBackup_FaultsAndCrashes(t *testing.T) {
	errDevice, seed := errors.New("device"), rand.Uint64()
	t.Logf("crashes with seed %d", seed)
	base := newWorld(t, 0)
	for i := range 3 {
		base.put(fmt.Sprint("k", i), "1")
	}
	base.must(base.db.Flush(t.Context()))
	base.backup()
	base.put("a", "2")
	base.backup()
	base.put("b", "3")
	base.must(base.db.Flush(t.Context())) // so the run begins a line, and then an increment
	base.put("c", "4")
	base.must(base.db.Close())
	defer base.open()
	for _, plan := range []func(int64, error, ...vfs.Op) faultfs.InjectFunc{faultfs.FailAt, faultfs.FailFrom} {
		for k := int64(1); ; k++ {
			mem := base.fs.Crash(vfs.CrashConfig{Policy: vfs.KeepAll, Names: vfs.NamesKeep})
			faults := faultfs.New(mem, plan(k, errDevice))
			_, err := Run(t.Context(), faults, "db", "to", new(Progress))
			done := faults.Ops() < k
			if done && err != nil {
				t.Fatalf("operation %d of %d: %v", k, faults.Ops(), err)
			}
			w := &world{t: t, fs: mem, now: base.now, was: base.was}
			configs := vfs.CrashConfigs(seed + uint64(k))
			w.fs = mem.Crash(configs[base.rand.IntN(len(configs))])
			w.had(4)
			w.backup()
			w.wantNewest()
			w.had(4)
			w.fs = mem
			w.backup()
			w.wantNewest()
			if done {
				if k < 30 {
					t.Errorf("%d operations only", k)
				}
				break
			}
		}
	}
}

// had checks that a moment is there.
func (w *world) had(seq uint64) {
	w.t.Helper()
	got, err := restore(w.t, w.fs, Moment{Seq: &seq})
	if err != nil || !maps.Equal(got, w.was[seq]) {
		w.t.Errorf("at %d: %v, %v; want %v", seq, got, err, w.was[seq])
	}
}

// Whichever operation of a restore fails, also if nothing can be removed after that: there is no store then, or
// the whole one.
func TestRestore_Faults(t *testing.T) {
	w := newWorld(t, 1<<30)
	w.put("a", "1")
	w.must(w.db.Flush(t.Context()))
	w.backup()
	w.put("b", "2")
	w.backup()
	errDevice := errors.New("device")
	for i, plan := range []func(int64, error, ...vfs.Op) faultfs.InjectFunc{faultfs.FailAt, faultfs.FailFrom} {
		for k := int64(1); ; k++ {
			faults := faultfs.New(w.fs, plan(k, errDevice))
			dir := fmt.Sprintf("new-%d-%d", i, k)
			_, err := Restore(t.Context(), faults, "to", dir, Moment{}, new(Progress))
			_, serr := w.fs.Stat(filepath.Join(dir, "CURRENT"))
			switch {
			case err != nil && i == 0 && serr == nil:
				t.Errorf("operation %d fails, and there is a store: %v", k, err)
			case err == nil || serr == nil:
				if got := contents(t, w.fs, dir); !maps.Equal(got, w.now) {
					t.Errorf("operation %d fails: %v", k, got)
				}
			}
			if faults.Ops() < k {
				if err != nil || k < 30 {
					t.Errorf("%d operations, %v", k, err)
				}
				break
			}
		}
	}
}

// Next to a writer that flushes, compacts and removes its logs, each run has a moment of the store.
func TestBackup_NextToAWriter(t *testing.T) {
	w := newWorld(t, 0)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		for i := 0; ; i++ {
			if ctx.Err() != nil {
				ended <- nil
				return
			}
			// All keys of a batch have the same value, and no value comes again.
			b := new(shale.Batch)
			for k := range 20 {
				if err := b.Put(fmt.Appendf(nil, "k%d", k), fmt.Appendf(nil, "%0200d", i)); err != nil {
					ended <- err
					return
				}
			}
			if err := w.db.Write(ctx, b); err != nil && ctx.Err() == nil {
				ended <- err
				return
			}
		}
	}()
	before := ""
	for range 8 {
		w.backup()
		got, err := restore(t, w.fs, Moment{})
		w.must(err)
		values := slices.Compact(slices.Collect(maps.Values(got)))
		if len(values) > 1 || len(values) == 1 && values[0] < before {
			t.Fatalf("%d values, before %q", len(values), before)
		}
		if len(values) == 1 {
			before = values[0]
		}
	}
	cancel()
	w.must(<-ended)
}
