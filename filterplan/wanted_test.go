package filterplan

import (
	"math/rand/v2"
	"testing"

	"github.com/shaledb/shale/bloom"
	"github.com/shaledb/shale/internal/base"
)

// buildFilter returns a filter of random keys.
func buildFilter(t *testing.T, keys int, o bloom.StaticOptions) *bloom.Static {
	t.Helper()
	r := rand.New(rand.NewPCG(1, 2))
	hashes := make([]uint64, keys)
	for i := range hashes {
		hashes[i] = r.Uint64()
	}
	b, err := bloom.AppendStatic(nil, hashes, o)
	if err != nil {
		t.Fatal(err)
	}
	f, err := bloom.OpenStatic(b)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func TestWantedFilter_SatisfiedBy(t *testing.T) {
	xx, err := bloom.NewHasher(bloom.HashXXH3, 0)
	if err != nil {
		t.Fatal(err)
	}
	const n = 20_000
	blocked := func(bits float64) *bloom.Static { return buildFilter(t, n, bloom.StaticOptions{BitsPerKey: bits}) }
	ten, twenty := blocked(10), blocked(20)
	firstUnit := twenty.FirstUnit()
	fuse := buildFilter(t, n, bloom.StaticOptions{Kind: bloom.KindFuse, BitsPerKey: 14})
	few := buildFilter(t, 4, bloom.StaticOptions{BitsPerKey: 10})
	rule := base.PrefixRule{Length: 3}
	for _, c := range []struct {
		name     string
		wanted   bloom.StaticOptions
		rule     base.PrefixRule
		short    bool
		stored   *bloom.Static
		resident *bloom.Static
		want     bool
	}{
		{"as wanted", bloom.StaticOptions{BitsPerKey: 10}, base.PrefixRule{}, false, ten, ten, true},
		{"none is wanted", bloom.StaticOptions{}, base.PrefixRule{}, true, twenty, nil, true},
		{"there is none", bloom.StaticOptions{BitsPerKey: 10}, base.PrefixRule{}, false, nil, nil, false},
		{"a little fewer bits", bloom.StaticOptions{BitsPerKey: 10.5}, base.PrefixRule{}, false, ten, ten, true},
		{"too few bits", bloom.StaticOptions{BitsPerKey: 12.5}, base.PrefixRule{}, false, ten, ten, false},
		{"more bits", bloom.StaticOptions{BitsPerKey: 10}, base.PrefixRule{}, false, twenty, twenty, true},
		{"more bits, but memory is short", bloom.StaticOptions{BitsPerKey: 10}, base.PrefixRule{}, true, twenty, twenty, false},
		{"more bits, which do not fit into memory", bloom.StaticOptions{BitsPerKey: 10}, base.PrefixRule{}, false, twenty, nil, false},
		{"more bits, of which enough are in memory", bloom.StaticOptions{BitsPerKey: 10}, base.PrefixRule{}, false, twenty, firstUnit, true},
		{"a little more bits, and memory is short", bloom.StaticOptions{BitsPerKey: 9.5}, base.PrefixRule{}, true, ten, ten, true},
		{"as wanted, but not in memory", bloom.StaticOptions{BitsPerKey: 20}, base.PrefixRule{}, false, twenty, firstUnit, true},
		{"another hash function", bloom.StaticOptions{BitsPerKey: 10, Hasher: xx}, base.PrefixRule{}, false, ten, ten, false},
		{"another kind", bloom.StaticOptions{Kind: bloom.KindFuse, BitsPerKey: 10}, base.PrefixRule{}, false, ten, ten, false},
		{"a fuse filter where none is wanted", bloom.StaticOptions{BitsPerKey: 10}, base.PrefixRule{}, false, fuse, fuse, false},
		{"a fuse filter", bloom.StaticOptions{Kind: bloom.KindFuse, BitsPerKey: 14}, base.PrefixRule{}, false, fuse, fuse, true},
		{"too few keys for a fuse filter", bloom.StaticOptions{Kind: bloom.KindFuse, BitsPerKey: 10}, base.PrefixRule{}, false, few, few, true},
		{"another rule of prefixes", bloom.StaticOptions{BitsPerKey: 10}, rule, false, ten, ten, false},
	} {
		w := WantedFilter{StaticOptions: c.wanted, PrefixRule: c.rule, memoryShort: c.short}
		if got := w.SatisfiedBy(StoredFilter{Filter: c.stored}, c.resident); got != c.want {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}
}

func TestStoredFilter_SameAs(t *testing.T) {
	build := func(bits float64) StoredFilter {
		return StoredFilter{Filter: buildFilter(t, 1000, bloom.StaticOptions{BitsPerKey: bits})}
	}
	ten, ruled := build(10), build(10)
	ruled.PrefixRule.Length = 3
	for _, c := range []struct {
		name  string
		other StoredFilter
		want  bool
	}{
		{"equal", build(10), true},
		{"larger", build(12), false},
		{"with prefixes", ruled, false},
		{"none", StoredFilter{}, false},
	} {
		if got := ten.SameAs(c.other); got != c.want || c.other.SameAs(ten) != got {
			t.Errorf("%s: %v, want %v, either way", c.name, got, c.want)
		}
	}
	if none := (StoredFilter{}); none.SameAs(none) {
		t.Error("no filter is the same as no filter")
	}
}

// The wanted filters fit into the memory together with what they take besides their
// bits.
func TestPolicy_WantedFilters_Memory(t *testing.T) {
	tree := treeOf(nil, 0, 0, 1_000_000)
	const memory = 1_250_000 // 10 bits a key
	policy := Policy{AverageBits: 12, Memory: memory}
	for _, c := range []struct {
		tables int
		stored int64
		bits   float64
		short  bool
	}{
		{0, memory, 10, false},
		{100, memory + 1, 10 - 8*100*filterOverhead/1e6, true},
		{1_000_000, memory, 5, false}, // at least half of it goes to the bits
	} {
		got := policy.WantedFilters(tree, ProbeShares{}, c.tables, c.stored).Of(6, 0)
		if got.BitsPerKey > c.bits+1e-9 || got.BitsPerKey < c.bits-0.2 || got.memoryShort != c.short {
			t.Errorf("%d tables: %.2f bits, memory is short: %v; want %.2f and %v", c.tables, got.BitsPerKey, got.memoryShort, c.bits, c.short)
		}
	}
	policy.Memory = 0
	if got := policy.WantedFilters(tree, ProbeShares{}, 100, 1<<40).Of(6, 0); got.memoryShort || got.BitsPerKey < 11.8 {
		t.Errorf("without a limit of memory: %+v", got)
	}
}

func TestPolicy_WantedFilters_Of(t *testing.T) {
	xx, err := bloom.NewHasher(bloom.HashXXH3, 0)
	if err != nil {
		t.Fatal(err)
	}
	policy := Policy{AverageBits: 10, LastLevelFuse: true, Hasher: xx, PrefixRule: base.PrefixRule{Length: 3}}
	wanted := policy.WantedFilters(treeOf([]Run{{9, 1000}}, 0, 10_000, 100_000), ProbeShares{}, 3, 0)
	for level, kind := range map[int]bloom.Kind{5: bloom.KindBlocked, 6: bloom.KindFuse} {
		if w := wanted.Of(level, 0); w.Kind != kind || w.BitsPerKey < 8 || w.Hasher != xx || w.PrefixRule != policy.PrefixRule {
			t.Errorf("level %d should have %+v", level, w)
		}
	}
	if w := wanted.Of(0, 9); w.BitsPerKey != FlushBits {
		t.Errorf("level 0 should have %v bits, want %v", w.BitsPerKey, FlushBits)
	}
	if w := wanted.Of(5, 1); w.BitsPerKey != 0 {
		t.Errorf("a run that is not there should have %v bits, want 0", w.BitsPerKey)
	}
}
