package harness

import (
	"fmt"
	"log/slog"
	"math/rand/v2"
	"reflect"
	"runtime"
	"strings"
	"time"

	"github.com/shaledb/shale"
	"github.com/shaledb/shale/vfs"
)

// An optionDraw says how one field of shale.Options, or one of the knobs of tests, is drawn: for
// stores of some hundred commits, and for large ones.
type optionDraw struct {
	field       string
	draw, large func(r *rand.Rand, o *shale.Options)
}

// drawn returns the draw of a field, in stores of any size: one of values.
func drawn[T any](field string, at func(o *shale.Options) *T, values ...T) optionDraw {
	return scaled(field, at, values, values)
}

// scaled returns the draw of a field that has other values in large stores.
func scaled[T any](field string, at func(o *shale.Options) *T, small, large []T) optionDraw {
	oneOf := func(values []T) func(r *rand.Rand, o *shale.Options) {
		return func(r *rand.Rand, o *shale.Options) { *at(o) = values[r.IntN(len(values))] }
	}
	return optionDraw{field, oneOf(small), oneOf(large)}
}

// drawnPrefixes are rules by which the keys of tests share prefixes, are prefixes, or have none.
var drawnPrefixes = append([]shale.PrefixRule{{}, {}, shale.FixedPrefix(3), shale.DelimitedPrefix('-', 1), shale.DelimitedPrefix('/', 1)}, prefixRules...)

// optionDraws are the fields that Draw draws. A value that tests are to meet often stands several
// times. A new field of shale.Options gets a row here, or one in optionsFixed with the reason.
var optionDraws = []optionDraw{
	scaled("Durability", func(o *shale.Options) *shale.Durability { return &o.Durability },
		[]shale.Durability{shale.SyncEach, shale.SyncPeriodic, shale.SyncManual},
		[]shale.Durability{shale.SyncEach, shale.SyncPeriodic, shale.SyncManual, shale.SyncManual}),
	scaled("KeepLog", func(o *shale.Options) *int64 { return &o.KeepLog },
		[]int64{0, 0, 1, 5 << 10, 20 << 10, 100 << 10, keepsAll, keepsAll}, []int64{0, 0, 1 << 20, keepsAll}),
	drawn("Shipping.Gate", func(o *shale.Options) *func(shale.LogPosition) error { return &o.Shipping.Gate }, nil, nil, nil, gate),
	drawn("Shipping.Clock", func(o *shale.Options) *func() time.Time { return &o.Shipping.Clock }, nil, nil, nil, time.Now), // a life takes its own
	drawn("Shipping.HoldLogs", func(o *shale.Options) *uint64 { return &o.Shipping.HoldLogs }, 0, 0, 0, 0, 0, 0, 12, 1<<36),
	drawn("Shipping.FirstFileNum", func(o *shale.Options) *uint64 { return &o.Shipping.FirstFileNum }, 0, 0, 0, 0, 12, 1<<36, 3<<36),
	drawn("Shipping.FiltersInFiles", func(o *shale.Options) *bool { return &o.Shipping.FiltersInFiles }, false, false, true),
	scaled("SyncEvery", func(o *shale.Options) *time.Duration { return &o.SyncEvery },
		[]time.Duration{0, time.Millisecond, time.Hour}, []time.Duration{0, time.Millisecond, 30 * time.Millisecond, time.Second}),
	scaled("MemtableSize", func(o *shale.Options) *int64 { return &o.MemtableSize },
		[]int64{4 << 10, 4 << 10, 4 << 10, 8 << 10, 16 << 10}, doubled[int64](16<<10, 4<<20)),
	scaled("CacheSize", func(o *shale.Options) *int64 { return &o.CacheSize },
		[]int64{32 << 10, -1, 1, 4 << 10, 1 << 20}, []int64{-1, 1, 64 << 10, 1 << 20, 8 << 20}),
	drawn("FilterBits", func(o *shale.Options) *float64 { return &o.FilterBits }, 0, -1, 1, 2, 4, 10, 20, 64),
	scaled("FilterMemory", func(o *shale.Options) *int64 { return &o.FilterMemory },
		[]int64{0, 0, 1, 512, 2 << 10, 20 << 10, 1 << 40}, []int64{0, 0, 0, 0, 0, 0, 4 << 10, 32 << 10, 1 << 40}),
	scaled("Tuning.IndexMemory", func(o *shale.Options) *int64 { return &o.Tuning.IndexMemory },
		[]int64{0, 0, 1, 300, 2 << 10, 1 << 40}, []int64{0, 0, 0, 1, 4 << 10, 64 << 10, 1 << 40}),
	drawn("Tuning.LastLevelFilter", func(o *shale.Options) *shale.FilterKind { return &o.Tuning.LastLevelFilter }, shale.BlockedFilter, shale.FuseFilter),
	drawn("Tuning.FilterHash", func(o *shale.Options) *shale.FilterHash { return &o.Tuning.FilterHash }, shale.Murmur3, shale.XXH3, shale.SipHash),
	drawn("Tuning.FilterPrefix", func(o *shale.Options) *shale.PrefixRule { return &o.Tuning.FilterPrefix }, drawnPrefixes...),
	scaled("Tuning.MaxOpenFiles", func(o *shale.Options) *int { return &o.Tuning.MaxOpenFiles }, []int{0, 16, 24}, []int{0, 16, 100, 1000}),
	scaled("CompactionWorkers", func(o *shale.Options) *int { return &o.CompactionWorkers },
		[]int{1, 1, 2, 4, -1}, []int{1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, -1}),
	scaled("BlockSize", func(o *shale.Options) *int { return &o.BlockSize }, []int{512, 512, 256, 4 << 10, 64 << 10}, doubled(256, 64<<10)),
	scaled("TableSize", func(o *shale.Options) *int64 { return &o.TableSize },
		[]int64{4 << 10, 4 << 10, 8 << 10, 64 << 10}, doubled[int64](16<<10, 2<<20)),
	drawn("Compression", func(o *shale.Options) *shale.Compression { return &o.Compression }, shale.Snappy, shale.NoCompression, shale.Zstd),
	drawn("Logger", func(o *shale.Options) **slog.Logger { return &o.Logger }, nil, slog.New(slog.DiscardHandler)),
	{"OnEvent", drawListener, drawListener},
	drawn("testing.minPrepared", func(o *shale.Options) *int64 { return KnobsOf(o).MinPrepared }, 1, 1, 0),
	drawn("testing.noMap", func(o *shale.Options) *bool { return KnobsOf(o).NoMap }, false, true),
	scaled("testing.seed", func(o *shale.Options) *uint64 { return KnobsOf(o).Seed }, []uint64{77, 78, 79}, []uint64{0, 77}),
	scaled("testing.baseSize", func(o *shale.Options) *int64 { return KnobsOf(o).BaseSize },
		[]int64{8 << 10, 2 << 10, 4 << 10, 32 << 10}, []int64{0, 0, 64 << 10, 1 << 20}),
	scaled("testing.level0", func(o *shale.Options) *int { return KnobsOf(o).Level0 }, []int{4, 1, 2, 12}, []int{0, 0, 4}),
	scaled("testing.runs", func(o *shale.Options) *int { return KnobsOf(o).Runs },
		[]int{0, 1, 2, 3, 4, 8}, []int{0, 0, 1, 2}), // two runs at most: the soak checks that no level has more
	drawn("testing.tailChunk", func(o *shale.Options) *int { return KnobsOf(o).TailChunk }, 0, 1, 500),
}

// gate is a CommitGate that lets pass what is possible.
func gate(p shale.LogPosition) error {
	if p.Log == 0 || p.Synced > p.Written || p.LastSeq == 0 {
		return fmt.Errorf("impossible position: %+v", p)
	}
	return nil
}

// drawListener draws an OnEvent, which may fail. Only with a Logger may there be none, or one that
// fails: else the store would write to the log of the test.
func drawListener(r *rand.Rand, o *shale.Options) {
	listeners := []func(shale.Event){quiet}
	if o.Logger != nil {
		listeners = append(listeners, nil, panics, exits)
	}
	o.OnEvent = listeners[r.IntN(len(listeners))]
}

func quiet(shale.Event)  {}
func panics(shale.Event) { panic("a listener that panics") }
func exits(shale.Event)  { runtime.Goexit() }

// doubled returns the numbers from lo to hi, each twice the one before it.
func doubled[T int | int64](lo, hi T) (values []T) {
	for ; lo <= hi; lo *= 2 {
		values = append(values, lo)
	}
	return values
}

// optionsFixed are the fields that Draw leaves alone, and why.
var optionsFixed = map[string]string{
	"ReadOnly":        "the tests write; they open read-only at times of their own",
	"Exist":           "it says what Open expects, which the test knows",
	"LockTimeout":     "the tests have a store open once, but for the soak, which sets it; TestOwner_ waits for locks",
	"FS":              "each test has its disk",
	"Shipping":        "its own fields are drawn",
	"Tuning":          "likewise",
	"testing":         "likewise",
	"testing.now":     "a life sets it, and has it jump",
	"testing.session": "ids that are not random are for tests that compare bytes",
}

// Draw draws the options of a store on fs that is small enough for some hundred commits to make
// levels, to use logs again and to merge tables. None of them may change an answer, and each may
// differ from one Open to the next.
func Draw(r *rand.Rand, fs vfs.FS) shale.Options {
	o := shale.Options{FS: fs}
	for _, d := range optionDraws {
		d.draw(r, &o)
	}
	return o
}

// DrawScaled draws the options of a store with hundreds of thousands of entries.
func DrawScaled(r *rand.Rand, fs vfs.FS) shale.Options {
	o := shale.Options{FS: fs}
	for _, d := range optionDraws {
		d.large(r, &o)
	}
	if o.CompactionWorkers < 0 {
		o.MemtableSize = 4 << 20 // nothing keeps the runs few
	}
	return o
}

// DrawSeeded draws the options that the numbers stand for.
func DrawSeeded(fs vfs.FS, seed, n uint64) shale.Options {
	return Draw(rand.New(rand.NewPCG(seed, n^0x6f7074696f6e73)), fs)
}

// DrawOnDisk draws the options that the numbers stand for, of a store in files of the system. It is
// larger than others, so that a process commits more in the time that it has, and compactions keep
// its runs few.
func DrawOnDisk(seed, n uint64) shale.Options {
	o := DrawSeeded(nil, seed, n)
	o.MemtableSize *= 4 << (n % 4 / 2 * 2)
	o.TableSize *= 4
	o.CompactionWorkers = max(o.CompactionWorkers, 1)
	return o
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
