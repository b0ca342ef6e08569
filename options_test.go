package shale

import (
	"bytes"
	"fmt"
	"log/slog"
	"math"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/shaledb/shale/internal/testenv"
	"github.com/shaledb/shale/vfs"
)

// The defaults are those that the comments of Options state.
func TestOptions_Defaults(t *testing.T) {
	for _, o := range []*Options{nil, {}} {
		got, err := o.withDefaults()
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range []struct {
			field     string
			got, want any
		}{
			{"Durability", got.Durability, SyncEach},
			{"SyncEvery", got.SyncEvery, 100 * time.Millisecond},
			{"FS", got.FS, vfs.Default},
			{"MemtableSize", got.MemtableSize, int64(32 << 20)},
			{"CacheSize", got.CacheSize, int64(64 << 20)},
			{"FilterBits", got.FilterBits, 10.0},
			{"FilterMemory", got.FilterMemory, int64(0)},
			{"MaxOpenFiles", got.Tuning.MaxOpenFiles, 1000},
			{"CompactionWorkers", got.CompactionWorkers, max(1, runtime.GOMAXPROCS(0)/2)},
			{"BlockSize", got.BlockSize, 4 << 10},
			{"TableSize", got.TableSize, int64(16 << 20)},
			{"Compression", got.Compression, Snappy},
		} {
			if c.got != c.want {
				t.Errorf("default of %s: %v, want %v", c.field, c.got, c.want)
			}
		}
	}
}

// The error of Open names the field that is wrong, and Open makes no directory.
func TestOptions_Refused(t *testing.T) {
	for _, c := range []struct {
		field string
		opts  Options
	}{
		{"Exist", Options{Exist: MustNotExist, ReadOnly: true}},
		{"Exist", Options{Exist: MustNotExist + 1}},
		{"LockTimeout", Options{LockTimeout: -1}},
		{"Durability", Options{Durability: SyncManual + 1}},
		{"Durability", Options{Durability: -1}},
		{"SyncEvery", Options{SyncEvery: -time.Second}},
		{"MemtableSize", Options{MemtableSize: 4<<10 - 1}},
		{"MemtableSize", Options{MemtableSize: -1}},
		{"MemtableSize", Options{MemtableSize: 1<<30 + 1}},
		{"FilterBits", Options{FilterBits: 65}},
		{"FilterBits", Options{FilterBits: math.NaN()}},
		{"FilterBits", Options{FilterBits: math.Inf(1)}},
		{"FilterMemory", Options{FilterMemory: -1}},
		{"Tuning.MaxOpenFiles", Options{Tuning: Tuning{MaxOpenFiles: 15}}},
		{"Tuning.MaxOpenFiles", Options{Tuning: Tuning{MaxOpenFiles: -1}}},
		{"BlockSize", Options{BlockSize: 255}},
		{"BlockSize", Options{BlockSize: 1<<20 + 1}},
		{"BlockSize", Options{BlockSize: -1}},
		{"TableSize", Options{TableSize: 4<<10 - 1}},
		{"TableSize", Options{TableSize: -1}},
		{"TableSize", Options{TableSize: 1<<40 + 1}},
		{"TableSize", Options{TableSize: math.MaxInt64}},
	} {
		fsys := vfs.NewMem()
		c.opts.FS = fsys
		_, err := Open("db", &c.opts)
		if err == nil || !strings.Contains(err.Error(), "option "+c.field+" ") {
			t.Errorf("Open(%+v): %v, want an error about %s", c.opts, err, c.field)
		}
		if _, err := fsys.Stat("db"); err == nil {
			t.Errorf("Open(%+v) made the directory", c.opts)
		}
	}
}

// The smallest and the largest allowed values of options work.
func TestOptions_Bounds(t *testing.T) {
	for _, o := range []Options{
		{MemtableSize: 4 << 10, Tuning: Tuning{MaxOpenFiles: 16}, BlockSize: 256, TableSize: 4 << 10, FilterBits: 64, CompactionWorkers: 9},
		{MemtableSize: 1 << 30, BlockSize: 1 << 20, TableSize: 1 << 40, FilterBits: math.Inf(-1), CacheSize: -1},
		{FilterBits: math.SmallestNonzeroFloat64, FilterMemory: 1, CacheSize: math.MaxInt64 / 2, CompactionWorkers: math.MinInt},
	} {
		db := openTest(t, &o)
		for i := range 300 {
			mustPut(t, db, fmt.Sprintf("key%d", i), strings.Repeat("v", i))
		}
		mustFlush(t, db)
		for i := range 300 {
			wantGet(t, db, fmt.Sprintf("key%d", i), strings.Repeat("v", i), true)
			wantGet(t, db, fmt.Sprintf("kex%d", i), "", false)
		}
	}
}

// Open copies the options: the caller may change them afterwards.
func TestOptions_AreCopied(t *testing.T) {
	opts := small()
	opts.FS = vfs.NewMem()
	db := openTest(t, opts)
	*opts = Options{ReadOnly: true, MemtableSize: -1}
	mustPut(t, db, "a", "1")
	mustFlush(t, db)
	wantGet(t, db, "a", "1", true)
}

// Tables have the sizes of blocks and files, and the compression, that the options say.
func TestOptions_Layout(t *testing.T) {
	shape := func(change func(o *Options)) (bytes int64, tables int, blockBytes float64) {
		o := &Options{CompactionWorkers: -1, Durability: SyncManual, CacheSize: -1}
		change(o)
		db := openTest(t, o)
		for half := range 2 { // tables that overlap, so that they are merged and not moved
			for i := half; i < 4000; i += 2 {
				mustPut(t, db, fmt.Sprintf("key%06d", i), strings.Repeat(fmt.Sprint(i), 20))
			}
			mustFlush(t, db)
		}
		if err := db.Compact(t.Context(), Range{}); err != nil {
			t.Fatal(err)
		}
		before := db.Metrics()
		for i := 0; i < 4000; i += 40 {
			wantHas(t, db, fmt.Sprintf("key%06d", i), true)
		}
		m := db.Metrics().Sub(before)
		for _, info := range db.Inspect().Tables() {
			bytes, tables = bytes+info.Size, tables+1
		}
		return bytes, tables, float64(m.BlockReadBytes) / float64(m.BlockReads)
	}
	snappy, _, _ := shape(func(*Options) {})
	zstd, _, _ := shape(func(o *Options) { o.Compression = Zstd })
	raw, one, block := shape(func(o *Options) { o.Compression = NoCompression })
	if zstd >= snappy || snappy >= raw {
		t.Errorf("bytes of tables: %d raw, %d with snappy, %d with zstd", raw, snappy, zstd)
	}
	if one != 1 || block < 3<<10 || block > 5<<10 {
		t.Errorf("%d tables, blocks of %.0f bytes; want 1 and about 4096", one, block)
	}
	_, many, block := shape(func(o *Options) { o.Compression, o.TableSize, o.BlockSize = NoCompression, 32<<10, 1<<10 })
	if want := int(raw / (32 << 10)); many < want*3/4 || many > want*3/2 || block < 700 || block > 1300 {
		t.Errorf("%d tables, blocks of %.0f bytes; want about %d and 1024", many, block, want)
	}
}

// Logger gets a line for each event, at the event's level, and OnEvent gets the same events.
func TestOptions_LoggerAndEvents(t *testing.T) {
	var out bytes.Buffer
	var mu sync.Mutex
	kinds := make(map[EventKind]int)
	opts := small()
	opts.Logger = slog.New(slog.NewTextHandler(lockedWriter{&mu, &out}, &slog.HandlerOptions{Level: slog.LevelDebug}))
	opts.OnEvent = func(e Event) {
		mu.Lock()
		defer mu.Unlock()
		kinds[e.Kind]++
		short := e.Duration < 0 || e.Duration == 0 && runtime.GOOS != "windows" // its clock stands still for milliseconds
		if e.Time.IsZero() || (e.Kind == EventFlush || e.Kind == EventCompaction) && e.Err == nil && short {
			t.Errorf("event %v at %v took %v", e.Kind, e.Time, e.Duration)
		}
	}
	db := openTest(t, opts)
	fill(t, db, 5000, 0)
	mustFlush(t, db)
	waitIdle(t, db)
	closeTest(t, db)
	mu.Lock()
	defer mu.Unlock()
	for kind, name := range map[EventKind]string{EventFlush: "flush", EventCompaction: "compaction"} {
		if n := strings.Count(out.String(), `level=DEBUG msg="shale: `+name+`"`); n == 0 || n != kinds[kind] {
			t.Errorf("%d lines of log and %d events of %v", n, kinds[kind], kind)
		}
	}
	if s := out.String(); strings.Contains(s, "level=ERROR") || !strings.Contains(s, "dir=db") {
		t.Errorf("the log of an untroubled store:\n%s", s)
	}
}

// A lockedWriter writes under a lock that readers of the buffer take too.
type lockedWriter struct {
	mu *sync.Mutex
	w  *bytes.Buffer
}

func (l lockedWriter) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.w.Write(p)
}

// A store on the disk has seven times as many tables as MaxOpenFiles. Readers find every key, and the
// process has few more descriptors than MaxOpenFiles.
func TestOptions_MaxOpenFiles(t *testing.T) {
	testenv.CheckLeaks(t)
	opts := small()
	opts.TableSize, opts.Tuning.MaxOpenFiles, opts.CacheSize, opts.Compression = 4<<10, 16, 8<<10, NoCompression
	before := testenv.OpenDescriptors()
	db, err := Open(filepath.Join(t.TempDir(), "db"), opts)
	if err != nil {
		t.Fatal(err)
	}
	const n, readers = 16000, 4
	fill(t, db, n, 0)
	mustFlush(t, db)
	waitIdle(t, db)
	if tables := len(db.Inspect().Tables()); tables < 7*opts.Tuning.MaxOpenFiles {
		t.Errorf("%d tables; the test wants %d", tables, 7*opts.Tuning.MaxOpenFiles)
	}
	var most atomic.Int64
	var wg sync.WaitGroup
	for g := range readers {
		wg.Go(func() {
			for i := g; i < n; i += 3 * readers {
				key := fmt.Sprintf("key%06d", i)
				if v, err := db.Get([]byte(key)); err != nil || string(v) != fmt.Sprintf("value %d of round 0", i) {
					t.Errorf("Get(%q) = %q, %v", key, v, err)
				}
				if i%40 == 0 {
					most.Store(max(most.Load(), int64(testenv.OpenDescriptors())))
				}
			}
		})
	}
	wg.Go(func() {
		for _, err := range db.Scan(Range{}) {
			if err != nil {
				t.Error(err)
			}
		}
	})
	wg.Wait()
	// Allowed are: the tables, one more for each reader whose file was evicted meanwhile, the
	// directory that testenv.OpenDescriptors reads, once for each reader, and log, manifest and lock.
	if allowed := int64(before + opts.Tuning.MaxOpenFiles + 2*readers + 8); most.Load() > allowed {
		t.Errorf("%d descriptors were open, %d before the store; want %d at most", most.Load(), before, allowed)
	}
	if err := db.Close(); err != nil {
		t.Error(err)
	}
}
