package remote

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/shaledb/shale"
	"github.com/shaledb/shale/internal/base"
	"github.com/shaledb/shale/manifest"
	"github.com/shaledb/shale/remote/internal/localdir"
	"github.com/shaledb/shale/remote/internal/object"
	"github.com/shaledb/shale/remote/internal/remotetest"
	"github.com/shaledb/shale/repair"
	"github.com/shaledb/shale/vfs"
	"github.com/shaledb/shale/vfs/faultfs"
)

// evictedStore makes a store in db, some of whose tables are only in its bucket, and closes it. It returns its options, with
// which no compaction changes its tables, and what it has.
func evictedStore(t testing.TB, b Bucket, fsys vfs.FS) (o *Options, model map[string]string) {
	t.Helper()
	o, model = manual(fsys), make(map[string]string)
	evicting(o)
	s := openStore(t, "db", b, o)
	grow(t, s, model, 4000)
	mustNil(t, s.DB().Compact(t.Context(), shale.Range{})) // the last level has that, and goes first
	grow(t, s, model, 1000)
	put(t, s, model, "news", 10) // which are in a log only
	mustNil(t, s.Close())
	if len(lacking(t, fsys)) < 5 {
		t.Fatal("no table was evicted")
	}
	o.Store.CompactionWorkers = -1
	return o, model
}

// lacking returns the tables that the store in db has, and not its directory.
func lacking(t testing.TB, fsys vfs.FS) (tables []*manifest.Table) {
	t.Helper()
	state, err := manifest.Load(fsys, "db")
	mustNil(t, err)
	for table := range state.Version.Tables() {
		if _, err := fsys.Stat(filepath.Join("db", base.TableName(table.Num))); errors.Is(err, fs.ErrNotExist) {
			tables = append(tables, table)
		}
	}
	return tables
}

// isPlain checks that the store in db needs no bucket: it opens without one, has what it should, nothing is
// wrong with it, and no tails are left.
func isPlain(t testing.TB, when string, fsys vfs.FS, model map[string]string) {
	t.Helper()
	report, err := repair.Check(t.Context(), "db", &repair.Options{FS: fsys})
	mustNil(t, err)
	if report.Damaged() {
		t.Errorf("%s: %+v", when, report.Findings)
	}
	if _, err := fsys.Stat(filepath.Join("db", copiesDir)); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("%s: the folder of tails: %v", when, err)
	}
	if state, err := manifest.Load(fsys, "db"); err != nil || state.Elsewhere != "" {
		t.Errorf("%s: the manifest says that tables are in %q, %v", when, state.Elsewhere, err)
	}
	sameMap(t, when, readPlain(t, fsys, "db"), model)
}

// readPlain returns what a store has that is opened without a bucket, and not changed.
func readPlain(t testing.TB, fsys vfs.FS, dir string) map[string]string {
	t.Helper()
	db, err := shale.Open(dir, &shale.Options{FS: fsys, ReadOnly: true, OnEvent: func(shale.Event) {}})
	mustNil(t, err)
	defer db.Close()
	return contents(t, db)
}

// After Hydrate a store needs its bucket no more. Each table is fetched once and with one GET. It can also go on in the bucket,
// with all tables local, or with a budget again.
func TestHydrate(t *testing.T) {
	b, disk := remotetest.NewFake(NewMem()), vfs.NewMem()
	o, model := evictedStore(t, b, disk)
	bytes, want := int64(0), lacking(t, disk)
	for _, table := range want {
		bytes += table.Size
	}
	var done, total int64
	hydrate := func() (h Hydrated) {
		t.Helper()
		gets, _ := b.During(func() {
			var err error
			h, err = Hydrate(t.Context(), b, "db", &HydrateOptions{FS: disk, Progress: func(d, of int64) { done, total = d, of }})
			mustNil(t, err)
		})
		if gets != h.Tables || len(h.Damage) > 0 || h.Manifest != nil || h.StoreID == 0 {
			t.Errorf("%d GETs: %+v", gets, h)
		}
		return h
	}
	if h := hydrate(); h.Tables != len(want) || h.Bytes != bytes || done != bytes || total != bytes {
		t.Errorf("%+v, %d of %d bytes; want %d tables with %d bytes", h, done, total, len(want), bytes)
	}
	isPlain(t, "hydrated", disk, model)
	if h := hydrate(); h.Tables != 0 {
		t.Errorf("again: %+v", h)
	}
	o.LocalBytes = 0
	var s *Store
	if gets, _ := b.During(func() { s = openStore(t, "db", b, o) }); gets > 0 {
		t.Errorf("%d GETs to open it", gets)
	}
	mustNil(t, errors.Join(s.DB().Checkpoint("copy"), s.Close()))
	sameMap(t, "a checkpoint", readPlain(t, disk, "copy"), model)
	isPlain(t, "kept in the bucket", disk, model)
	evicting(o)
	s = openStore(t, "db", b, o)
	settleEvicted(t, s)
	sameMap(t, "evicted again", contents(t, s.DB()), model)
	mustNil(t, s.Close())
	if n := hydrate().Tables; n == 0 {
		t.Error("nothing was evicted")
	}
	isPlain(t, "hydrated again", disk, model)
	db, err := shale.Open("db", &o.Store)
	mustNil(t, err)
	put := db.Put([]byte("z"), []byte("last"))
	mustNil(t, errors.Join(put, db.Flush(t.Context()), db.Close()))
	model["z"] = "last"
	isPlain(t, "written without the bucket", disk, model)
	sameMap(t, "with the bucket again", contents(t, openStore(t, "db", b, o).DB()), model)
}

// A Hydrate that ends in the middle, because the bucket refuses or the disk is full, leaves a store that opens with its bucket.
// The next one fetches only what is left.
func TestHydrate_GoesOn(t *testing.T) {
	for _, full := range []bool{false, true} {
		b, mem := remotetest.NewFake(NewMem()), vfs.NewMem()
		disk := faultfs.New(mem, nil)
		o, model := evictedStore(t, b, disk)
		o.LocalBytes = 0
		tried := 0
		third := func(err error) error {
			if tried++; tried > 3 {
				return err
			}
			return nil
		}
		want := error(remotetest.Refusal{Err: errUnreachable})
		if full {
			want = syscall.ENOSPC
			disk.Inject(func(op vfs.Op, name string, _ int64) error {
				if op == vfs.OpWrite && strings.HasSuffix(name, ".tmp") {
					return third(want)
				}
				return nil
			})
		} else {
			b.HookReads(func(name string) error {
				if strings.HasPrefix(name, "t/") {
					return third(want)
				}
				return nil
			})
		}
		before := len(lacking(t, disk))
		_, err := Hydrate(t.Context(), b, "db", &HydrateOptions{FS: disk, Fetches: 1})
		if !errors.Is(err, want) || full && !strings.Contains(err.Error(), "hydrate again") {
			t.Errorf("full %v: %v", full, err)
		}
		disk.Inject(nil)
		b.HookReads(nil)
		left := len(lacking(t, disk))
		if left == 0 || left >= before {
			t.Errorf("full %v: of %d tables %d are left", full, before, left)
		}
		if _, err := shale.Open("db", &o.Store); !errors.Is(err, shale.ErrElsewhere) {
			t.Errorf("full %v: without the bucket: %v", full, err)
		}
		s := openStore(t, "db", b, o)
		sameMap(t, "opened in between", contents(t, s.DB()), model)
		mustNil(t, s.Close())
		gets, _ := b.During(func() {
			_, err := Hydrate(t.Context(), b, "db", &HydrateOptions{FS: disk})
			mustNil(t, err)
		})
		if gets != left {
			t.Errorf("full %v: %d GETs for the %d tables that were left", full, gets, left)
		}
		isPlain(t, "hydrated", mem, model)
	}
}

// TestHydrate_PowerCuts cuts the power at operations of the file system. The store that remains opens with the bucket.
// Without the bucket, Open says where the tables are, or the store has everything. Another Hydrate makes it whole.
func TestHydrate_PowerCuts(t *testing.T) {
	b, disk := NewMem(), vfs.NewMem()
	o, model := evictedStore(t, b, disk)
	o.LocalBytes = 0
	every := 9
	if testing.Short() {
		every = 29
	}
	var mu sync.Mutex
	var cuts []*vfs.Mem
	seen := 0
	disk.OnOp(func(op vfs.Op, name string) {
		mu.Lock()
		defer mu.Unlock()
		// Of the tables and tails some operations are enough. Those of the directory and the manifest are all cut.
		if seen++; seen%every > 0 && op != vfs.OpSyncDir && !strings.HasPrefix(filepath.Base(name), "MANIFEST") {
			return
		}
		configs := vfs.CrashConfigs(uint64(seen))
		cuts = append(cuts, disk.Crash(configs[len(cuts)%len(configs)]))
	})
	_, err := Hydrate(t.Context(), b, "db", &HydrateOptions{FS: disk, Fetches: 2})
	mustNil(t, err)
	disk.OnOp(nil)
	cuts = append(cuts, disk.Crash(vfs.CrashConfigs(1)[0]))
	whole := 0
	for i, cut := range cuts {
		when := fmt.Sprintf("power cut %d of %d", i, len(cuts))
		db, err := shale.Open("db", &shale.Options{FS: cut, ReadOnly: true, OnEvent: o.Store.OnEvent})
		switch {
		case err == nil:
			sameMap(t, when, contents(t, db), model)
			mustNil(t, db.Close())
			whole++
		case !errors.Is(err, shale.ErrElsewhere):
			t.Fatalf("%s: %v", when, err)
		}
		if i%2 == 0 {
			o.Store.FS = cut
			s := openStore(t, "db", cloneOf(b), o)
			sameMap(t, when+", opened with its bucket", contents(t, s.DB()), model)
			mustNil(t, s.Close())
		}
		_, err = Hydrate(t.Context(), b, "db", &HydrateOptions{FS: cut})
		mustNil(t, err)
		isPlain(t, when+", hydrated", cut, model)
	}
	t.Log(len(cuts), "power cuts,", whole, "left a whole store")
	if whole == 0 || whole == len(cuts) {
		t.Errorf("%d of %d power cuts left a whole store", whole, len(cuts))
	}
}

// The process ends while a table is fetched. What there is of it goes with the next Open.
func TestHydrate_LeavesNoParts(t *testing.T) {
	b, disk := NewMem(), vfs.NewMem()
	o, _ := evictedStore(t, b, disk)
	o.LocalBytes = 0
	var copied *vfs.Mem
	disk.OnOp(func(op vfs.Op, _ string) {
		if op == vfs.OpSync && copied == nil {
			copied = copyOf(disk)
		}
	})
	_, err := Hydrate(t.Context(), b, "db", &HydrateOptions{FS: disk, Fetches: 1})
	mustNil(t, err)
	disk.OnOp(nil)
	before, err := copied.List("db")
	mustNil(t, err)
	o.Store.FS = copied
	mustNil(t, openStore(t, "db", b, o).Close())
	after, err := copied.List("db")
	mustNil(t, err)
	for _, name := range after {
		if kind, _, ok := base.ParseFileName(name); ok && kind == base.FileTemp || !ok && name != localdir.RecordName && name != copiesDir {
			t.Errorf("%s is left of %q", name, before)
		}
	}
}

// Bytes that change on their way are fetched again, once.
func TestHydrate_DamagedOnTheWay(t *testing.T) {
	b, disk := remotetest.NewFake(NewMem()), vfs.NewMem()
	_, model := evictedStore(t, b, disk)
	want := len(lacking(t, disk))
	var mu sync.Mutex
	seen := make(map[string]bool)
	b.OnAnswer(func(name string, p []byte, _ int64) {
		mu.Lock()
		defer mu.Unlock()
		if strings.HasPrefix(name, object.TableFolder) && !seen[name] {
			seen[name] = true
			p[len(p)/2] ^= 4
		}
	})
	gets, _ := b.During(func() {
		_, err := Hydrate(t.Context(), b, "db", &HydrateOptions{FS: disk})
		mustNil(t, err)
	})
	if gets != 2*want {
		t.Errorf("%d GETs for %d tables", gets, want)
	}
	isPlain(t, "hydrated", disk, model)
}

// What Hydrate can't do is refused before a table is fetched, and the directory stays as it is.
func TestHydrate_Refused(t *testing.T) {
	b, disk := remotetest.NewFake(NewMem()), vfs.NewMem()
	o, model := evictedStore(t, b, disk)
	other := NewMem()
	mustNil(t, openStore(t, "other", other, manual(disk)).Close())
	mustNil(t, disk.MkdirAll("empty"))
	little := func(string) (int64, bool) { return 100_000, true }
	for _, test := range []struct {
		what string
		b    Bucket
		dir  string
		o    HydrateOptions
		want error
		says string
	}{
		{"the bucket of another store", other, "db", HydrateOptions{}, ErrOtherStore, "name another bucket"},
		{"an unused bucket", NewMem(), "db", HydrateOptions{}, fs.ErrNotExist, "the bucket has no store"},
		{"an empty directory", b, "empty", HydrateOptions{}, fs.ErrNotExist, "there is no store in it"},
		{"no directory", b, "none", HydrateOptions{}, fs.ErrNotExist, "there is no store in it"},
		{"a disk without room", b, "db", HydrateOptions{room: little}, syscall.ENOSPC, "and the disk has room for 97.7 KiB"},
	} {
		test.o.FS = disk
		gets, _ := b.During(func() {
			if _, err := Hydrate(t.Context(), test.b, test.dir, &test.o); !errors.Is(err, test.want) || !strings.Contains(err.Error(), test.says) {
				t.Errorf("%s: %v, want %v: %s", test.what, err, test.want, test.says)
			}
		})
		if gets > 0 {
			t.Errorf("%s: %d GETs", test.what, gets)
		}
	}
	if names, err := disk.List("empty"); err != nil || len(names) > 0 {
		t.Errorf("the empty directory has %q, %v", names, err)
	}
	s := openStore(t, "db", b, o)
	if _, err := Hydrate(t.Context(), b, "db", &HydrateOptions{FS: disk}); !errors.Is(err, shale.ErrLocked) {
		t.Errorf("an open store: %v", err)
	}
	sameMap(t, "the store", contents(t, s.DB()), model)
}

// inOneOf reports whether a key is in the range of one of some tables.
func inOneOf(tables []*manifest.Table, key string) bool {
	return slices.ContainsFunc(tables, func(t *manifest.Table) bool { return string(t.Smallest) <= key && key <= string(t.Largest) })
}

// lostFrom checks that a store has nothing that want does not have, and returns the keys that it lacks.
func lostFrom(t testing.TB, got, want map[string]string) (lost []string) {
	t.Helper()
	for key, value := range got {
		if want[key] != value {
			t.Fatalf("%s is %.20q, want %.20q", key, value, want[key])
		}
	}
	for key := range maps.Keys(want) {
		if _, there := got[key]; !there {
			lost = append(lost, key)
		}
	}
	return lost
}
