package blobloom

import (
	"bytes"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/cespare/xxhash/v2"
	"github.com/shaledb/shale/bloom"
	"github.com/shaledb/shale/internal/peertest"
	"github.com/shaledb/shale/internal/testenv"
)

func mustNew(t testing.TB, o Options) *Filter {
	t.Helper()
	f, err := NewFilter(o)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func mustMarshal(t testing.TB, f *Filter) []byte {
	t.Helper()
	b, err := f.MarshalBinary()
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func mustAdd(t testing.TB, f *Filter, keys ...string) {
	t.Helper()
	for _, key := range keys {
		if err := f.AddString(key); err != nil {
			t.Fatal(err)
		}
	}
}

func number(i int) string { return "key-" + strconv.Itoa(i) }

// The peer's v0.8.0 wrote peer-1000.blob: its New(10000, 7), with the xxhash of key-0 to
// key-999, and the comment "xxhash". The nested module peertest does that again.
func TestPeer(t *testing.T) {
	b, err := os.ReadFile("testdata/peer-1000.blob")
	if err != nil {
		t.Fatal(err)
	}
	f := mustNew(t, Options{Bits: 10000, Hashes: 7, Comment: "xxhash", Hash: xxhash.Sum64})
	for i := range 1000 {
		mustAdd(t, f, number(i))
	}
	if !bytes.Equal(mustMarshal(t, f), b) {
		t.Error("built anew it is another")
	}
	read := Filter{hash: xxhash.Sum64}
	if err := read.UnmarshalBinary(b); err != nil {
		t.Fatal(err)
	}
	if read.Comment() != "xxhash" || read.Cap() != 10240 || read.Hashes() != 7 || !bytes.Equal(mustMarshal(t, &read), b) {
		t.Errorf("%v, comment %q, %d hashes", read, read.Comment(), read.Hashes())
	}
	passed := 0
	for i := range 101_000 {
		if read.MayContainString(number(i)) {
			passed++
		} else if i < 1000 {
			t.Fatalf("%s is denied", number(i))
		}
	}
	// The peer says so of 1914.
	if passed != 1914 {
		t.Errorf("%d of 101,000 keys may be in the filter, the peer says 1914", passed)
	}
}

// The filter of the package comment, and one of Options, are the same bytes for ever.
func TestGolden(t *testing.T) {
	one := mustNew(t, Options{Bits: 1, Hashes: 3, Comment: "c"})
	one.AddHash(0x0000000100000002)
	want := "626c6f626c6f6f6d" + "00000000" + "00000000" + "03000000" + "63" + strings.Repeat("00", 43) + "48" + strings.Repeat("00", 63)
	if got := hex.EncodeToString(mustMarshal(t, one)); got != want {
		t.Errorf("the filter of one hash is %s, want %s", got, want)
	}
	thirty := mustNew(t, Options{Keys: 30, Hash: bloom.Hash, Comment: strings.Repeat("ä", 22)})
	for i := range 30 {
		mustAdd(t, thirty, number(i))
	}
	peertest.Golden(t, "thirty.blob", mustMarshal(t, thirty))
}

func TestFilter(t *testing.T) {
	f := mustNew(t, Options{Keys: 1000, FPR: 1e-4, Hash: bloom.Hash})
	keys := make([][]byte, 500)
	for i := range keys {
		keys[i] = []byte(number(i))
	}
	if err := f.AddKeys(keys); err != nil {
		t.Fatal(err)
	}
	if n := f.EstimatedCount(); n < 480 || n > 520 {
		t.Errorf("EstimatedCount() = %v, want about 500", n)
	}
	if p := f.FPR(); !(p > 0 && p < 1e-4) {
		t.Errorf("FPR() = %v", p)
	}
	out := make([]bool, 502)
	f.MayContainKeys(append(keys[:499:499], []byte("absent")), out)
	if !allBut(out, 499) {
		t.Errorf("MayContainKeys = %v", out[495:])
	}
	f.AddMany([]uint64{1, 2, 3})
	if f.MayContainMany([]uint64{1, 2, 3, 4}, out[:6]); !allBut(out[:6], 3) {
		t.Errorf("MayContainMany = %v", out[:6])
	}
	if f.CheckAndAddHash(77) || !f.CheckAndAddHash(77) || !f.CheckAndAdd([]byte("key-1")) || f.CheckAndAdd([]byte("new")) || !f.MayContainString("new") {
		t.Error("CheckAndAdd tells wrongly, or does not add")
	}
	kept := f.Clone()
	f.Reset()
	if f.MayContainHash(1) || f.EstimatedCount() != 0 || f.FPR() != 0 || !kept.MayContainHash(1) {
		t.Error("Reset leaves something, or a clone is none")
	}
}

// allBut reports whether only one of answers is no.
func allBut(answers []bool, no int) bool {
	return !slices.Contains(answers[:no], false) && !answers[no] && !slices.Contains(answers[no+1:], false)
}

func TestUnionAndIntersect(t *testing.T) {
	o := Options{Keys: 100, FPR: 1e-4, Hash: bloom.Hash}
	a, b := mustNew(t, o), mustNew(t, o)
	mustAdd(t, a, "one", "both")
	mustAdd(t, b, "two", "both")
	kept, union, both := mustMarshal(t, b), a.Clone(), a.Clone()
	if err := union.Union(b); err != nil || !union.MayContainString("one") || !union.MayContainString("two") {
		t.Errorf("Union: %v", err)
	}
	if err := both.Intersect(b); err != nil || !both.MayContainString("both") || both.MayContainString("one") || both.MayContainString("two") {
		t.Errorf("Intersect: %v", err)
	}
	if !bytes.Equal(mustMarshal(t, b), kept) {
		t.Error("the other filter has changed")
	}
	for _, o := range []Options{{Bits: a.Cap() + 1, Hashes: a.Hashes()}, {Bits: a.Cap(), Hashes: a.Hashes() + 1}} {
		if err := a.Union(mustNew(t, o)); !errors.Is(err, ErrParameters) {
			t.Errorf("Union with %+v: %v", o, err)
		}
		if err := a.Intersect(mustNew(t, o)); !errors.Is(err, ErrParameters) {
			t.Errorf("Intersect with %+v: %v", o, err)
		}
	}
}

func TestOpen_DoesNotChangeItsBytes(t *testing.T) {
	f := mustNew(t, Options{Keys: 10, Hash: bloom.Hash})
	mustAdd(t, f, "one")
	b := mustMarshal(t, f)
	for what, change := range map[string]func(f *Filter) error{
		"Add":   func(f *Filter) error { return f.AddString("two") },
		"Reset": func(f *Filter) error { f.Reset(); return nil },
		"Union": func(f *Filter) error { return f.Union(mustNewUnion(t, f)) },
	} {
		g, err := Open(b)
		if err != nil {
			t.Fatal(err)
		}
		g.SetHash(bloom.Hash)
		if &g.blocks[0] != &b[headerLen] || !g.MayContainString("one") || g.MayContainString("two") {
			t.Fatal("Open copies, or another filter is open")
		}
		if err := change(g); err != nil || bytes.Equal(mustMarshal(t, g), b) || !bytes.Equal(mustMarshal(t, f), b) {
			t.Errorf("%s changes the bytes of the caller, or nothing: %v", what, err)
		}
	}
}

// mustNewUnion returns a filter that can be combined with f, with another key.
func mustNewUnion(t *testing.T, f *Filter) *Filter {
	g := mustNew(t, Options{Bits: f.Cap(), Hashes: f.Hashes(), Hash: bloom.Hash})
	mustAdd(t, g, "three")
	return g
}

func TestWithoutHash_SaysMaybe(t *testing.T) {
	f := mustNew(t, Options{Keys: 10})
	if err := f.AddString("one"); !errors.Is(err, ErrNoHash) {
		t.Errorf("AddString without a hash function: %v", err)
	}
	if err := f.AddKeys([][]byte{nil}); !errors.Is(err, ErrNoHash) {
		t.Errorf("AddKeys without a hash function: %v", err)
	}
	if !f.MayContainString("one") || !f.CheckAndAdd([]byte("one")) || f.FillRatio() != 0 || f.MayContainHash(1) {
		t.Error("a key is denied whose hash is unknown, or a hash is not")
	}
}

func TestZeroFilter_SaysMaybe(t *testing.T) {
	var f Filter
	f.AddHash(1)
	f.Reset()
	f.SetHash(bloom.Hash)
	if err := f.AddString("a"); !errors.Is(err, ErrParameters) {
		t.Errorf("AddString: %v", err)
	}
	if !f.MayContainHash(2) || !f.MayContainString("b") || f.FPR() != 1 || f.FillRatio() != 1 || !math.IsInf(f.EstimatedCount(), 1) {
		t.Error("the zero filter denies keys")
	}
	_, binaryErr := f.MarshalBinary()
	_, textErr := f.MarshalText()
	_, writeErr := f.WriteTo(io.Discard)
	for _, err := range []error{binaryErr, textErr, writeErr} {
		if !errors.Is(err, ErrParameters) {
			t.Errorf("a filter without bits is written: %v", err)
		}
	}
}

func TestNewFilter_Refuses(t *testing.T) {
	for _, o := range []Options{
		{FPR: -1}, {FPR: 1}, {FPR: math.NaN()}, {Keys: 1000, FPR: 1e-6}, {Keys: math.MaxUint64}, {Bits: math.MaxUint64}, {Bits: maxBlocks*BlockBits + 1},
		{Bits: 1, Hashes: maxHashes + 1}, {Comment: strings.Repeat("a", MaxComment+1)}, {Comment: "a\x00b"},
	} {
		if f, err := NewFilter(o); f != nil || !errors.Is(err, ErrParameters) {
			t.Errorf("NewFilter(%+v) = %v, %v", o, f, err)
		}
	}
	if f, err := New(10, 0, nil); f != nil || !errors.Is(err, ErrParameters) {
		t.Errorf("New at rate 0 = %v, %v", f, err)
	}
}

func TestSizes(t *testing.T) {
	for _, c := range []struct {
		n uint64
		p float64
	}{{1, 0.5}, {1000, 0.1}, {1000, 0.01}, {1_000_000, 0.001}, {1_000_000_000, 1e-4}} {
		blocks, hashes := sizes(c.n, c.p)
		rate := rateOf(float64(c.n), float64(blocks), float64(hashes-1))
		fewer, _ := bestHashes(float64(c.n), float64(blocks-1))
		if rate > c.p || blocks > 1 && fewer <= c.p {
			t.Errorf("%d keys at rate %v: %d blocks, %d hashes, rate %v, with a block less %v", c.n, c.p, blocks, hashes, rate, fewer)
		}
	}
}

func TestFPR(t *testing.T) {
	o := Options{FPR: 0.01, Hash: xxhash.Sum64}
	peertest.Rate{
		Make: func(n int) peertest.Filter {
			o.Keys = uint64(n)
			f := mustNew(t, o)
			return peertest.Filter{Add: f.Add, MayContain: f.MayContain}
		},
		Theory: func(n int) float64 {
			blocks, hashes := sizes(uint64(n), o.FPR)
			return peertest.Blocks(float64(n), float64(blocks), func(j int) float64 {
				return peertest.Classic(BlockBits, float64(hashes-1), float64(j)) + float64(j)/patterns
			})
		},
		Small: 1.3,
	}.Measure(t)
}

func TestAllocations(t *testing.T) {
	if testenv.Race {
		t.Skip("the race detector allocates")
	}
	f := mustNew(t, Options{Keys: 1000, Hash: bloom.Hash})
	keys, out := [][]byte{[]byte("some key")}, make([]bool, 1)
	if n := testing.AllocsPerRun(100, func() {
		_ = f.AddString("key")
		_ = f.AddKeys(keys)
		f.MayContainString("key")
		f.MayContainKeys(keys, out)
		f.AddHash(1)
		f.MayContainHash(1)
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func TestReadFrom_OneByteAtATime(t *testing.T) {
	f := mustNew(t, Options{Keys: 10_000, Hash: bloom.Hash}) // more than a piece
	mustAdd(t, f, "one")
	var b bytes.Buffer
	if n, err := f.WriteTo(&b); err != nil || n != int64(b.Len()) || !bytes.Equal(b.Bytes(), mustMarshal(t, f)) {
		t.Fatalf("WriteTo = %d, %v", n, err)
	}
	want := b.Len()
	b.WriteString("the next thing")
	again := Filter{hash: bloom.Hash}
	if n, err := again.ReadFrom(iotest.OneByteReader(&b)); err != nil || n != int64(want) {
		t.Fatalf("ReadFrom = %d, %v, want %d", n, err, want)
	}
	if b.String() != "the next thing" || !bytes.Equal(mustMarshal(t, &again), mustMarshal(t, f)) || !again.MayContainString("one") || again.MayContainString("two") {
		t.Errorf("read another filter, or too far: %q is left", b.String())
	}
}

func TestDamage(t *testing.T) {
	f := mustNew(t, Options{Bits: 2 * BlockBits, Hashes: 5, Comment: "abc"})
	f.AddHash(1)
	good := mustMarshal(t, f)
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
		{"half a header", good[:33], io.ErrUnexpectedEOF, "after 33 bytes"},
		{"cut", good[:len(good)-1], bloom.ErrDamaged, "2 blocks in 127 bytes"},
		{"too long", append(bytes.Clone(good), 0), bloom.ErrDamaged, "2 blocks in 129 bytes"},
		{"another magic", change(0, 'B'), bloom.ErrDamaged, `begins with "Blobloom"`},
		{"a version to come", change(8, 1), bloom.ErrUnknown, "version 1"},
		{"no hashes", change(16, 0), bloom.ErrDamaged, "0 hashes"},
		{"many hashes", change(18, 255), bloom.ErrDamaged, "hashes"},
		{"many blocks", change(15, 255), bloom.ErrDamaged, "blocks"},
		{"a zero in the comment", change(21, 0), bloom.ErrDamaged, "zero inside the comment"},
	} {
		again := f.Clone()
		err := again.UnmarshalBinary(c.b)
		if err == nil || !errors.Is(err, c.is) || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v", c.what, err)
		}
		if !bytes.Equal(mustMarshal(t, again), good) {
			t.Errorf("%s: the filter has changed", c.what)
		}
	}
	if err := f.UnmarshalText([]byte("*")); !errors.Is(err, bloom.ErrDamaged) {
		t.Errorf("a text that is no base64: %v", err)
	}
	broken := errors.New("the disk is broken")
	for _, n := range []int{10, 64, 100} {
		if _, err := new(Filter).ReadFrom(io.MultiReader(bytes.NewReader(good[:n]), iotest.ErrReader(broken))); !errors.Is(err, broken) || errors.Is(err, bloom.ErrDamaged) {
			t.Errorf("an error of the reader after %d bytes: %v", n, err)
		}
		if m, err := new(Filter).ReadFrom(bytes.NewReader(good[:n])); m != int64(n) || !errors.Is(err, bloom.ErrDamaged) || !errors.Is(err, io.ErrUnexpectedEOF) {
			t.Errorf("a stream that is cut after %d bytes: %d, %v", n, m, err)
		}
	}
}

func TestString(t *testing.T) {
	f := mustNew(t, Options{Bits: 1024, Hashes: 5})
	f.AddHash(1)
	for want, f := range map[string]Filter{
		"blobloom.Filter: about 1 keys in 1024 bits, 1.86e-07 % of absent keys pass": *f,
		"blobloom.Filter: the zero value, which says maybe to every key":             {},
	} {
		if got := fmt.Sprint(f); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
