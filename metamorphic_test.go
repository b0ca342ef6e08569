package shale

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/shaledb/shale/internal/testenv"
	"github.com/shaledb/shale/vfs"
)

// A metaSet is a set of options. None of them may change an answer.
type metaSet struct {
	name  string
	small bool // a list should make several levels
	set   func(o *Options)
}

// metaSets are the option sets that a list runs on. The first is the one that
// the others are compared with: it has everything in one memtable for as long
// as it can.
var metaSets = []metaSet{
	{"large memtable", false, func(o *Options) {
		o.MemtableSize, o.TableSize, o.BlockSize = 4<<20, 1<<20, 4<<10
	}},
	{"smallest, no cache", true, func(o *Options) {
		o.BlockSize, o.CacheSize, o.Compression, o.testing.runs = 256, -1, NoCompression, 4
	}},
	{"no filters, zstd", true, func(o *Options) {
		o.FilterBits, o.CacheSize, o.Compression, o.CompactionWorkers = -1, 4<<10, Zstd, 4
	}},
	{"2 bits, no room for them", true, func(o *Options) {
		o.FilterBits, o.FilterMemory, o.Compression, o.testing.noMap = 2, 1, NoCompression, true
	}},
	{"large blocks, 24 bits", true, func(o *Options) {
		o.MemtableSize, o.BlockSize, o.FilterBits, o.Compression = 8<<10, 64<<10, 24, Zstd
		o.FilterPrefix = FixedPrefix(3)
		o.Durability = SyncEach
	}},
	{"no automatic compactions", false, func(o *Options) {
		o.BlockSize, o.CompactionWorkers = 1<<10, -1
	}},
	{"2 KiB of filters, large tables", false, func(o *Options) {
		o.MemtableSize, o.TableSize, o.FilterMemory = 16<<10, 64<<10, 2<<10
		o.Durability, o.SyncEvery = SyncPeriodic, time.Millisecond
	}},
	{"large cache, few open files", true, func(o *Options) {
		o.CacheSize, o.MaxOpenFiles, o.CompactionWorkers, o.testing.runs = 64<<20, 16, 4, 2
	}},
	{"medium, 2 bits", false, func(o *Options) {
		o.MemtableSize, o.TableSize, o.BlockSize, o.FilterBits = 64<<10, 32<<10, 4<<10, 2
		o.FilterPrefix = FixedPrefix(1)
	}},
	{"large memtable, log not mapped", false, func(o *Options) {
		o.MemtableSize, o.BlockSize, o.CacheSize, o.Compression, o.testing.noMap = 4<<20, 256, -1, Zstd, true
	}},
	{"half the filters fit", true, func(o *Options) {
		o.BlockSize, o.FilterBits, o.FilterMemory, o.CacheSize, o.testing.runs = 256, 24, 512, 1, 8
	}},
	{"synced, no filters, not mapped", true, func(o *Options) {
		o.BlockSize, o.FilterBits, o.Durability, o.testing.noMap = 64<<10, -1, SyncEach, true
		o.Compression = NoCompression
	}},
	{"level 0 only, 24 bits, unlimited", false, func(o *Options) {
		o.BlockSize, o.FilterBits, o.FilterMemory, o.CompactionWorkers, o.CacheSize = 256, 24, 1<<40, -1, -1
		o.FilterPrefix = DelimitedPrefix('/', 1)
	}},
	{"another one after each opening", true, nil},
	{"drawn", false, nil},
	{"drawn, after each opening", false, nil},
}

// The sets at the end have no settings of their own.
var (
	metaAnother    = len(metaSets) - 3 // takes those before it in turn
	metaDrawn      = len(metaSets) - 2 // draws them once
	metaDrawnAgain = len(metaSets) - 1 // draws them at each opening
)

// A metaRun is a store on which a list is run.
type metaRun struct {
	set       int
	seed      uint64 // of what is drawn
	mem       *vfs.Mem
	db        *DB
	iterators [metaSlots]*Iterator
	snapshots [metaSlots]*Snapshot

	opened  int
	deepest int // levels with tables seen at once
}

// options returns the options of the moment.
func (r *metaRun) options() Options {
	o := tinyStore(r.mem)
	o.testing.baseSize = 4 << 10
	i := r.set
	switch i {
	case metaAnother:
		i = (r.opened * 5) % i
	case metaDrawn:
		return drawSeeded(r.mem, r.seed, 0)
	case metaDrawnAgain:
		return drawSeeded(r.mem, r.seed, uint64(r.opened))
	}
	metaSets[i].set(&o)
	return o
}

// open opens the store. If that fails, there is none.
func (r *metaRun) open() error {
	r.opened++
	opts := r.options()
	var err error
	r.db, err = Open("db", &opts)
	return err
}

// run does the operations and calls each with its line of the transcript. It
// ends early if each returns an error.
func (r *metaRun) run(ops []metaOp, each func(i int, answer string) error) (err error) {
	r.mem = vfs.NewMem()
	if err := r.open(); err != nil {
		return err
	}
	defer func() {
		if r.db == nil {
			return
		}
		r.letGo()
		if cerr := r.db.Close(); err == nil {
			err = cerr
		}
		if n := r.mem.OpenFiles(); err == nil && n != 0 {
			err = fmt.Errorf("%d files are left open", n)
		}
	}()
	for i, op := range ops {
		answer := op.do(r)
		if r.db == nil {
			return fmt.Errorf("operation %d: %s", i, answer)
		}
		if err := each(i, answer); err != nil {
			return err
		}
		if op.kind == "fill" || op.kind == "flush" {
			r.look()
		}
	}
	return nil
}

// look notes the shape of the tree.
func (r *metaRun) look() {
	levels := 0
	for _, l := range r.db.Metrics().Levels {
		if l.Tables > 0 {
			levels++
		}
	}
	r.deepest = max(r.deepest, levels)
}

// runMetaList runs a list on the option sets given by their numbers, and keeps
// in deepest how many levels each has made.
func runMetaList(t *testing.T, seed uint64, ops []metaOp, sets, deepest []int) {
	var want []string
	first := new(metaRun)
	err := first.run(ops, func(_ int, answer string) error {
		want = append(want, answer)
		return nil
	})
	if err != nil {
		t.Fatalf("seed %d, option set %q: %v", seed, metaSets[0].name, err)
	}
	sweep(t, sets, func(_, set int) error {
		r := &metaRun{set: set, seed: seed}
		err := r.run(ops, func(i int, answer string) error {
			if answer != want[i] {
				return difference(ops, i, want[i], answer)
			}
			return nil
		})
		deepest[set] = max(deepest[set], r.deepest)
		if err != nil {
			o := r.options()
			return fmt.Errorf("seed %d, option set %q, at the end %s: %w", seed, metaSets[set].name, optionsText(&o), err)
		}
		return nil
	})
}

// difference tells where answers differ, and the operations that led there.
func difference(ops []metaOp, i int, want, got string) error {
	at := 0
	for at < min(len(want), len(got)) && want[at] == got[at] {
		at++
	}
	around := func(s string) string { return s[max(0, at-80):min(len(s), at+160)] }
	var b strings.Builder
	fmt.Fprintf(&b, "the answer of operation %d differs at byte %d:\n%s\nwith option set %q:\n%s\noperations up to it:", i, at, around(got), metaSets[0].name, around(want))
	for j := max(0, i-40); j <= i; j++ {
		fmt.Fprintf(&b, "\n%d %s %.300s", j, ops[j].kind, ops[j].args)
	}
	return errors.New(b.String())
}

// One list of operations gives the same answers and errors, byte for byte,
// under all options.
func TestMetamorphic(t *testing.T) {
	checkLeaks(t)
	seed, long := testenv.Seed(t), testenv.Long(t)
	lists, length, every := uint64(2), 300, 1
	switch {
	case testenv.Race && long > 0:
		length = 200
	case testenv.Race:
		lists, length, every = 1, 120, 4
	case long > 0:
		length = 400
	case testing.Short():
		lists, length = 1, 250
	}
	var sets []int
	for i := 1 + int(seed)&(every-1); i < len(metaSets); i += every {
		sets = append(sets, i)
	}
	begin := time.Now()
	deepest := make([]int, len(metaSets))
	counts := make(map[string]int)
	var n uint64
	total, asked, known := 0, 0, 0
	for ; n < lists || time.Since(begin) < long; n++ {
		m := newMetaList(seed+n, length)
		runMetaList(t, seed+n, m.ops, sets, deepest)
		if t.Failed() {
			return
		}
		for _, op := range m.ops {
			counts[op.kind]++
		}
		total, asked, known = total+len(m.ops), asked+m.asked, known+m.known
	}
	var histogram []string
	for _, kind := range slices.Sorted(maps.Keys(counts)) {
		histogram = append(histogram, fmt.Sprintf("%s %d", kind, counts[kind]))
	}
	t.Logf("%d lists of %d operations in all on %d option sets in %v; levels %v; %d of %d keys asked for were known; %s",
		n, total, 1+len(sets), time.Since(begin).Round(time.Millisecond), deepest, known, asked, strings.Join(histogram, ", "))
	if 2*known < asked {
		t.Errorf("only %d of %d keys asked for were known", known, asked)
	}
	small, several := 0, 0
	for _, i := range sets {
		if metaSets[i].small {
			small++
			if deepest[i] >= 3 {
				several++
			}
		}
	}
	if several < small/2 {
		t.Errorf("of %d option sets that should make several levels %d have made three", small, several)
	}
}
