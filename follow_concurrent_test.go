package shale

import (
	"bytes"
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
	put := func(round int) {
		b := new(Batch)
		for i := range keys {
			_ = b.Put(fmt.Appendf(nil, "k%02d", i), fmt.Appendf(nil, "%d", round))
		}
		if err := db.Write(context.Background(), b); err != nil {
			t.Error(err)
		}
	}
	// rounds returns the last round that is whole at a number.
	rounds := func(seq uint64) string {
		round, at := 0, uint64(0)
		for at+keys <= seq {
			round++
			if at += keys; round%7 == 0 {
				at += 2
			}
		}
		return fmt.Sprint(round)
	}
	put(1)
	ro := opts
	ro.ReadOnly = true
	follower := openTest(t, &ro)
	var done atomic.Bool
	var wg sync.WaitGroup
	several := make(chan bool)
	// one checks that all values are those of one round, not before the last one seen.
	one := func(last *int, what string, values [][]byte) {
		round := 0
		for _, v := range values {
			n, err := strconv.Atoi(string(v))
			if err != nil || round > 0 && n != round {
				t.Errorf("%s: %q", what, values)
				done.Store(true)
				return
			}
			round = n
		}
		if len(values) == 0 || round < *last {
			t.Errorf("%s: round %d of %d values, after round %d", what, round, len(values), *last)
			done.Store(true)
		}
		*last = round
	}
	scan := func(r Reader) (values [][]byte) {
		for e, err := range r.Scan(Prefix("k")) {
			if err != nil {
				t.Error(err)
			}
			values = append(values, bytes.Clone(e.Value))
		}
		if len(values) != keys {
			t.Errorf("a scan has %d keys, want %d", len(values), keys)
		}
		return values
	}
	reader := func(read func(last *int)) {
		wg.Go(func() {
			for last := 0; !done.Load(); {
				read(&last)
			}
		})
	}
	reader(func(last *int) {
		v, err := follower.Get([]byte("k07"))
		if err != nil {
			t.Errorf("Get of a key that is always there: %v", err)
			done.Store(true)
			return
		}
		one(last, "Get", [][]byte{v})
	})
	reader(func(last *int) { one(last, "Scan", scan(follower)) })
	// First pa is written and flushed, and then pb: nobody sees a pb without its pa.
	reader(func(last *int) {
		var p []int
		for e, err := range follower.Scan(Prefix("p")) {
			n, nerr := strconv.Atoi(string(e.Value))
			if err != nil || nerr != nil {
				t.Error(err, nerr)
			}
			p = append(p, n)
		}
		if len(p) == 2 && p[0] < p[1] || len(p) > 0 && p[0] < *last {
			t.Errorf("pa and pb are %v, after %d", p, *last)
			done.Store(true)
		}
		if len(p) > 0 {
			*last = p[0]
		}
	})
	reader(func(last *int) {
		var values [][]byte
		all := make([][]byte, keys)
		for i := range all {
			all[i] = fmt.Appendf(nil, "k%02d", i)
		}
		err := follower.GetMany(all, func(_ int, v []byte, _ bool) error {
			values = append(values, bytes.Clone(v))
			return nil
		})
		if err != nil {
			t.Error(err)
		}
		one(last, "GetMany", values)
	})
	reader(func(last *int) {
		s, err := follower.Snapshot()
		if err != nil {
			t.Error(err)
			return
		}
		defer s.Close()
		first := scan(s)
		one(last, "Snapshot", first)
		if round := rounds(s.Seq()); string(first[0]) != round {
			t.Errorf("a snapshot at number %d shows round %s, want %s", s.Seq(), first[0], round)
		}
		time.Sleep(time.Millisecond)
		if v, err := s.Get([]byte("k03")); err != nil || !bytes.Equal(v, first[3]) {
			t.Errorf("the snapshot showed %s, and now %s, %v", first[3], v, err)
		}
	})
	wg.Go(func() {
		// Each Advance goes over several rounds, of which some came in tables only.
		for range several {
			if _, err := follower.Advance(context.Background()); err != nil {
				t.Errorf("Advance: %v", err)
				done.Store(true)
			}
			if _, err := follower.Inspect().ExportFilters(context.Background(), io.Discard); err != nil {
				t.Error(err)
			}
		}
	})
	for round := 2; round < 200 && !done.Load(); round++ {
		put(round)
		switch round % 7 {
		case 0:
			mustPut(t, db, "pa", fmt.Sprint(round))
			mustFlush(t, db)
			mustPut(t, db, "pb", fmt.Sprint(round))
		case 3:
			if err := db.Compact(context.Background(), Range{}); err != nil {
				t.Error(err)
			}
		}
		if round%7 == 2 {
			several <- true
		}
		if testenv.Race && round > 100 {
			break
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
