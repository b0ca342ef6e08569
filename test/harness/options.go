package harness

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"strings"
	"time"

	"github.com/shaledb/shale"
	"github.com/shaledb/shale/vfs"
)

// An optionDraw says how one field of shale.Options, or one of the knobs of tests, is drawn.
type optionDraw struct {
	field string
	draw  func(r *rand.Rand, o *shale.Options)
}

// drawn returns the draw of a field: one of values.
func drawn[T any](field string, at func(o *shale.Options) *T, values ...T) optionDraw {
	return optionDraw{field, func(r *rand.Rand, o *shale.Options) { *at(o) = values[r.IntN(len(values))] }}
}

// drawnPrefixes are rules by which the keys of tests share prefixes, are prefixes, or have none.
var drawnPrefixes = append([]shale.PrefixRule{{}, {}, shale.FixedPrefix(3), shale.DelimitedPrefix('-', 1), shale.DelimitedPrefix('/', 1)}, prefixRules...)

// optionDraws are the fields that Draw draws. A value that tests are to meet often stands several
// times. A new field of shale.Options gets a row here, or one in optionsFixed with the reason.
var optionDraws = []optionDraw{
	drawn("Durability", func(o *shale.Options) *shale.Durability { return &o.Durability }, shale.SyncEach, shale.SyncPeriodic, shale.SyncManual),
	drawn("SyncEvery", func(o *shale.Options) *time.Duration { return &o.SyncEvery }, 0, time.Millisecond, time.Hour),
	drawn("MemtableSize", func(o *shale.Options) *int64 { return &o.MemtableSize }, 4<<10, 4<<10, 4<<10, 8<<10, 16<<10),
	drawn("CacheSize", func(o *shale.Options) *int64 { return &o.CacheSize }, 32<<10, -1, 1, 4<<10, 1<<20),
	drawn("FilterBits", func(o *shale.Options) *float64 { return &o.FilterBits }, 0, -1, 1, 2, 4, 10, 20, 64),
	drawn("FilterMemory", func(o *shale.Options) *int64 { return &o.FilterMemory }, 0, 0, 1, 512, 2<<10, 20<<10, 1<<40),
	drawn("LastLevelFilter", func(o *shale.Options) *shale.FilterKind { return &o.LastLevelFilter }, shale.BlockedFilter, shale.FuseFilter),
	drawn("FilterHash", func(o *shale.Options) *shale.FilterHash { return &o.FilterHash }, shale.Murmur3, shale.XXH3, shale.SipHash),
	drawn("FilterPrefix", func(o *shale.Options) *shale.PrefixRule { return &o.FilterPrefix }, drawnPrefixes...),
	drawn("MaxOpenFiles", func(o *shale.Options) *int { return &o.MaxOpenFiles }, 0, 16, 24),
	drawn("CompactionWorkers", func(o *shale.Options) *int { return &o.CompactionWorkers }, 1, 1, 2, 4, -1),
	drawn("BlockSize", func(o *shale.Options) *int { return &o.BlockSize }, 512, 512, 256, 4<<10, 64<<10),
	drawn("TableSize", func(o *shale.Options) *int64 { return &o.TableSize }, 4<<10, 4<<10, 8<<10, 64<<10),
	drawn("Compression", func(o *shale.Options) *shale.Compression { return &o.Compression }, shale.Snappy, shale.NoCompression, shale.Zstd),
	drawn("testing.minPrepared", func(o *shale.Options) *int64 { return KnobsOf(o).MinPrepared }, 1, 1, 0),
	drawn("testing.noMap", func(o *shale.Options) *bool { return KnobsOf(o).NoMap }, false, true),
	drawn("testing.seed", func(o *shale.Options) *uint64 { return KnobsOf(o).Seed }, 77, 78, 79),
	drawn("testing.baseSize", func(o *shale.Options) *int64 { return KnobsOf(o).BaseSize }, 8<<10, 2<<10, 4<<10, 32<<10),
	drawn("testing.runs", func(o *shale.Options) *int { return KnobsOf(o).Runs }, 0, 1, 2, 3, 4, 8),
}

// optionsFixed are the fields that Draw leaves alone, and why.
var optionsFixed = map[string]string{
	"ReadOnly":      "the tests write; they open read-only at times of their own",
	"ErrorIfExists": "it says what Open expects, which the test knows",
	"MustExist":     "likewise",
	"LockTimeout":   "the tests have a store open once; TestOwner_ waits for locks",
	"FS":            "each test has its disk",
	"Logger":        "it gets what OnEvent gets",
	"OnEvent":       "the test listens by it",
	"testing":       "its own fields are drawn",
	"testing.now":   "time has no part in what the tests compare",
}

// Draw draws the options of a store on fs that is small enough for some hundred commits to make
// levels, to use logs again and to merge tables. None of them may change an answer, and each may
// differ from one Open to the next.
func Draw(r *rand.Rand, fs vfs.FS) shale.Options {
	o := shale.Options{FS: fs, OnEvent: func(shale.Event) {}}
	for _, d := range optionDraws {
		d.draw(r, &o)
	}
	return o
}

// DrawSeeded draws the options that the numbers stand for.
func DrawSeeded(fs vfs.FS, seed, n uint64) shale.Options {
	return Draw(rand.New(rand.NewPCG(seed, n^0x6f7074696f6e73)), fs)
}

// DrawLarge draws options under which most of a program fits into the memtable.
func DrawLarge(r *rand.Rand, fs vfs.FS) shale.Options {
	o := Draw(r, fs)
	o.MemtableSize = []int64{64 << 10, 1 << 20, 4 << 20}[r.IntN(3)]
	o.TableSize = []int64{32 << 10, 1 << 20}[r.IntN(2)]
	return o
}

// OptionsText says in a line what o has in the fields that are drawn, for messages.
func OptionsText(o *shale.Options) string {
	var b strings.Builder
	for _, d := range optionDraws {
		at := reflect.ValueOf(*o)
		for name := range strings.SplitSeq(d.field, ".") {
			at = at.FieldByName(name)
		}
		if !at.IsZero() {
			fmt.Fprintf(&b, " %s=%v", d.field, at)
		}
	}
	return "options:" + b.String()
}
