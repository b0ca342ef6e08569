package shale

import (
	"bytes"
	"context"
	"errors"
	"io"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/shaledb/shale/bundle"
	"github.com/shaledb/shale/internal/base"
	"github.com/shaledb/shale/internal/testenv"
	"github.com/shaledb/shale/vfs"
	"github.com/shaledb/shale/vfs/faultfs"
)

// exportStore opens a store with some tables and a key in the memtable.
func exportStore(t testing.TB, fs vfs.FS) *DB {
	t.Helper()
	return exportStoreHeard(t, fs, func(Event) {})
}

// exportStoreHeard opens the same store with a function that gets its events.
func exportStoreHeard(t testing.TB, fs vfs.FS, onEvent func(Event)) *DB {
	t.Helper()
	opts := small()
	opts.FS, opts.CompactionWorkers, opts.OnEvent = fs, -1, onEvent
	db := openTest(t, opts)
	fill(t, db, 3000, 0)
	settle(t, db)
	mustPut(t, db, "memtable", "only")
	return db
}

// wantMaybe checks that the bundle denies none of the keys.
func wantMaybe(t *testing.T, b *bundle.Bundle, keys ...string) {
	t.Helper()
	for _, key := range keys {
		if !b.MayContain([]byte(key)) {
			t.Errorf("the bundle denies %q", key)
		}
	}
}

// If memtables can't be flushed, the bundle has their keys nevertheless.
func TestExportFilters_Refused(t *testing.T) {
	testenv.CheckLeaks(t)
	for _, tt := range []struct {
		name  string
		fails func(op vfs.Op, name string) bool
		put   bool // a sync has to fail first
	}{
		{"the disk is full", func(op vfs.Op, name string) bool { return op == vfs.OpCreate && strings.HasSuffix(name, ".sst") }, false},
		{"the log is broken", func(op vfs.Op, name string) bool { return op == vfs.OpSync && strings.HasSuffix(name, ".wal") }, true},
	} {
		faults := faultfs.New(vfs.NewMem(), nil)
		db := exportStore(t, faults)
		faults.Inject(func(op vfs.Op, name string, _ int64) error {
			if tt.fails(op, name) {
				return syscall.ENOSPC
			}
			return nil
		})
		if tt.put && db.Sync() == nil {
			t.Fatalf("%s: Sync succeeds", tt.name)
		}
		b, info := exportTest(t, db)
		if info.Memtables != 1 {
			t.Errorf("%s: %+v, want one memtable", tt.name, info)
		}
		wantMaybe(t, b, "memtable", "key000000", "key002999")
		if b.MayContain([]byte("memtable0")) || b.MayContain([]byte("key")) {
			t.Errorf("%s: the bundle says maybe to keys behind and before all others", tt.name)
		}
		faults.Inject(nil)
		if tt.put {
			if err := db.Resume(); err != nil {
				t.Fatal(err)
			}
		}
		if b, info = exportTest(t, db); info.Memtables != 0 {
			t.Errorf("%s, mended: %+v", tt.name, info)
		}
		wantMaybe(t, b, "memtable", "key000000")
	}
}

// For a table without a filter, the bundle answers maybe for all keys between the table's bounds, and
// denies the others.
func TestExportFilters_WithoutFilters(t *testing.T) {
	opts := small()
	opts.FilterBits, opts.CompactionWorkers = -1, -1
	db := openTest(t, opts)
	fill(t, db, 2000, 0)
	b, info := exportTest(t, db)
	if info.Tables == 0 || info.NoFilter != info.Tables || b.PredictedFPR() != 1 {
		t.Errorf("%+v, %v predicted; want no filters", info, b.PredictedFPR())
	}
	wantMaybe(t, b, "key000000", "key001999", "key000000x")
	for _, key := range []string{"", "key", "key001999x", "l"} {
		if b.MayContain([]byte(key)) {
			t.Errorf("MayContain(%q) = true outside of all tables", key)
		}
	}
}

// A table with a damaged filter is exported without a filter, whether the store has met the damage
// before or meets it in the export.
func TestExportFilters_DamagedFilter(t *testing.T) {
	for _, known := range []bool{false, true} {
		mem := vfs.NewMem()
		var events atomic.Int64
		db := exportStoreHeard(t, mem, func(e Event) {
			if e.Kind == EventFilterUnusable {
				events.Add(1)
			}
		})
		mustFlush(t, db)
		victim := db.mems.View().Runs[len(db.mems.View().Runs)-1].Tables[0]
		name := filepath.Join("db", base.TableName(victim.Meta.Num))
		damage := func() {
			file, err := mem.OpenReadWrite(name)
			if err != nil {
				t.Fatal(err)
			}
			table := make([]byte, victim.Meta.Size)
			if _, err := file.ReadAt(table, 0); err != nil && !errors.Is(err, io.EOF) {
				t.Fatal(err)
			}
			payload, _ := testenv.FilterBlock(table)
			payload[0] ^= 1
			if _, err := file.WriteAt(payload[:1], int64(bytes.Index(table, payload))); err != nil {
				t.Fatal(err)
			}
			if err := file.Close(); err != nil {
				t.Fatal(err)
			}
		}
		if known {
			if err := db.Close(); err != nil {
				t.Fatal(err)
			}
		}
		damage()
		if known {
			reopened, err := Open("db", &db.opts)
			if err != nil {
				t.Fatal(err)
			}
			db = reopened
		}
		b, info := exportTest(t, db)
		if info.NoFilter != 1 || events.Load() != 1 {
			t.Errorf("known before %v: %+v, %d events; want one table without filter", known, info, events.Load())
		}
		between := append(bytes.Clone(victim.Meta.Smallest), '?')
		wantMaybe(t, b, "key000000", "key002999", string(between))
		if err := db.Close(); err != nil { // unlike closeTest it does not verify the damaged table
			t.Fatal(err)
		}
	}
}

// If a filter can't be read because of an error of the disk, the export fails, instead of exporting
// the table without a filter.
func TestExportFilters_ReadError(t *testing.T) {
	faults := faultfs.New(vfs.NewMem(), nil)
	db := exportStore(t, faults)
	mustFlush(t, db)
	reads := 0
	for failAt := range 5 {
		reads = 0
		faults.Inject(func(op vfs.Op, name string, _ int64) error {
			if op == vfs.OpRead && strings.HasSuffix(name, ".sst") {
				if reads++; reads > failAt {
					return syscall.EIO
				}
			}
			return nil
		})
		if _, err := db.Inspect().ExportFilters(context.Background(), io.Discard); !errors.Is(err, syscall.EIO) {
			t.Errorf("read %d fails: ExportFilters gives %v, want EIO", failAt, err)
		}
	}
	faults.Inject(nil)
	exportTest(t, db)
}

// An export during Close and after it returns ErrClosed, and leaves no file open.
func TestExportFilters_Closed(t *testing.T) {
	testenv.CheckLeaks(t)
	mem := vfs.NewMem()
	db := exportStore(t, mem)
	closed := make(chan error, 1)
	first := true
	w := writerFunc(func(p []byte) (int, error) {
		if first {
			first = false
			go func() { closed <- db.Close() }()
			<-db.life.Context.Done()
		}
		return len(p), nil
	})
	if _, err := db.Inspect().ExportFilters(context.Background(), w); !errors.Is(err, ErrClosed) {
		t.Errorf("ExportFilters while Close begins gives %v, want ErrClosed", err)
	}
	if err := <-closed; err != nil {
		t.Errorf("Close: %v", err)
	}
	if _, err := db.Inspect().ExportFilters(context.Background(), io.Discard); !errors.Is(err, ErrClosed) {
		t.Errorf("ExportFilters of a closed store gives %v, want ErrClosed", err)
	}
	wantNoOpenFiles(t, mem)
}

// Compactions make tables obsolete during an export. Their files are kept until the bundle is written,
// and removed then.
func TestExportFilters_HoldsFiles(t *testing.T) {
	mem := vfs.NewMem()
	db := exportStore(t, mem)
	mustFlush(t, db)
	before := tablesOnDisk(t, db, mem)
	var out bytes.Buffer
	w := writerFunc(func(p []byte) (int, error) {
		if out.Len() == 0 {
			if err := db.Compact(context.Background(), Range{}); err != nil {
				t.Error(err)
			}
			if n := tablesOnDisk(t, db, mem); n < before {
				t.Errorf("%d tables are left of %d while their filters are exported", n, before)
			}
		}
		return out.Write(p)
	})
	if _, err := db.Inspect().ExportFilters(context.Background(), w); err != nil {
		t.Fatal(err)
	}
	b, err := bundle.Open(out.Bytes())
	if err != nil || b.Err() != nil {
		t.Fatal(err, b.Err())
	}
	wantMaybe(t, b, "memtable", "key000000", "key002999")
	testenv.WaitFor(t, "the tables that are not in use to go", func() bool { // residency.Filters may hold them for a moment
		return tablesOnDisk(t, db, mem) == len(db.Inspect().Tables())
	})
}

// A Writer that fails, cancels, or breaks the contract of io.Writer, does not make a bundle that is cut short pass for one.
func TestExportFilters_WriterContract(t *testing.T) {
	db := openTest(t, small())
	defer closeTest(t, db)
	fill(t, db, 500, 0)
	errPipe := errors.New("nobody listens")
	var cancel func()
	for name, c := range map[string]struct {
		write writerFunc
		want  error
	}{
		"fails":     {func([]byte) (int, error) { return 0, errPipe }, errPipe},
		"cancels":   {func(p []byte) (int, error) { cancel(); return len(p), nil }, context.Canceled},
		"nothing":   {func([]byte) (int, error) { return 0, nil }, io.ErrShortWrite},
		"too few":   {func(p []byte) (int, error) { return len(p) - 1, nil }, io.ErrShortWrite},
		"too many":  {func(p []byte) (int, error) { return len(p) + 1, nil }, nil},
		"less than": {func([]byte) (int, error) { return -1, nil }, nil},
	} {
		for first := range 3 { // writes that are right before
			var ctx context.Context
			ctx, cancel = context.WithCancel(t.Context())
			writes := 0
			_, err := db.Inspect().ExportFilters(ctx, writerFunc(func(p []byte) (int, error) {
				if writes++; writes <= first || len(p) == 0 {
					return len(p), nil
				}
				return c.write(p)
			}))
			cancel()
			if err == nil || c.want != nil && !errors.Is(err, c.want) || strings.Contains(err.Error(), "\n") {
				t.Errorf("%s, from write %d: %v", name, first+1, err)
			}
		}
	}
}
