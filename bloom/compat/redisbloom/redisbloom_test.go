package redisbloom

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"testing"

	"github.com/shaledb/shale/bloom"
	"github.com/shaledb/shale/bloom/internal/filtertest"
	"github.com/shaledb/shale/internal/testenv"
)

// A peer is a filter that RedisBloom dumped.
type peer struct {
	name    string
	options Options
	links   int
}

var peers = []peer{
	{"redisbloom-scaling-cap100-e01", Options{}, 4}, // all defaults
	{"redisbloom-nonscaling-cap1000-e001", Options{Capacity: 1000, ErrorRate: 0.001, NonScaling: true}, 1},
}

func mustNew(t testing.TB, o Options) *Filter {
	t.Helper()
	f, err := NewFilter(o)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func mustAdd(t testing.TB, f *Filter, key string) bool {
	t.Helper()
	maybe, err := f.CheckAndAdd([]byte(key))
	if err != nil {
		t.Fatal(err)
	}
	return !maybe
}

// dump returns all chunks of f, each after its iterator.
func dump(f *Filter) []byte {
	var b []byte
	for it, chunk := range f.Chunks() {
		b = append(binary.BigEndian.AppendUint64(b, uint64(it)), chunk...)
	}
	return b
}

// Filters that RedisBloom dumped give the same answers here, and have the same chunks and
// iterators when they are built again.
func TestVectors(t *testing.T) {
	for _, p := range peers {
		var l Loader
		var want []byte
		it := int64(0)
		for i := range p.links + 1 {
			chunk := filtertest.File(t, fmt.Sprintf("%s.%d.chunk", p.name, i))
			if i == 0 {
				it = 1
			} else {
				it += int64(len(chunk))
			}
			want = append(binary.BigEndian.AppendUint64(want, uint64(it)), chunk...)
			if err := l.LoadChunk(it, chunk); err != nil {
				t.Fatal(err)
			}
		}
		f, err := l.Filter()
		if err != nil {
			t.Fatal(err)
		}
		filtertest.Compare(t, p.name+".expect.tsv", 2, func(row []string) bool { return f.MayContainString(row[0]) })
		built := mustNew(t, p.options)
		for i := range 1000 {
			mustAdd(t, built, fmt.Sprintf("key-%d", i))
		}
		for what, f := range map[string]*Filter{"written again": f, "built anew": built} {
			if got := dump(f); !bytes.Equal(got, want) {
				t.Errorf("%s: %s it is another: %d bytes, want %d", p.name, what, len(got), len(want))
			}
		}
		t.Logf("%s: written again and built anew bit for bit: %+v", p.name, f.Info())
	}
}

// The same without ../shared.
func TestMurmur64A_Known(t *testing.T) {
	for key, want := range map[string]string{
		"":             "1ab11ea5a7b2c56e bbddcb5ab56dd547",
		"\xe7":         "c8322fb10cb3361d ed8893b35dea52e9",
		"\x25\x36\x47": "a12917c6e2eb88e8 255faa78f6fa79ad",
	} {
		if a, b := hash([]byte(key)); fmt.Sprintf("%016x %016x", a, b) != want {
			t.Errorf("hash of %x = %016x %016x, want %s", key, a, b, want)
		}
	}
}

// A filter of each kind is the same bytes for ever.
func TestGolden(t *testing.T) {
	for name, f := range goldens(t) {
		filtertest.Golden(t, name+".dump", dump(f))
	}
}

// Filters that RedisBloom dumped, for machines without the vectors. They are the
// same as there.
func TestGolden_OfRedisBloom(t *testing.T) {
	for _, p := range peers {
		f := mustNew(t, p.options)
		for i := range 1000 {
			mustAdd(t, f, fmt.Sprintf("key-%d", i))
		}
		i := 0
		for _, chunk := range f.Chunks() {
			filtertest.Golden(t, fmt.Sprintf("%s.%d.chunk", p.name, i), chunk)
			i++
		}
	}
}

func goldens(t testing.TB) map[string]*Filter {
	made := map[string]*Filter{
		"scaling":    mustNew(t, Options{Capacity: 4, ErrorRate: 0.1}),
		"nonscaling": mustNew(t, Options{Capacity: 12, ErrorRate: 0.01, NonScaling: true}),
	}
	for _, f := range made {
		for i := range 10 {
			mustAdd(t, f, fmt.Sprintf("key-%d", i))
		}
	}
	return made
}

func TestAdd_NonScalingIsFull(t *testing.T) {
	f := mustNew(t, Options{Capacity: 10, ErrorRate: 1e-6, NonScaling: true})
	for i := range 10 {
		if !mustAdd(t, f, strconv.Itoa(i)) {
			t.Errorf("%d was there", i)
		}
	}
	if maybe, err := f.CheckAndAdd([]byte("7")); !maybe || err != nil {
		t.Errorf("CheckAndAdd of a key that is there, when full = %v, %v", maybe, err)
	}
	before := dump(f)
	if maybe, err := f.CheckAndAdd([]byte("other")); maybe || !errors.Is(err, ErrFull) {
		t.Errorf("CheckAndAdd when full = %v, %v", maybe, err)
	}
	if !bytes.Equal(dump(f), before) || f.Count() != 10 || f.Info() != (Info{Capacity: 10, Size: 96 + 40, Filters: 1, Items: 10}) {
		t.Errorf("Add when full changed something: %+v", f.Info())
	}
}

func TestInfo_Scaling(t *testing.T) {
	f := mustNew(t, Options{})
	mustAdd(t, f, "one")
	// Redis's own documentation shows size 240 for this one.
	if f.Info() != (Info{Capacity: 100, Size: 240, Filters: 1, Items: 1, Expansion: 2}) {
		t.Errorf("Info() = %+v", f.Info())
	}
	for i := range 350 {
		mustAdd(t, f, strconv.Itoa(i))
	}
	i := f.Info()
	if i.Filters != 3 || i.Capacity != 700 || i.Items != f.Count() || i.Items < 345 {
		t.Errorf("Info() = %+v", i)
	}
	// Two links are full, for which 0.5 and 0.25 % were asked. The third is nearly empty.
	if p := f.FPR(); p < 0.0045 || p > 0.0075 {
		t.Errorf("FPR() = %v, want about 0.006", p)
	}
	four := mustNew(t, Options{Capacity: 5, Expansion: 4})
	for i := range 20 {
		mustAdd(t, four, strconv.Itoa(i))
	}
	if i := four.Info(); i.Capacity != 25 || i.Expansion != 4 {
		t.Errorf("Info() = %+v", i)
	}
}

func TestNew_Refuses(t *testing.T) {
	for _, o := range []Options{
		{ErrorRate: 1}, {ErrorRate: -0.1}, {ErrorRate: math.NaN()}, {ErrorRate: math.Inf(1)},
		{Capacity: math.MaxUint64}, {Capacity: 1<<30 + 1}, {Expansion: 32769}, {ErrorRate: math.SmallestNonzeroFloat64},
	} {
		if f, err := NewFilter(o); f != nil || !errors.Is(err, ErrParameters) {
			t.Errorf("NewFilter(%+v) = %v, %v", o, f, err)
		}
	}
	for _, f := range []func() (*Filter, error){
		func() (*Filter, error) { return New(0, 0.01) },
		func() (*Filter, error) { return New(100, 0) },
	} {
		if f, err := f(); f != nil || !errors.Is(err, ErrParameters) {
			t.Errorf("New of a zero = %v, %v", f, err)
		}
	}
	high, quarter := mustNew(t, Options{ErrorRate: 0.9}), mustNew(t, Options{ErrorRate: 0.25})
	if !bytes.Equal(dump(high), dump(quarter)) {
		t.Error("an error rate of 0.9 is not taken for 0.25")
	}
	var zero Filter
	if err := zero.AddString("a"); err == nil || !zero.MayContainString("a") || len(dump(&zero)) != 0 {
		t.Errorf("the zero filter: Add = %v", err)
	}
}

// A link grows as far as it can. Then Add fails and changes nothing.
func TestAdd_LinkTooLarge(t *testing.T) {
	f := mustNew(t, Options{Capacity: 1})
	f.links[0].entries, f.links[0].items, f.growth = 1<<40, 1<<40, 1<<20
	if err := f.AddString("a"); !errors.Is(err, ErrParameters) || len(f.links) != 1 {
		t.Errorf("Add = %v, %d links", err, len(f.links))
	}
	f.links[0].entries, f.growth = math.MaxUint64, 2
	f.links[0].items = math.MaxUint64
	if err := f.AddString("a"); !errors.Is(err, ErrParameters) {
		t.Errorf("Add = %v", err)
	}
}

// Filters of old releases have a power of two of bits, and grow by such links.
func TestAdd_PowersOfTwo(t *testing.T) {
	f := &Filter{options: force64, growth: 2}
	if err := f.addLink(100, 0.005); err != nil {
		t.Fatal(err)
	}
	f.links[0].bf = make([]byte, f.links[0].bytes)
	if l := f.links[0]; l.n2 != 11 || l.bits != 2048 || l.entries != 185 || l.modulus() != 2048 {
		t.Errorf("link %+v", l)
	}
	for i := range 500 {
		mustAdd(t, f, strconv.Itoa(i))
	}
	again, err := Load(f.Chunks())
	if err != nil || !bytes.Equal(dump(again), dump(f)) || len(f.links) != 2 {
		t.Fatalf("loaded: %v, %d links", err, len(f.links))
	}
	for i := range 500 {
		if !again.MayContainString(strconv.Itoa(i)) {
			t.Errorf("%d is denied", i)
		}
	}
}

func TestScanDump_CutsLinks(t *testing.T) {
	f := mustNew(t, Options{Capacity: 30})
	for i := range 80 {
		mustAdd(t, f, strconv.Itoa(i))
	}
	for _, most := range []uint64{1, 7, 16, 48, 1000} {
		var l Loader
		chunks := 0
		for it, chunk := f.scanDump(0, most); it != 0; it, chunk = f.scanDump(it, most) {
			if chunks++; it != 1 && uint64(len(chunk)) > most {
				t.Fatalf("a chunk of %d bytes", len(chunk))
			}
			if err := l.LoadChunk(it, chunk); err != nil {
				t.Fatal(err)
			}
		}
		again, err := l.Filter()
		if err != nil || !bytes.Equal(dump(again), dump(f)) {
			t.Errorf("%d chunks of %d: %v", chunks, most, err)
		}
	}
	for _, it := range []int64{-1, math.MinInt64, math.MaxInt64, 1 << 20} {
		if next, chunk := f.ScanDump(it); next != 0 || chunk != nil {
			t.Errorf("ScanDump(%d) = %d, %d bytes", it, next, len(chunk))
		}
	}
}

// The errors of all links add up to at most the one that was asked for.
func TestFPR_Scaling(t *testing.T) {
	n, asked := 20_000, 100_000
	if testenv.Long(t) > 0 {
		n, asked = 2_000_000, 10_000_000
	}
	f := mustNew(t, Options{Capacity: 1000, ErrorRate: 0.01})
	for i := range n {
		mustAdd(t, f, "user"+strconv.Itoa(i))
	}
	passed := 0
	for i := range asked {
		if f.MayContainString("other" + strconv.Itoa(i)) {
			passed++
		}
	}
	p := float64(passed) / float64(asked)
	t.Logf("%d keys, %d links, %d asked, %d passed: %.4f %%, %.4f %% by its bits", n, len(f.links), asked, passed, 100*p, 100*f.FPR())
	// Double hashing in the small links, and chance, add something.
	if most := f.FPR()*1.1 + 4*math.Sqrt(0.01/float64(asked)); p > most || p < 0.005 || f.FPR() > 0.01 {
		t.Errorf("%.4f %% passed, at most %.4f %% are expected", 100*p, 100*most)
	}
}

func TestDamage(t *testing.T) {
	f := mustNew(t, Options{Capacity: 4, ErrorRate: 0.1})
	for i := range 10 {
		mustAdd(t, f, fmt.Sprintf("key-%d", i))
	}
	_, good := f.ScanDump(0)
	change := func(at int, v ...byte) []byte {
		b := bytes.Clone(good)
		copy(b[at:], v)
		return b
	}
	nan := binary.LittleEndian.AppendUint64(nil, math.Float64bits(math.NaN()))
	for _, c := range []struct {
		what string
		b    []byte
		is   error
		says string
	}{
		{"nothing", nil, bloom.ErrDamaged, "header of 0 bytes"},
		{"cut", good[:len(good)-1], bloom.ErrDamaged, "2 links in 105 bytes"},
		{"no links", change(8, 0)[:20], bloom.ErrDamaged, "0 links"},
		{"many links", change(8, 0xff, 0xff, 0xff, 0xff), bloom.ErrDamaged, "4294967295 links"},
		{"items", change(0, 99), bloom.ErrDamaged, "99 items, the links have"},
		{"an option to come", change(12, 21), bloom.ErrUnknown, "options 21"},
		{"32-bit hashes", change(12, 1), bloom.ErrUnknown, "options 1"},
		{"bytes", change(20, 0), bloom.ErrDamaged, "link 0: 64 bits in 0 bytes"},
		{"bits", change(28, 63), bloom.ErrDamaged, "link 0: 63 bits in 8 bytes"},
		{"many bytes", change(20+53+7, 0x80), bloom.ErrDamaged, "link 1: 64 bits in 9223372036854775816 bytes"},
		{"error", change(20+24, nan...), bloom.ErrDamaged, "error rate NaN"},
		{"bpe", change(20+32, nan...), bloom.ErrDamaged, "NaN bits an entry"},
		{"hashes", change(20+40, 0), bloom.ErrDamaged, "0 hashes"},
		{"n2", change(20+52, 7), bloom.ErrDamaged, "n2 7 of 64 bits"},
		{"large n2", change(20+52, 255), bloom.ErrDamaged, "n2 255"},
		{"items of a link", change(20+16, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff), bloom.ErrDamaged, "link 1: "},
	} {
		var l Loader
		if err := l.LoadChunk(1, c.b); !errors.Is(err, c.is) || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v", c.what, err)
		}
		if f, err := l.Filter(); f != nil || err == nil {
			t.Errorf("%s: a filter", c.what)
		}
	}
}

func TestLoader_Order(t *testing.T) {
	f := mustNew(t, Options{Capacity: 4, ErrorRate: 0.1})
	for i := range 10 {
		mustAdd(t, f, fmt.Sprintf("key-%d", i))
	}
	_, header := f.ScanDump(0)
	type step struct {
		it    int64
		chunk []byte
	}
	for _, c := range []struct {
		what  string
		steps []step
		says  string // of the last
	}{
		{"bits first", []step{{9, make([]byte, 8)}}, "the header comes first"},
		{"a gap", []step{{1, header}, {10, make([]byte, 8)}}, "iterator 10 with 8 bytes after iterator 1"},
		{"twice", []step{{1, header}, {9, make([]byte, 8)}, {9, make([]byte, 8)}}, "after iterator 9"},
		{"two links", []step{{1, header}, {25, make([]byte, 24)}}, "24 bytes for link 0, which lacks 8"},
		{"empty", []step{{1, header}, {1, nil}}, "0 bytes"},
		{"after the end", []step{{1, header}, {9, make([]byte, 8)}, {17, make([]byte, 8)}, {18, make([]byte, 1)}}, "after the end"},
	} {
		var l Loader
		for i, s := range c.steps {
			err := l.LoadChunk(s.it, s.chunk)
			if last := i == len(c.steps)-1; last != (err != nil) || last && (!errors.Is(err, bloom.ErrDamaged) || !strings.Contains(err.Error(), c.says)) {
				t.Errorf("%s, step %d: %v", c.what, i, err)
			}
		}
	}
	if _, err := Load(func(yield func(int64, []byte) bool) { yield(1, header) }); !errors.Is(err, bloom.ErrDamaged) {
		t.Errorf("a header alone: %v", err)
	}
}

// The serialized form is the chunks. Cut and lengthened bytes are an error.
func TestBinary_Chunks(t *testing.T) {
	f := mustNew(t, Options{Capacity: 10})
	for i := range 100 {
		if err := f.AddString(fmt.Sprint(i)); err != nil {
			t.Fatal(err)
		}
	}
	var want []byte
	for _, chunk := range f.Chunks() {
		want = append(want, chunk...)
	}
	b, err := f.AppendBinary([]byte("front"))
	if err != nil || !bytes.Equal(b, append([]byte("front"), want...)) {
		t.Errorf("AppendBinary gives %d bytes, %v, the chunks have %d", len(b), err, len(want))
	}
	var again Filter
	if err := again.UnmarshalBinary(want); err != nil || !bytes.Equal(dump(&again), dump(f)) {
		t.Fatalf("UnmarshalBinary: %v", err)
	}
	clear(want[len(want)-100:])
	if !bytes.Equal(dump(&again), dump(f)) {
		t.Error("UnmarshalBinary keeps its argument")
	}
	for n := range want {
		if err := again.UnmarshalBinary(want[:n]); !errors.Is(err, bloom.ErrDamaged) {
			t.Fatalf("%d of %d bytes: %v", n, len(want), err)
		}
	}
	if err := again.UnmarshalBinary(append(want, 0)); !errors.Is(err, bloom.ErrDamaged) || !bytes.Equal(dump(&again), dump(f)) {
		t.Errorf("a byte too many: %v", err)
	}
}
