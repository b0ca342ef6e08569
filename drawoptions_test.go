package shale

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/shaledb/shale/vfs"
)

// An optionDraw says how the harness draws one field of Options or of
// testOptions.
type optionDraw struct {
	field string
	draw  func(c *rand.Rand, o *Options)
}

// drawn returns the draw of a field: one of values.
func drawn[T any](field string, at func(o *Options) *T, values ...T) optionDraw {
	return optionDraw{field, func(c *rand.Rand, o *Options) { *at(o) = values[c.IntN(len(values))] }}
}

// drawnPrefixes are rules by which the keys of the tests share prefixes, are
// prefixes, or have none.
var drawnPrefixes = append([]PrefixRule{{}, {}, FixedPrefix(3), DelimitedPrefix('-', 1), DelimitedPrefix('/', 1)}, FixedPrefix(1), FixedPrefix(5), DelimitedPrefix(0, 1))

// optionDraws are the fields that drawOptions draws. A value that a test means
// to see often stands several times.
var optionDraws = []optionDraw{
	drawn("Durability", func(o *Options) *Durability { return &o.Durability }, SyncEach, SyncPeriodic, SyncManual),
	drawn("SyncEvery", func(o *Options) *time.Duration { return &o.SyncEvery }, 0, time.Millisecond, time.Hour),
	drawn("MemtableSize", func(o *Options) *int64 { return &o.MemtableSize }, 4<<10, 4<<10, 4<<10, 8<<10, 16<<10),
	drawn("CacheSize", func(o *Options) *int64 { return &o.CacheSize }, 32<<10, -1, 1, 4<<10, 1<<20),
	drawn("FilterBits", func(o *Options) *float64 { return &o.FilterBits }, 0, -1, 1, 2, 4, 10, 20, 64),
	drawn("FilterMemory", func(o *Options) *int64 { return &o.FilterMemory }, 0, 0, 1, 512, 2<<10, 20<<10, 1<<40),
	drawn("LastLevelFilter", func(o *Options) *FilterKind { return &o.LastLevelFilter }, BlockedFilter, FuseFilter),
	drawn("FilterHash", func(o *Options) *FilterHash { return &o.FilterHash }, Murmur3, XXH3, SipHash),
	drawn("FilterPrefix", func(o *Options) *PrefixRule { return &o.FilterPrefix }, drawnPrefixes...),
	drawn("MaxOpenFiles", func(o *Options) *int { return &o.MaxOpenFiles }, 0, 16, 24),
	drawn("CompactionWorkers", func(o *Options) *int { return &o.CompactionWorkers }, 1, 1, 2, 4, -1),
	drawn("BlockSize", func(o *Options) *int { return &o.BlockSize }, 512, 512, 256, 4<<10, 64<<10),
	drawn("TableSize", func(o *Options) *int64 { return &o.TableSize }, 4<<10, 4<<10, 8<<10, 64<<10),
	drawn("Compression", func(o *Options) *Compression { return &o.Compression }, Snappy, NoCompression, Zstd),
	drawn("testing.minPrepared", func(o *Options) *int64 { return &o.testing.minPrepared }, 1, 1, 0),
	drawn("testing.noMap", func(o *Options) *bool { return &o.testing.noMap }, false, true),
	drawn("testing.seed", func(o *Options) *uint64 { return &o.testing.seed }, 77, 78, 79),
	drawn("testing.baseSize", func(o *Options) *int64 { return &o.testing.baseSize }, 8<<10, 2<<10, 4<<10, 32<<10),
	drawn("testing.runs", func(o *Options) *int { return &o.testing.runs }, 0, 1, 2, 3, 4, 8),
}

// optionsFixed are the fields that drawOptions leaves alone, and why.
var optionsFixed = map[string]string{
	"ReadOnly":      "the tests write; the model, the damages and the kills open read-only at times of their own",
	"ErrorIfExists": "it says what Open expects, which is the script's to know",
	"MustExist":     "likewise",
	"LockTimeout":   "the tests have a store open once; TestOwner_ waits for locks",
	"FS":            "each test has its disk",
	"Logger":        "it hears what OnEvent hears",
	"OnEvent":       "the ear of the test, which judges what it hears",
	"testing":       "its own fields are drawn",
	"testing.now":   "time has no part in what the tests compare",
}

// drawOptions draws the options of a store on fs that is small enough for some
// hundred commits to make levels, to use logs again and to merge tables. None
// of what is drawn may change an answer, and each may differ from one Open to
// the next.
func drawOptions(c *rand.Rand, fs vfs.FS) Options {
	o := Options{FS: fs, OnEvent: func(Event) {}}
	for _, d := range optionDraws {
		d.draw(c, &o)
	}
	return o
}

// drawSeeded draws the options that the numbers stand for.
func drawSeeded(fs vfs.FS, seed, n uint64) Options {
	return drawOptions(rand.New(rand.NewPCG(seed, n^0x6f7074696f6e73)), fs)
}

// optionsText says in a line what o has in the fields that are drawn, for messages.
func optionsText(o *Options) string {
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

// Every field of the options is drawn by the harness, or it is listed why not.
func TestDrawOptions_EveryField(t *testing.T) {
	seen := make(map[string]map[string]bool) // field, values
	c := rand.New(rand.NewPCG(1, 2))
	var fields []string
	var walk func(prefix string, of reflect.Value)
	walk = func(prefix string, of reflect.Value) {
		for i := range of.NumField() {
			name := prefix + of.Type().Field(i).Name
			fields = append(fields, name)
			if seen[name] == nil {
				seen[name] = make(map[string]bool)
			}
			if at := of.Field(i); at.Kind() != reflect.Func && at.Kind() != reflect.Interface {
				seen[name][fmt.Sprint(at)] = true
			}
			if name == "testing" {
				walk("testing.", of.Field(i))
			}
		}
	}
	for range 400 {
		o := drawOptions(c, nil)
		if _, err := o.withDefaults(); err != nil {
			t.Fatalf("%v; %s", err, optionsText(&o))
		}
		fields = fields[:0]
		walk("", reflect.ValueOf(o))
	}
	var isDrawn []string
	for _, d := range optionDraws {
		isDrawn = append(isDrawn, d.field)
		if !slices.Contains(fields, d.field) {
			t.Errorf("%s is drawn, but no field of Options", d.field)
		}
	}
	for name := range optionsFixed {
		if !slices.Contains(fields, name) {
			t.Errorf("%s is listed as fixed, but no field of Options", name)
		}
	}
	for _, name := range fields {
		switch _, fixed := optionsFixed[name]; {
		case slices.Contains(isDrawn, name) == fixed:
			t.Errorf("Options.%s is drawn: %v, and listed as fixed: %v; want one of both: add it to optionDraws, or to optionsFixed with the reason", name, !fixed, fixed)
		case !fixed && len(seen[name]) < 2:
			t.Errorf("Options.%s is drawn, but is always %v", name, seen[name])
		}
	}
}
