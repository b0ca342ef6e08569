package shale

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/shaledb/shale/internal/base"
	"github.com/shaledb/shale/internal/testenv"
	"github.com/shaledb/shale/vfs"
	"github.com/shaledb/shale/vfs/faultfs"
)

// Readers of a handle that advances see one state each, all keys of one batch, and never an older one than
// before. Each batch overwrites all keys, and what it hides is dropped at once by flushes and compactions.
func TestAdvance_ReadersBeside(t *testing.T) {
	const keys = 16
	opts := tinyStore(vfs.NewMem())
	db := openTest(t, &opts)
	var all [][]byte
	for i := range keys {
		all = append(all, fmt.Appendf(nil, "k%02d", i))
	}
	put := func(round int) {
		b := new(Batch)
		for _, k := range all {
			mustPut(t, b, string(k), fmt.Sprint(round))
		}
		if err := db.Write(context.Background(), b); err != nil {
			t.Error(err)
		}
	}
	// roundAt returns the last round that is whole at a number. Every seventh has two puts more.
	roundAt := func(seq uint64) string {
		return fmt.Sprint(seq/(7*keys+2)*7 + seq%(7*keys+2)/keys)
	}
	put(1)
	ro := opts
	ro.ReadOnly = true
	follower := openTest(t, &ro)
	scan := func(r Reader, prefix string) (values []string) {
		for e, err := range r.Scan(Prefix(prefix)) {
			if err != nil {
				t.Error(err)
			}
			values = append(values, string(e.Value))
		}
		return values
	}
	var done atomic.Bool
	var wg sync.WaitGroup
	// Each read returns the values of a round, which are equal. None is before the last one that it has shown.
	for name, read := range map[string]func() (values []string, err error){
		"Get": func() ([]string, error) {
			v, err := follower.Get(all[7])
			return []string{string(v)}, err
		},
		"Scan": func() ([]string, error) { return scan(follower, "k"), nil },
		"GetMany": func() (values []string, err error) {
			err = follower.GetMany(all, func(_ int, v []byte, _ bool) error { values = append(values, string(v)); return nil })
			return values, err
		},
		"Snapshot": func() ([]string, error) {
			s, err := follower.Snapshot()
			if err != nil {
				return nil, err
			}
			defer s.Close()
			first := scan(s, "k")
			if round := roundAt(s.Seq()); len(first) != keys || first[0] != round {
				return first, fmt.Errorf("a snapshot at number %d, which should show round %s", s.Seq(), round)
			}
			time.Sleep(time.Millisecond)
			if v, err := s.Get(all[3]); err != nil || string(v) != first[3] {
				t.Errorf("the snapshot showed %s, and now %s, %v", first[3], v, err)
			}
			return first, nil
		},
		// First pa is written and flushed, and then pb: nobody sees a pb without its pa.
		"Scan of pa and pb": func() ([]string, error) {
			p := scan(follower, "p")
			if len(p) == 2 && p[0] < p[1] {
				t.Errorf("pa and pb are %v", p)
			}
			return append(p, "0")[:1], nil
		},
	} {
		wg.Go(func() {
			for last := 0; !done.Load() && !t.Failed(); {
				values, err := read()
				if err != nil || len(values) != 1 && len(values) != keys || slices.ContainsFunc(values, func(v string) bool { return v != values[0] }) {
					t.Errorf("%s: %q, %v", name, values, err)
					return
				}
				round, err := strconv.Atoi(values[0])
				if err != nil || round < last {
					t.Errorf("%s: round %s after %d", name, values[0], last)
				}
				last = round
			}
		})
	}
	several := make(chan bool)
	wg.Go(func() {
		// Each Advance goes over several rounds, of which some came in tables only.
		for range several {
			if _, err := follower.Advance(context.Background()); err != nil {
				t.Errorf("Advance: %v", err)
			}
			if _, err := follower.Inspect().ExportFilters(context.Background(), io.Discard); err != nil {
				t.Error(err)
			}
		}
	})
	rounds := 200
	if testenv.Race {
		rounds = 100
	}
	for round := 2; round < rounds && !t.Failed(); round++ {
		put(round)
		switch round % 7 {
		case 0:
			mustPut(t, db, "pa", fmt.Sprintf("%03d", round))
			mustFlush(t, db)
			mustPut(t, db, "pb", fmt.Sprintf("%03d", round))
		case 2:
			several <- true
		case 3:
			if err := db.Compact(context.Background(), Range{}); err != nil {
				t.Error(err)
			}
		}
	}
	close(several)
	done.Store(true)
	wg.Wait()
}

// Advance next to Close does its work or returns ErrClosed, and so do reads meanwhile. Nothing stays open.
func TestAdvance_BesideClose(t *testing.T) {
	mem := vfs.NewMem()
	opts := tinyStore(mem)
	f := newFollowed(t, 5, opts)
	for range 60 {
		for range 20 {
			f.write()
		}
		opts.ReadOnly = true
		ro, err := Open("db", &opts)
		if err != nil {
			t.Fatal(err)
		}
		snap := mustSnapshot(t, ro)
		it := ro.NewIterator(Range{})
		it.First()
		for range 20 {
			f.write()
		}
		var wg sync.WaitGroup
		for range 3 {
			wg.Go(func() {
				for {
					seq, err := ro.Advance(context.Background())
					if err == ErrClosed && seq == 0 {
						return
					}
					if err != nil || seq < f.acked {
						t.Errorf("Advance next to Close = %d, %v; want %d or more", seq, err, f.acked)
						return
					}
				}
			})
		}
		wg.Go(func() {
			for err := error(nil); err == nil; _, err = ro.Has([]byte("k007")) {
				if _, serr := snap.Has([]byte("k007")); serr != nil && serr != ErrClosed {
					t.Error(serr)
				}
			}
		})
		time.Sleep(time.Duration(f.r.IntN(1000)) * time.Microsecond)
		if err := ro.Close(); err != nil {
			t.Error(err)
		}
		wg.Wait()
		if _, err := snap.Get([]byte("k007")); err != ErrClosed {
			t.Errorf("Get from a snapshot of a closed handle: %v", err)
		}
		if it.Next() || it.Err() != ErrClosed {
			t.Errorf("an iterator of a closed handle moves: %v", it.Err())
		}
		if err := errors.Join(snap.Close(), it.Close()); err != nil {
			t.Error(err)
		}
	}
	closeTest(t, f.db)
	wantNoOpenFiles(t, mem)
}

// lazyTables is a file system that opens tables when they are read, as one whose tables are in a bucket.
type lazyTables struct{ vfs.FS }

func (l lazyTables) Open(name string) (vfs.File, error) {
	if !strings.HasSuffix(name, ".sst") {
		return l.FS.Open(name)
	}
	f, err := l.FS.Open(name)
	if err != nil {
		return nil, err
	}
	return &lazyFile{File: f, fs: l.FS, name: name}, nil
}

type lazyFile struct {
	vfs.File
	fs   vfs.FS
	name string
}

func (l *lazyFile) ReadAt(p []byte, off int64) (int, error) {
	f, err := l.fs.Open(l.name)
	if err != nil {
		return 0, err
	}
	defer f.Close()
	return f.ReadAt(p, off)
}

// A lookup that needs a file which is gone makes the handle advance, and looks again. One that fails all the
// same says why.
func TestAdvance_LookupNeedsAFileThatIsGone(t *testing.T) {
	mem := vfs.NewMem()
	opts := tinyStore(mem)
	opts.CompactionWorkers = -1
	db := openTest(t, &opts)
	for i := range 200 {
		mustPut(t, db, fmt.Sprintf("k%03d", i), "old")
	}
	mustFlush(t, db)
	ro := opts
	ro.ReadOnly, ro.FS, ro.CacheSize = true, lazyTables{mem}, 1
	follower, err := Open("db", &ro)
	if err != nil {
		t.Fatal(err)
	}
	defer follower.Close()
	wantGet(t, follower, "k007", "old", true)
	mustPut(t, db, "k007", "new")
	if err := db.Compact(context.Background(), Range{}); err != nil {
		t.Fatal(err)
	}
	awaitRemovals(t, db)
	wantGet(t, follower, "k007", "new", true)
	wantGet(t, follower, "k009", "old", true)
	if follower.commits.Visible() != db.commits.Visible() {
		t.Error("the handle has not advanced")
	}
	mustPut(t, db, "k011", "newer")
	if err := db.Compact(context.Background(), Range{}); err != nil {
		t.Fatal(err)
	}
	awaitRemovals(t, db)
	if x, err := follower.Inspect().Explain([]byte("k011")); err != nil || string(x.Value) != "newer" {
		t.Errorf("Explain: %q, %v", x.Value, err)
	}
	closeTest(t, db)
	if err := mem.Rename("db", "elsewhere"); err != nil {
		t.Fatal(err)
	}
	if _, err := follower.Get([]byte("k099")); !errors.Is(err, fs.ErrNotExist) || errors.Is(err, ErrNotFound) && err == ErrNotFound {
		t.Errorf("Get from a directory that is gone: %v", err)
	}
	if err := mem.Rename("elsewhere", "db"); err != nil {
		t.Fatal(err)
	}
	wantGet(t, follower, "k099", "old", true)
}

// copied is a directory that is fed with copies of another's files, as a reader of a bucket does: first the logs,
// and the manifest with its tables later.
type copied struct {
	t    *testing.T
	from vfs.FS
	to   *vfs.Mem
}

func (c copied) file(name string) {
	c.t.Helper()
	b := readAll(c.t, c.from, "db/"+name)
	f, err := c.to.Create("db/" + name + ".part")
	if err == nil {
		_, err = f.WriteAt(b, 0)
	}
	if err := errors.Join(err, f.Close(), c.to.Rename("db/"+name+".part", "db/"+name)); err != nil {
		c.t.Fatal(err)
	}
}

// files copies the files of some types.
func (c copied) files(types ...base.FileType) {
	c.t.Helper()
	names, err := c.from.List("db")
	if err != nil {
		c.t.Fatal(err)
	}
	for _, name := range names {
		if typ, _, ok := base.ParseFileName(name); ok {
			// A file may have been removed since it was listed.
			if _, err := c.from.Stat("db/" + name); err == nil && slices.Contains(types, typ) {
				c.file(name)
			}
		}
	}
}

// Where logs arrive before the manifest, a handle shows what comes before an ingestion until the manifest has
// its tables: it never shows what follows without them. That is no error.
func TestAdvance_LogsBeforeTheManifest(t *testing.T) {
	mem := vfs.NewMem()
	opts := tinyStore(mem)
	opts.CompactionWorkers, opts.MemtableSize, opts.testing.minPrepared = -1, 1<<20, 0
	f := newFollowed(t, 1, opts)
	f.write()
	c := copied{t, mem, vfs.NewMem()}
	if err := c.to.MkdirAll("db"); err != nil {
		t.Fatal(err)
	}
	all := []base.FileType{base.FileTable, base.FileFilter, base.FileLog, base.FileManifest, base.FileCurrent}
	c.files(all...)
	f.opts.FS = c.to
	ro := f.follow()
	f.opts.FS = mem
	for round := range 20 {
		for range 3 {
			mustPut(t, f.db, "a", fmt.Sprint(round))
		}
		before := ShippingOf(f.db).Position().LastSeq
		f.states[before] = scanAll(t, f.db, Range{})
		c.files(base.FileLog)
		if seq, err := ro.Advance(context.Background()); err != nil || seq != before {
			t.Fatalf("Advance = %d, %v; want %d", seq, err, before)
		}
		f.check(ro, before)
		mustIngest(t, f.db, sortedKeys(round*10, round*10+20, fmt.Sprint(round)))
		mustPut(t, f.db, "b", fmt.Sprint(round))
		after := ShippingOf(f.db).Position().LastSeq
		f.states[after] = scanAll(t, f.db, Range{})
		c.files(base.FileLog)
		if seq, err := ro.Advance(context.Background()); err != nil || seq != before {
			t.Fatalf("Advance before the manifest has come = %d, %v; want %d", seq, err, before)
		}
		f.check(ro, before)
		c.files(all...)
		if seq, err := ro.Advance(context.Background()); err != nil || seq != after {
			t.Fatalf("Advance = %d, %v; want %d", seq, err, after)
		}
		f.check(ro, after)
		if round%5 == 4 {
			closeTest(t, f.db)
			f.open()
			c.files(all...)
			f.advance(ro)
		}
	}
}

// A log that was broken and replaced, and one whose successor the manifest does not name because it can't be
// written: the handle follows the writer through both, and through what Resume undoes.
func TestAdvance_BrokenLogsAndManifests(t *testing.T) {
	testenv.SkipRace(t)
	for _, what := range []string{"sync of the log", "write of the manifest"} {
		t.Run(what, func(t *testing.T) {
			mem := vfs.NewMem()
			disk := faultfs.New(mem, nil)
			opts := tinyStore(disk)
			opts.Durability = SyncEach
			f := newFollowed(t, 7, opts)
			ro := f.follow()
			for round := range 12 {
				for range 10 {
					f.write()
				}
				f.advance(ro)
				fault := errors.New("injected")
				disk.Inject(func(op vfs.Op, name string, _ int64) error {
					if what == "sync of the log" {
						return errorIf(op == vfs.OpSync && strings.HasSuffix(name, ".wal"), fault)
					}
					return errorIf(op == vfs.OpWrite && strings.Contains(name, "MANIFEST"), fault)
				})
				if what == "sync of the log" {
					if err := f.db.Put([]byte("undone"), []byte("x")); err == nil {
						t.Fatal("a write whose sync fails is acknowledged")
					}
					_, _ = ro.Advance(context.Background()) // it may show the write
				} else {
					for range 30 { // begins logs that the manifest does not name
						k := fmt.Sprintf("k%03d", round)
						seq := f.expect(1, func(m map[string]string) { m[k] = strings.Repeat("m", 500) })
						if err := f.db.Put([]byte(k), []byte(strings.Repeat("m", 500))); err != nil {
							f.now[k], _ = "", errors.New("refused")
							break
						}
						f.ack(seq, nil)
						f.advance(ro)
					}
				}
				disk.Inject(nil)
				if err := f.db.Resume(); err != nil {
					t.Fatal(err)
				}
				f.mu.Lock()
				f.now = modelOf(t, f.db)
				f.states[uint64(f.db.commits.Last())] = text(f.now)
				f.mu.Unlock()
				wantHas(t, f.db, "undone", false)
				f.write()
				f.advance(ro)
			}
		})
	}
}

func modelOf(t testing.TB, r Reader) map[string]string {
	t.Helper()
	m := make(map[string]string)
	for e, err := range r.Scan(Range{}) {
		if err != nil {
			t.Fatal(err)
		}
		m[string(e.Key)] = string(e.Value)
	}
	return m
}
