package repair

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/shaledb/shale"
	"github.com/shaledb/shale/vfs"
)

// A built is a store that a script has made, and all that was ever written to
// it.
type built struct {
	t    testing.TB
	name string
	r    *rand.Rand
	mem  *vfs.Mem
	db   *shale.DB
	opts shale.Options

	snapshots bool // are taken, so that old versions stay
	held      []*shale.Snapshot

	seq      uint64
	lasts    []uint64            // the last sequence number after n commits
	states   []map[string]string // what the store holds then
	versions map[string][]string // all values that a key ever had

	files map[string]string // at the end
	safe  int               // commits that are there, whatever tore the end
	// unused are the files that the store does not need any more.
	unused map[string]bool
}

// shapes are the stores that tests damage: with all that a store can have on
// disk, closed or crashed.
var shapes = map[string]func(b *built){
	"closed": func(b *built) {
		b.deep()
		b.write(20)
		b.close()
	},
	"filters beside tables": func(b *built) {
		b.deep()
		b.write(20)
		b.close()
		b.opts.FilterHash = (b.opts.FilterHash + 1) % (shale.SipHash + 1)
		b.open()
		r, err := b.db.RebuildFilters(context.Background())
		b.must(err)
		if r.Rebuilt == 0 {
			b.t.Fatalf("no filter was rebuilt: %+v", r)
		}
		b.write(5)
		b.close()
	},
	// The manifest has all flushes and merges, of which the tables are gone.
	"one life": func(b *built) {
		b.opts.CompactionWorkers, b.opts.MemtableSize = 1, 4<<10
		b.open()
		for range 16 {
			b.write(30)
			b.flush()
			b.settle()
		}
		b.write(10)
		b.close()
	},
	"crashed": func(b *built) {
		b.deep()
		for range 3 { // for logs that are kept to be used again, and older ones that are gone
			b.write(8)
			b.flush()
		}
		b.write(12)
		b.sync()
		b.write(8)
		b.crash()
	},
	// With many versions of keys, over the borders of blocks.
	"versions": func(b *built) {
		b.snapshots = true
		b.deep()
		b.write(10)
		b.close()
	},
	// The same one in each process, but for its id.
	"small": func(b *built) {
		b.opts.MemtableSize = 64 << 10
		b.open()
		b.write(25)
		b.flush()
		b.must(b.db.Compact(context.Background(), shale.Range{}))
		for range 2 {
			b.write(8)
			b.flush()
		}
		b.write(6)
		b.close()
		b.open()
		b.write(6)
		b.close()
	},
	"logs only": func(b *built) {
		b.open()
		b.write(10)
		b.crash()
	},
	// Each life leaves a log, for little was written.
	"many logs": func(b *built) {
		b.opts.MemtableSize = 64 << 10
		b.open()
		b.write(10)
		b.flush()
		for range 5 {
			b.write(5)
			if b.r.IntN(3) == 0 {
				b.crash()
			} else {
				b.close()
			}
			b.open()
		}
		b.write(4)
		b.close()
	},
	// A log is live of which the first commits are in tables too.
	"half flushed": func(b *built) {
		b.open()
		b.write(130)
		b.crash()
		b.opts.MemtableSize = 8 << 10
		b.open()
		b.settle()
		b.crash()
	},
	// A log is live of which the first commits are in tables, merged to the
	// last level, without numbers and deletions.
	"split log": func(b *built) {
		b.opts.MemtableSize = 64 << 10
		b.open()
		b.write(130)
		b.crash()
		b.opts.MemtableSize = 4 << 10
		b.opts.CompactionWorkers = 1
		b.open()
		b.settle()
		b.crash()
		b.opts.CompactionWorkers = -1
		b.opts.MemtableSize = 64 << 10
		for range b.r.IntN(3) {
			b.open()
			b.write(b.r.IntN(4))
			b.crash()
		}
	},
}

// someShapes returns the names of the shapes; with -short two of them, others for
// another seed.
func someShapes(seed uint64) []string {
	names := slices.Sorted(maps.Keys(shapes))
	if testing.Short() {
		rand.New(rand.NewPCG(seed, 2)).Shuffle(len(names), func(i, j int) { names[i], names[j] = names[j], names[i] })
		names = names[:2]
	}
	return names
}

// build makes the store of a shape, the same one for the same seed but for its
// id and what depends on the time.
func build(t testing.TB, shape string, seed uint64) *built {
	t.Helper()
	b := &built{t: t, name: shape, r: rand.New(rand.NewPCG(seed, 1)), mem: vfs.NewMem(),
		lasts: []uint64{0}, states: []map[string]string{{}}, versions: make(map[string][]string)}
	b.opts = shale.Options{FS: b.mem, MemtableSize: 64 << 10, TableSize: 4 << 10, BlockSize: 512,
		CompactionWorkers: -1, Durability: shale.SyncManual, OnEvent: func(shale.Event) {}}
	r := rand.New(rand.NewPCG(seed, 3))
	b.opts.FilterHash, b.opts.LastLevelFilter = shale.FilterHash(r.IntN(3)), shale.FilterKind(r.IntN(2))
	b.opts.FilterPrefix = []shale.PrefixRule{{}, shale.FixedPrefix(3), shale.DelimitedPrefix('-', 1)}[r.IntN(3)]
	b.opts.Compression = []shale.Compression{shale.Snappy, shale.NoCompression, shale.Zstd}[r.IntN(3)]
	shapes[shape](b)
	b.opts.FS = b.mem
	b.files = b.list()
	b.unused = map[string]bool{"LOCK": true}
	report, err := Check(context.Background(), "db", &Options{FS: b.mem})
	b.must(err)
	for i := range report.Findings {
		if f := &report.Findings[i]; f.Harm != Stray {
			t.Fatalf("%s: found before there is damage: %+v", shape, f)
		}
		b.unused[report.Findings[i].File] = true
	}
	return b
}

// deep makes several levels, with runs in level 0.
func (b *built) deep() {
	b.opts.CompactionWorkers, b.opts.MemtableSize = 1, 4<<10
	b.open()
	for range 16 {
		b.write(30)
		b.flush()
		b.settle()
	}
	b.close()
	b.opts.CompactionWorkers, b.opts.MemtableSize = -1, 64<<10
	b.open()
	for range 2 {
		b.write(10)
		b.flush()
	}
}

func (b *built) must(err error) {
	b.t.Helper()
	if err != nil {
		b.t.Fatalf("%s: %v", b.name, err)
	}
}

func (b *built) open() {
	b.t.Helper()
	b.opts.FS = b.mem
	db, err := shale.Open("db", &b.opts)
	b.must(err)
	b.db = db
}

func (b *built) close() {
	b.release()
	b.must(b.db.Close())
	b.safe = len(b.states) - 1
}

func (b *built) sync() {
	b.must(b.db.Sync())
	b.safe = len(b.states) - 1
}

func (b *built) flush() {
	b.must(b.db.Flush(context.Background()))
	b.safe = len(b.states) - 1
}

// crash ends the process, or the machine, which writes what it has.
func (b *built) crash() {
	after := b.mem.Crash(vfs.CrashConfig{Policy: vfs.KeepAll, Names: vfs.NamesKeep})
	b.release()
	b.must(b.db.Close())
	b.mem = after
}

func (b *built) release() {
	for _, s := range b.held {
		s.Close()
	}
	b.held = nil
}

// settle waits until nothing goes on in the background.
func (b *built) settle() {
	deadline := time.Now().Add(time.Minute)
	for quiet := 0; quiet < 200; quiet++ {
		if m := b.db.Metrics(); m.Flushing+m.Compacting > 0 {
			quiet = 0
		}
		if time.Now().After(deadline) {
			b.t.Fatalf("%s: the background does not come to rest:\n%v", b.name, b.db.Metrics())
		}
		runtime.Gosched()
	}
}

// write makes n commits: each puts a key of its own, and puts and deletes some
// that many commits share.
func (b *built) write(n int) {
	b.t.Helper()
	for range n {
		i := len(b.states) - 1
		batch, state := new(shale.Batch), maps.Clone(b.states[i])
		put := func(key, value string) {
			b.must(batch.Put([]byte(key), []byte(value)))
			state[key] = value
			b.versions[key] = append(b.versions[key], value)
		}
		put(fmt.Sprintf("commit%06d", i), strings.Repeat("m", b.r.IntN(20)))
		if b.snapshots {
			snapshot, err := b.db.Snapshot()
			b.must(err)
			b.held = append(b.held, snapshot)
			put(fmt.Sprintf("often%d", b.r.IntN(3)), fmt.Sprintf("%d%s", i, strings.Repeat("o", 90)))
		}
		for j := range b.r.IntN(6) {
			key := fmt.Sprintf("key%03d", b.r.IntN(150))
			if b.r.IntN(4) == 0 {
				b.must(batch.Delete([]byte(key)))
				delete(state, key)
				continue
			}
			value := make([]byte, b.r.IntN(120))
			for k := range value {
				value[k] = byte(b.r.Uint32())
			}
			put(key, fmt.Sprintf("%d.%d.%s", i, j, value))
		}
		b.seq += uint64(batch.Len())
		b.must(b.db.Write(context.Background(), batch))
		b.lasts, b.states = append(b.lasts, b.seq), append(b.states, state)
	}
}

// list returns the files of the store and their bytes, but for the lock.
func (b *built) list() map[string]string {
	b.t.Helper()
	return listDir(b.t, b.mem, "db")
}

func listDir(t testing.TB, fsys vfs.FS, dir string) map[string]string {
	t.Helper()
	files := make(map[string]string)
	names, err := fsys.List(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		f, err := fsys.Open(dir + "/" + name)
		if err != nil {
			t.Fatal(err)
		}
		size, err := f.Size()
		if err != nil {
			t.Fatal(err)
		}
		data := make([]byte, size)
		if _, err := f.ReadAt(data, 0); err != nil && size > 0 {
			t.Fatal(err)
		}
		f.Close()
		files[name] = string(data)
	}
	return files
}

// stateAt returns the number of commits up to a sequence number.
func (b *built) stateAt(seq uint64) int {
	n, found := slices.BinarySearch(b.lasts, seq)
	if !found {
		n--
	}
	return n
}
