package guava

import (
	"bytes"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/shaledb/shale/bloom"
	"github.com/shaledb/shale/bloom/internal/filtertest"
	"github.com/shaledb/shale/internal/fuzzing"
)

// A peer is a filter that Guava wrote.
type peer struct {
	name     string
	options  Options
	inserted int
	put      func(input string, s *Sink) // as the funnel of its keys does
}

var peers = []peer{
	{"mitz64-utf8-1000-p01", Options{Keys: 1000, FPR: 0.01}, 1000, inUTF8},
	{"mitz32-utf8-1000-p01", Options{Keys: 1000, FPR: 0.01, MITZ32: true}, 1000, inUTF8},
	{"mitz64-utf16-1000-p03", Options{Keys: 1000, FPR: 0.03}, 1000, utf16Funnel},
	{"mitz64-long-1000-p001", Options{Keys: 1000, FPR: 0.001}, 1000, func(v string, s *Sink) { s.PutLong(number(v)) }},
	{"mitz64-int-1000-p01", Options{Keys: 1000, FPR: 0.01}, 1000, func(v string, s *Sink) { s.PutInt(int32(number(v))) }},
	{"mitz64-bytes-100-p01", Options{Keys: 100, FPR: 0.01}, 100, func(v string, s *Sink) { s.PutBytes(unhex(strings.TrimPrefix(v, "hex:"))) }},
}

func inUTF8(v string, s *Sink) { s.PutString(v, UTF8) }

func number(s string) int64 {
	v, err := strconv.ParseInt(s, 10, 64)
	if err != nil {
		panic(err)
	}
	return v
}

func unhex(s string) []byte {
	b, err := hex.DecodeString(s)
	if err != nil {
		panic(err)
	}
	return b
}

func mustNew(t testing.TB, o Options) *Filter {
	t.Helper()
	f, err := NewFilter(o)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// Filters that Guava wrote give the same answers here, and have the same bytes
// when they are built again.
func TestVectors(t *testing.T) {
	for _, p := range peers {
		name := "guava-" + p.name
		b := filtertest.File(t, name+".bf")
		var f Filter
		if err := f.UnmarshalBinary(b); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if again := filtertest.Marshal(t, &f); !bytes.Equal(again, b) {
			t.Errorf("%s: written again it is another", name)
		}
		filtertest.Compare(t, name+".expect.tsv", 2, func(row []string) bool { return newOf(&f, p.put).MayContain(row[0]) })
		for _, old := range []bool{false, true} {
			o := p.options
			o.K31 = old
			built := mustNew(t, o)
			for _, row := range filtertest.Rows(t, name+".expect.tsv", 2)[:p.inserted] {
				if err := newOf(built, p.put).Add(row[0]); err != nil {
					t.Fatal(err)
				}
			}
			if !bytes.Equal(filtertest.Marshal(t, built), b) {
				t.Errorf("%s: built anew it is another: K31 %v", name, old)
			}
		}
	}
	t.Logf("%d filters of Guava read, written and built anew bit for bit", len(peers))
}

// New filters have the sizes of Guava 31.1, and of main except for k with few keys.
func TestNew_SizesOfGuava(t *testing.T) {
	rows, differ := filtertest.Rows(t, "guava-params.tsv", 5)[1:], 0
	for _, row := range rows {
		n, p := uint64(number(row[0])), 0.0
		if _, err := fmt.Sscan(row[1], &p); err != nil {
			t.Fatal(err)
		}
		o := Options{Keys: n, FPR: p, K31: true}
		m, k := o.sizes()
		if fmt.Sprintf("%.0f %d %d", m, (uint64(m)+63)/64, k) != row[2]+" "+row[3]+" "+row[4] {
			t.Errorf("n %d, p %v: %.0f bits, k %d, want %v", n, p, m, k, row[2:])
		}
		o.K31 = false
		if _, recent := o.sizes(); recent != k {
			if differ++; n >= 100 {
				t.Errorf("n %d, p %v: k is %d in 31.1 and %d later", n, p, k, recent)
			}
		}
	}
	t.Logf("%d sizes of Guava 31.1; k of a recent Guava is another for %d of them", len(rows), differ)
}

// The hash is that of Guava's murmur3_128 with seed 0.
func TestHash(t *testing.T) {
	rows, compared := filtertest.Rows(t, "murmur3-128.tsv", 3)[1:], 0
	for _, row := range rows {
		if row[1] != "0" {
			continue
		}
		h1, h2 := bloom.Murmur3(unhex(row[0]))
		var digest [16]byte
		for i := range 8 {
			digest[i], digest[8+i] = byte(h1>>(8*i)), byte(h2>>(8*i))
		}
		if compared++; hex.EncodeToString(digest[:]) != row[2] {
			t.Errorf("hash of %s is %x, want %s", row[0], digest, row[2])
		}
	}
	if compared < 70 {
		t.Errorf("%d hashes compared", compared)
	}
}

// The filter of the package comment, and one of each strategy and funnel, are
// the same bytes for ever.
func TestGolden(t *testing.T) {
	one := mustNew(t, Options{Keys: 1, FPR: 0.5})
	one.AddString("a")
	if got, want := hex.EncodeToString(filtertest.Marshal(t, one)), "0101000000010000000000000200"; got != want {
		t.Errorf("the filter of one key is %s, want %s", got, want)
	}
	for _, old := range []bool{false, true} {
		f := mustNew(t, Options{Keys: 20, FPR: 0.01, MITZ32: old})
		fill(f)
		filtertest.Golden(t, fmt.Sprintf("mitz%d.bf", map[bool]int{false: 64, true: 32}[old]), filtertest.Marshal(t, f))
	}
}

// Filters that Guava wrote, for machines without the vectors. They are the same as there.
func TestGolden_OfGuava(t *testing.T) {
	utf8, old := mustNew(t, Options{Keys: 1000, FPR: 0.01}), mustNew(t, Options{Keys: 1000, FPR: 0.01, MITZ32: true})
	for i := range 1000 {
		utf8.AddString(fmt.Sprintf("key-%d", i))
		old.AddString(fmt.Sprintf("key-%d", i))
	}
	lengths := mustNew(t, Options{Keys: 100, FPR: 0.01})
	for i := range 100 {
		key := make([]byte, i)
		for j := range key {
			key[j] = byte(i*31 + j*17)
		}
		lengths.Add(key)
	}
	for name, f := range map[string]*Filter{"mitz64-utf8-1000-p01": utf8, "mitz32-utf8-1000-p01": old, "mitz64-bytes-100-p01": lengths} {
		filtertest.Golden(t, "guava-"+name+".bf", filtertest.Marshal(t, f))
	}
}

// Funnels of Guava's class Funnels.
func utf16Funnel(v string, s *Sink) { s.PutUnencodedChars(v) }
func longFunnel(v int64, s *Sink)   { s.PutLong(v) }
func intFunnel(v int32, s *Sink)    { s.PutInt(v) }

// fill adds a few keys by every method.
func fill(f *Filter) {
	for i := range 4 {
		f.Add([]byte{byte(i), 0, 0xff})
		f.AddString(fmt.Sprintf("key-%d", i))
		newOf(f, utf16Funnel).CheckAndAdd(fmt.Sprintf("sch\u00f6n %d \U0001f33c", i))
		newOf(f, longFunnel).CheckAndAdd(int64(i) - 2)
		newOf(f, intFunnel).CheckAndAdd(int32(i) - 2)
	}
}

func TestFilter_EveryFunnelFindsItsKeys(t *testing.T) {
	for _, old := range []bool{false, true} {
		f := mustNew(t, Options{Keys: 20, FPR: 1e-6, MITZ32: old})
		fill(f)
		if got := f.EstimatedCount(); got < 18 || got > 22 {
			t.Errorf("EstimatedCount() = %v, want about 20", got)
		}
		for i := range 4 {
			if !f.MayContain([]byte{byte(i), 0, 0xff}) || !f.MayContainString(fmt.Sprintf("key-%d", i)) ||
				!newOf(f, utf16Funnel).MayContain(fmt.Sprintf("sch\u00f6n %d \U0001f33c", i)) || !newOf(f, longFunnel).MayContain(int64(i)-2) || !newOf(f, intFunnel).MayContain(int32(i)-2) {
				t.Errorf("number %d of a funnel is denied", i)
			}
		}
		if f.MayContainString("schön 0 \U0001f33c") || newOf(f, intFunnel).MayContain(77) || !f.CheckAndAdd([]byte("key-0")) || f.CheckAndAdd([]byte("other")) {
			t.Error("a funnel finds what another one added, or CheckAndAdd reports the opposite")
		}
		f.Reset()
		if f.MayContainString("key-0") || f.FillRatio() != 0 || f.EstimatedCount() != 0 {
			t.Error("Reset leaves something")
		}
	}
}

// Filters that differ in size, strategy or hash functions are not united.
func TestUnion_Refuses(t *testing.T) {
	a := mustNew(t, Options{Keys: 100, FPR: 0.01})
	for _, o := range []Options{{Keys: 1000, FPR: 0.01}, {Keys: 100, FPR: 0.01, MITZ32: true}, {Keys: 66, FPR: 0.001}} {
		other := mustNew(t, o)
		if err := a.Union(other); !errors.Is(err, ErrParameters) {
			t.Errorf("Union with %+v: %v", o, err)
		}
	}
}

func TestNew_RefusesWhatGuavaRefuses(t *testing.T) {
	for _, o := range []Options{
		{Keys: 1, FPR: 1}, {Keys: 1, FPR: -1}, {Keys: 1, FPR: math.NaN()}, {Keys: 1, FPR: math.Inf(1)},
		{Keys: 1, FPR: 0.99}, {Keys: 1 << 40, FPR: 0.01}, {Keys: math.MaxUint64, FPR: 1e-300}, {Keys: 10, FPR: 1e-100},
	} {
		if f, err := NewFilter(o); f != nil || !errors.Is(err, ErrParameters) {
			t.Errorf("NewFilter(%+v) = %v, %v", o, f, err)
		}
	}
	if f, err := New(1, 0); f != nil || !errors.Is(err, ErrParameters) {
		t.Errorf("New(1, 0) = %v, %v", f, err)
	}
}

// A rate that is not set is Guava's, with which it makes 115 words and 5 hash functions for 1000 keys.
func TestNewFilter_DefaultRate(t *testing.T) {
	f := mustNew(t, Options{Keys: 1000})
	if f.Cap() != 115*64 || f.K() != 5 {
		t.Errorf("%d bits and k %d", f.Cap(), f.K())
	}
}

func TestDamage(t *testing.T) {
	f := mustNew(t, Options{Keys: 100, FPR: 0.01})
	fill(f)
	good := filtertest.Marshal(t, f)
	change := func(at int, v byte) []byte {
		b := bytes.Clone(good)
		b[at] = v
		return b
	}
	for _, c := range []struct {
		what string
		b    []byte
		is   error
		says string
	}{
		{"nothing", nil, io.EOF, "after 0 bytes"},
		{"half a header", good[:3], io.ErrUnexpectedEOF, "after 3 bytes"},
		{"cut", good[:len(good)-1], bloom.ErrDamaged, "the header tells of"},
		{"too long", append(bytes.Clone(good), 0), bloom.ErrDamaged, "the header tells of"},
		{"a strategy to come", change(0, 2), bloom.ErrUnknown, "strategy 2"},
		{"no hash functions", change(1, 0), bloom.ErrDamaged, "0 hash functions"},
		{"many longs", change(2, 0x7f), bloom.ErrDamaged, "the header tells of"},
		{"no longs", []byte{1, 7, 0, 0, 0, 0}, bloom.ErrDamaged, "0 longs"},
	} {
		again := f.Clone()
		err := again.UnmarshalBinary(c.b)
		if err == nil || !errors.Is(err, c.is) || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v", c.what, err)
		}
		if !bytes.Equal(filtertest.Marshal(t, again), good) {
			t.Errorf("%s: the filter has changed", c.what)
		}
	}
	broken := errors.New("the disk is broken")
	if _, err := new(Filter).ReadFrom(io.MultiReader(bytes.NewReader(good[:20]), iotest.ErrReader(broken))); !errors.Is(err, broken) || errors.Is(err, bloom.ErrDamaged) {
		t.Errorf("an error of the reader: %v", err)
	}
	if _, err := new(Filter).ReadFrom(bytes.NewReader(good[:20])); !errors.Is(err, bloom.ErrDamaged) || !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("a cut stream: %v", err)
	}
}

// A header that promises more words than there are costs no memory.
func TestReadFrom_AllocatesWhatItReads(t *testing.T) {
	b := append([]byte{1, 7, 4, 0, 0, 0}, make([]byte, 3*4096+5)...)
	limit := fuzzing.Limit{Bytes: 16 << 10, PerByte: 4}
	limit.Check(t, len(b), func() {
		var f Filter
		if n, err := f.ReadFrom(bytes.NewReader(b)); n != int64(len(b)) || !errors.Is(err, bloom.ErrDamaged) {
			t.Errorf("ReadFrom = %d, %v", n, err)
		}
	})
}
