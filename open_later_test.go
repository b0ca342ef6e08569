package shale

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"runtime/debug"
	"slices"
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

// laterKeys is the number of keys in a laterStore.
const laterKeys = 20_000

func laterKey(i int) []byte { return fmt.Appendf(nil, "later%06d", i) }

// laterStore makes a closed store of some tables in the last level and one in level 0. Under
// laterOptions, Open leaves the indexes and filters of most of them for later.
func laterStore(t *testing.T) *vfs.Mem { return laterStoreOf(t, 0) }

// laterStoreOf is laterStore with a given number of bits a key in the filters.
func laterStoreOf(t *testing.T, bits float64) *vfs.Mem {
	t.Helper()
	mem := vfs.NewMem()
	opts := laterOptions(mem, nil)
	opts.FilterBits = bits
	db := mustOpen(t, "db", opts)
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

// laterOptions are those of a store whose filters and indexes are not in the one read that Open makes of a table.
func laterOptions(fsys vfs.FS, events func(Event)) *Options {
	if events == nil {
		events = func(Event) {}
	}
	return &Options{
		FS: fsys, OnEvent: events, CompactionWorkers: -1, Durability: SyncManual,
		MemtableSize: 512 << 10, TableSize: 128 << 10, BlockSize: 256, Compression: NoCompression,
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
			if db.MayContain([]byte("later000000x")) {
				t.Error("MayContain did not load the filter")
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

// A openCounter counts the reads of tables that Open makes, and not those that follow it in the background.
type openCounter struct {
	vfs.FS
	mu    sync.Mutex
	reads map[string]int
	bytes int
}

func (c *openCounter) Open(name string) (vfs.File, error) {
	f, err := c.FS.Open(name)
	if err == nil && strings.HasSuffix(name, ".sst") {
		f = countedReads{f, c, name}
	}
	return f, err
}

type countedReads struct {
	vfs.File
	c    *openCounter
	name string
}

func (f countedReads) ReadAt(p []byte, off int64) (int, error) {
	if !bytes.Contains(debug.Stack(), []byte("residency.")) {
		f.c.mu.Lock()
		f.c.reads[f.name]++
		f.c.bytes += len(p)
		f.c.mu.Unlock()
	}
	return f.File.ReadAt(p, off)
}

// Open makes one read of each table, which is short, however many tables there are and however large their
// filters are.
func TestOpen_OneShortReadOfEachTable(t *testing.T) {
	many := vfs.NewMem()
	smallTables(t, many, "db", 3000)
	for name, mem := range map[string]*vfs.Mem{"many tables": many, "large indexes": laterStore(t), "large filters": laterStoreOf(t, 64)} {
		t.Run(name, func(t *testing.T) {
			c := &openCounter{FS: mem, reads: make(map[string]int)}
			db := mustOpen(t, "db", laterOptions(c, nil))
			c.mu.Lock()
			reads, read := maps.Clone(c.reads), c.bytes
			c.mu.Unlock()
			tables := db.Inspect().Tables()
			for file, n := range reads {
				if n > 1 {
					t.Errorf("Open reads %s %d times", file, n)
				}
			}
			// One byte more than the 4 KiB tells that a file is too long.
			if len(reads) != len(tables) || len(tables) < 5 || read > len(tables)*(4<<10+1) {
				t.Errorf("Open reads %d bytes of %d of %d tables", read, len(reads), len(tables))
			}
			awaitLoaded(t, db)
			for _, info := range db.Inspect().Tables()[:5] {
				if info.FilterBits == 0 {
					t.Errorf("%+v has no filter", info)
				}
			}
			closeTest(t, db)
		})
	}
}

// While the background has not come to a table yet, the first lookup that needs its filter loads it. So absent
// keys cost no read of a block, and MayContain knows as much as it ever does.
func TestOpen_LookupsLoadFilters(t *testing.T) {
	mem := laterStoreOf(t, 64)
	resume := make(chan struct{})
	disk := faultfs.New(mem, func(op vfs.Op, _ string, _ int64) error {
		if op == vfs.OpRead && bytes.Contains(debug.Stack(), []byte("residency.")) {
			<-resume
		}
		return nil
	})
	db := mustOpen(t, "db", laterOptions(disk, nil))
	keys, maybe := make([][]byte, laterKeys), make([]bool, laterKeys/4)
	for i := range keys {
		keys[i] = append(laterKey(i), 'x')
	}
	for _, key := range keys[:laterKeys/2] {
		if ok, err := db.Has(key); ok || err != nil {
			t.Fatalf("Has(%s) = %v, %v", key, ok, err)
		}
	}
	for _, key := range keys[laterKeys/2 : laterKeys*3/4] {
		if db.MayContain(key) {
			t.Fatalf("MayContain(%s)", key)
		}
	}
	db.MayContainMany(keys[laterKeys*3/4:], maybe)
	if slices.Contains(maybe, true) {
		t.Error("MayContainMany does not know what the filters say")
	}
	if m := db.Metrics(); m.BlockReads > 0 || !m.Loading {
		t.Errorf("%d blocks were read for absent keys; Loading is %v", m.BlockReads, m.Loading)
	}
	close(resume)
	awaitLoaded(t, db)
	wantLaterKeys(t, db)
}

// A damaged filter that a lookup meets is reported once, also if the program closes the store right after it: before the
// background has come to the filter.
func TestOpen_LookupsReportDamage(t *testing.T) {
	mem := laterStoreOf(t, 64)
	db := mustOpen(t, "db", laterOptions(mem, nil))
	table := slices.Collect(db.mems.View().Version.Tables())[1]
	closeTest(t, db)
	editFile(t, mem, filepath.Join("db", base.TableName(table.Meta.Num)), flipByte(int64(table.Reader.Props().DataBytes)+100))
	for i := range 30 {
		var met atomic.Int64
		db := mustOpen(t, "db", laterOptions(mem, func(e Event) {
			if e.Kind == EventFilterUnusable {
				met.Add(1)
			}
		}))
		if _, err := db.Get(slices.Concat(table.Meta.Smallest, []byte("x"))); err != ErrNotFound { // no other table may have it
			t.Fatal(err)
		}
		if i%2 > 0 {
			awaitLoaded(t, db)
		}
		if err := db.Close(); err != nil {
			t.Fatal(err)
		}
		if n := met.Load(); n != 1 || db.Metrics().UnusableFilters != 1 {
			t.Fatalf("%d events, and the metrics count %d", n, db.Metrics().UnusableFilters)
		}
	}
}

// A store can be closed while filters and indexes are being read.
func TestOpen_CloseWhileItLoads(t *testing.T) {
	mem := laterStore(t)
	for range 50 {
		db := mustOpen(t, "db", laterOptions(mem, nil))
		if _, err := db.Get(laterKey(1)); err != nil {
			t.Fatal(err)
		}
		closeTest(t, db)
		wantNoOpenFiles(t, mem)
	}
}
