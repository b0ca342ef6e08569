package shale

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/shaledb/shale/internal/testenv"
	"github.com/shaledb/shale/vfs"
)

// laterKeys is the number of keys in a laterStore.
const laterKeys = 20_000

func laterKey(i int) []byte { return fmt.Appendf(nil, "later%06d", i) }

// laterStore makes a closed store of some tables in the last level and one in level 0. Under
// laterOptions, Open leaves the indexes and filters of most of them for later.
func laterStore(t *testing.T) *vfs.Mem {
	t.Helper()
	mem := vfs.NewMem()
	db := mustOpen(t, "db", laterOptions(mem, nil))
	for i := range laterKeys {
		if err := db.Put(laterKey(i), fmt.Appendf(nil, "%0100d", i)); err != nil {
			t.Fatal(err)
		}
	}
	if err := db.Compact(context.Background(), Range{}); err != nil {
		t.Fatal(err)
	}
	for i := range 200 {
		if err := db.Put(laterKey(i*100), fmt.Appendf(nil, "%0100d", -i)); err != nil {
			t.Fatal(err)
		}
	}
	mustFlush(t, db)
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	return mem
}

// laterOptions are those of a store whose Open reads no filter and no index.
func laterOptions(fsys vfs.FS, events func(Event)) *Options {
	if events == nil {
		events = func(Event) {}
	}
	return &Options{
		FS: fsys, OnEvent: events, CompactionWorkers: -1, Durability: SyncManual,
		MemtableSize: 512 << 10, TableSize: 128 << 10, BlockSize: 256, Compression: NoCompression, testing: testOptions{readNow: -1},
	}
}

// slowLoads returns a file system on which reads of indexes wait until goOn is called. waiting
// counts them.
func slowLoads(mem *vfs.Mem) (fsys vfs.FS, goOn func(), waiting *atomic.Int64) {
	resume := make(chan struct{})
	waiting = new(atomic.Int64)
	return &gatedFS{mem, resume, waiting}, func() { close(resume) }, waiting
}

// A gatedFS holds back reads of tables that are longer than what Open reads of a table, and
// longer than a data block.
type gatedFS struct {
	vfs.FS
	resume  chan struct{}
	waiting *atomic.Int64
}

func (g *gatedFS) Open(name string) (vfs.File, error) {
	f, err := g.FS.Open(name)
	if err == nil && strings.HasSuffix(name, ".sst") {
		f = gatedFile{f, g}
	}
	return f, err
}

type gatedFile struct {
	vfs.File
	g *gatedFS
}

func (f gatedFile) ReadAt(p []byte, off int64) (int, error) {
	if len(p) > 8<<10 {
		f.g.waiting.Add(1)
		<-f.g.resume
		f.g.waiting.Add(-1)
	}
	return f.File.ReadAt(p, off)
}

// wantLaterKeys checks that the store has all keys, and lacks others.
func wantLaterKeys(t *testing.T, db *DB) {
	t.Helper()
	for i := 0; i < laterKeys; i += 97 {
		if v, err := db.Get(laterKey(i)); err != nil || len(v) != 100 {
			t.Fatalf("Get(%s) = %q, %v", laterKey(i), v, err)
		}
		if ok, err := db.Has(append(laterKey(i), 'x')); ok || err != nil {
			t.Fatalf("Has of an absent key = %v, %v", ok, err)
		}
	}
	n := 0
	for _, err := range db.Scan(Range{}) {
		if err != nil {
			t.Fatal(err)
		}
		n++
	}
	if n != laterKeys {
		t.Fatalf("Scan shows %d keys, want %d", n, laterKeys)
	}
}

func awaitLoaded(t *testing.T, db *DB) {
	t.Helper()
	testenv.WaitFor(t, "filters and indexes to be read", func() bool { return !db.Metrics().Loading })
}

// Open returns before filters and indexes are read, and the store serves without them. Then they
// come, and lookups of absent keys read nothing.
func TestOpen_ServesWhileItLoads(t *testing.T) {
	for _, readOnly := range []bool{false, true} {
		t.Run(fmt.Sprintf("read-only %v", readOnly), func(t *testing.T) {
			fsys, goOn, waiting := slowLoads(laterStore(t))
			opts := laterOptions(fsys, nil)
			opts.ReadOnly = readOnly
			db := mustOpen(t, "db", opts)
			testenv.WaitFor(t, "the background to read an index", func() bool { return waiting.Load() > 0 })
			m := db.Metrics()
			if !m.Loading || m.IndexOnDisk == 0 {
				t.Errorf("Loading is %v with %d bytes of indexes on disk and %d in memory", m.Loading, m.IndexOnDisk, m.IndexMemory)
			}
			if !db.MayContain([]byte("later000000x")) {
				t.Error("MayContain says no without a filter")
			}
			goOn()
			wantLaterKeys(t, db)
			awaitLoaded(t, db)
			wantLaterKeys(t, db)
			m = db.Metrics()
			if m.IndexOnDisk != 0 || m.IndexMemory == 0 || m.FilterMemory == 0 {
				t.Errorf("%d bytes of indexes are on disk; %d of indexes and %d of filters in memory", m.IndexOnDisk, m.IndexMemory, m.FilterMemory)
			}
			for _, info := range db.Inspect().Tables() {
				if info.FilterKind != "blocked" {
					t.Errorf("table %d has a filter %q", info.Number, info.FilterKind)
				}
			}
			if err := db.Verify(context.Background()); err != nil {
				t.Error(err)
			}
		})
	}
}

// RebuildFilters waits for filters that Open has left for later. It would take them for filters
// that memory has no room for, and make smaller ones.
func TestOpen_RebuildWhileItLoads(t *testing.T) {
	fsys, goOn, waiting := slowLoads(laterStore(t))
	opts := laterOptions(fsys, nil)
	opts.FilterBits = 5 // half of what the filters have
	db := mustOpen(t, "db", opts)
	testenv.WaitFor(t, "the background to read an index", func() bool { return waiting.Load() > 0 })
	done := make(chan error)
	go func() {
		report, err := db.Inspect().RebuildFilters(context.Background())
		if err == nil && report.Rebuilt > 0 {
			err = fmt.Errorf("%d of %d filters were made again", report.Rebuilt, report.Tables)
		}
		done <- err
	}()
	select {
	case err := <-done:
		t.Errorf("RebuildFilters did not wait: %v", err)
		goOn()
		return
	case <-time.After(50 * time.Millisecond):
	}
	goOn()
	if err := <-done; err != nil {
		t.Error(err)
	}
}

// Open finds a table that is missing, that has another size or whose end is damaged, even if it
// leaves the rest for later. It finds no damage of an index then. Those who need it get that.
func TestOpen_ChecksTheEndsOfTables(t *testing.T) {
	mem := laterStore(t)
	for name, damage := range map[string]func(t *testing.T, m *vfs.Mem, table string) error{
		"missing": func(t *testing.T, m *vfs.Mem, table string) error { return m.Remove(table) },
		"shorter": func(t *testing.T, m *vfs.Mem, table string) error {
			editFile(t, m, table, func(f vfs.File, n int64) error { return f.Truncate(n - 1) })
			return nil
		},
		"longer": func(t *testing.T, m *vfs.Mem, table string) error {
			editFile(t, m, table, func(f vfs.File, _ int64) error { _, err := f.Write([]byte{0}); return err })
			return nil
		},
		"footer":     func(t *testing.T, m *vfs.Mem, table string) error { editFile(t, m, table, flipByte(-50)); return nil },
		"properties": func(t *testing.T, m *vfs.Mem, table string) error { editFile(t, m, table, flipByte(-130)); return nil },
	} {
		t.Run(name, func(t *testing.T) {
			damaged := mem.Crash(keepEverything)
			table := fileNamed(t, damaged, ".sst")
			if err := damage(t, damaged, table); err != nil {
				t.Fatal(err)
			}
			before := storeFiles(t, damaged)
			_, err := Open("db", laterOptions(damaged, nil))
			var c *CorruptionError
			if !errors.As(err, &c) || c.File != filepath.Base(table) {
				t.Errorf("Open = %v, want damage of %s", err, table)
			}
			wantNoOpenFiles(t, damaged)
			if after := storeFiles(t, damaged); len(after) != len(before) {
				t.Errorf("%d files became %d", len(before), len(after))
			}
		})
	}
}

// Damage of an index that Open has left for later is reported once, and given to those who need
// the index. The other tables are loaded.
func TestOpen_DamagedIndexLater(t *testing.T) {
	mem := laterStore(t)
	// The index lies in front of properties and footer.
	table := fileNamed(t, mem, ".sst")
	editFile(t, mem, table, flipByte(-3000))
	var met atomic.Int64
	db := mustOpen(t, "db", laterOptions(mem, func(e Event) {
		if e.Kind == EventCorruption {
			met.Add(1)
		}
	}))
	awaitLoaded(t, db)
	if n := met.Load(); n != 1 || db.Metrics().CorruptionsMet != 1 {
		t.Errorf("%d events, and the metrics count %d; want 1", n, db.Metrics().CorruptionsMet)
	}
	whole, damaged := 0, 0
	for i := 50; i < laterKeys; i += 100 {
		_, err := db.Get(laterKey(i))
		var c *CorruptionError
		switch {
		case err == nil:
			whole++
		case errors.As(err, &c) && c.File == filepath.Base(table):
			damaged++
		default:
			t.Fatalf("Get = %v", err)
		}
	}
	if whole == 0 || damaged == 0 || damaged > whole {
		t.Errorf("%d keys can be read and %d not", whole, damaged)
	}
	var c *CorruptionError
	if err := db.Verify(context.Background()); !errors.As(err, &c) {
		t.Errorf("Verify = %v", err)
	}
}
