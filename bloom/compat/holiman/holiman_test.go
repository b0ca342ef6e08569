package holiman

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"crypto/sha512"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"math"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
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

// packed returns the gzip of f.
func packed(t testing.TB, f *Filter) []byte {
	t.Helper()
	var b bytes.Buffer
	if n, err := f.WriteTo(&b); err != nil || n != int64(b.Len()) {
		t.Fatalf("WriteTo = %d, %v", n, err)
	}
	return b.Bytes()
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

// sevenSeeds are the seeds of the peer's filter in testdata.
var sevenSeeds = []uint64{0x123456789abcdef0, 2, 3 << 62, 4, math.MaxUint64, 6, 7 << 33}

// The peer's v2.0.3 wrote peer-1000.bf, .bf.gz and .json: its NewWithKeys(9586, sevenSeeds)
// with the xxhash of key-0 to key-999. The nested module peertest does that again.
func TestPeer(t *testing.T) {
	files := map[string][]byte{}
	for _, kind := range []string{"bf", "bf.gz", "json"} {
		b, err := os.ReadFile("testdata/peer-1000." + kind)
		if err != nil {
			t.Fatal(err)
		}
		files[kind] = b
	}
	built := mustNew(t, Options{Keys: 1000, Seeds: sevenSeeds, Hash: xxhash.Sum64})
	for i := range 1000 {
		mustAdd(t, built, number(i))
	}
	var plain, zipped, inJSON Filter
	if err := plain.UnmarshalBinary(files["bf"]); err != nil {
		t.Fatal(err)
	}
	if n, err := zipped.ReadFrom(bytes.NewReader(files["bf.gz"])); err != nil || n != int64(len(files["bf.gz"])) {
		t.Fatalf("ReadFrom = %d, %v", n, err)
	}
	if err := json.Unmarshal(files["json"], &inJSON); err != nil {
		t.Fatal(err)
	}
	for what, f := range map[string]*Filter{"built anew": built, "read": &plain, "read from gzip": &zipped, "read from JSON": &inJSON} {
		f.SetHash(xxhash.Sum64)
		if !bytes.Equal(mustMarshal(t, f), files["bf"]) {
			t.Errorf("%s it is written otherwise", what)
		}
		if b, err := json.Marshal(f); err != nil || !bytes.Equal(b, files["json"]) {
			t.Errorf("%s its JSON is another: %v", what, err)
		}
		unzipped, err := gzip.NewReader(bytes.NewReader(packed(t, f)))
		if err != nil {
			t.Fatal(err)
		}
		if b, err := io.ReadAll(unzipped); err != nil || !bytes.Equal(b, files["bf"]) {
			t.Errorf("%s its gzip has another content: %v", what, err)
		}
		passed := 0
		for i := range 101_000 {
			if f.MayContainString(number(i)) {
				passed++
			} else if i < 1000 {
				t.Fatalf("%s it denies %s", what, number(i))
			}
		}
		// The peer says so of 1967.
		if passed != 1967 || f.Count() != 1000 || f.K() != 7 || f.Cap() != 9586 {
			t.Errorf("%s: %d of 101,000 keys may be in the filter, the peer says 1967: %v, k %d", what, passed, f, f.K())
		}
	}
}

// The filter of the package comment, and one of Options, are the same bytes for ever.
func TestGolden(t *testing.T) {
	one := mustNew(t, Options{Bits: 64, Seeds: []uint64{1, 2}})
	one.AddHash(5)
	body := "00000000000000007630320a" + "0200000000000000" + "0100000000000000" + "4000000000000000" +
		"0100000000000000" + "0200000000000000" + "0600000000000000"
	b := mustMarshal(t, one)
	if got := hex.EncodeToString(b[:len(b)-sumLen]); got != body || len(b) != 108 {
		t.Errorf("the filter of one hash is %s in %d bytes, want %s", got, len(b), body)
	}
	sum := sha512.Sum384(b[:len(b)-sumLen])
	if !bytes.HasSuffix(b, sum[:]) || !strings.HasPrefix(hex.EncodeToString(sum[:]), "f5f0d09b") || !strings.HasSuffix(hex.EncodeToString(sum[:]), "6ff915") {
		t.Errorf("its checksum is %x", sum)
	}
	thirty := mustNew(t, Options{Keys: 30, Seeds: sevenSeeds[:5], Hash: bloom.Hash})
	for i := range 30 {
		mustAdd(t, thirty, number(i))
	}
	peertest.Golden(t, "thirty.bf", mustMarshal(t, thirty))
}

func TestNew_SizesOfThePeer(t *testing.T) {
	for _, c := range []struct {
		n uint64
		p float64
		m uint64
		k int
	}{{1000, 0.01, 9586, 7}, {1, 0.5, 2, 2}, {1_000_000, 0.001, 14377588, 10}} {
		if f, err := New(c.n, c.p, nil); err != nil || f.Cap() != c.m || f.K() != c.k {
			t.Errorf("New(%d, %v) = %v, %v, want %d bits and %d probes", c.n, c.p, f, err, c.m, c.k)
		}
	}
	for _, o := range []Options{
		{FPR: -1}, {FPR: 1}, {FPR: math.NaN()}, {Keys: math.MaxUint64}, {Bits: 1}, {Bits: math.MaxUint64}, {Bits: 1 << 30},
		{Bits: 64, Seeds: []uint64{1, 2, 1}}, {Bits: 64, Seeds: make([]uint64, maxProbes+1)},
	} {
		if f, err := NewFilter(o); f != nil || !errors.Is(err, ErrParameters) {
			t.Errorf("NewFilter with %d bits, %d seeds, rate %v = %v, %v", o.Bits, len(o.Seeds), o.FPR, f, err)
		}
	}
	if f, err := New(10, 0, nil); f != nil || !errors.Is(err, ErrParameters) {
		t.Errorf("New at rate 0 = %v, %v", f, err)
	}
	a, b := mustNew(t, Options{}), mustNew(t, Options{})
	if slices.Equal(a.Seeds(), b.Seeds()) {
		t.Error("two filters have the same random seeds")
	}
}

func TestFilter(t *testing.T) {
	f := mustNew(t, Options{Keys: 1000, FPR: 1e-6, Seeds: nil, Hash: bloom.Hash})
	keys := make([][]byte, 500)
	for i := range keys {
		keys[i] = []byte(number(i))
	}
	if err := f.AddKeys(keys); err != nil {
		t.Fatal(err)
	}
	if n := f.EstimatedCount(); n < 480 || n > 520 || f.Count() != 500 {
		t.Errorf("EstimatedCount() = %v, Count() = %d, want about 500", n, f.Count())
	}
	if p := f.FPR(); !(p > 0 && p < 1e-6) {
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
	if f.MayContainHash(1) || f.EstimatedCount() != 0 || f.Count() != 0 || f.FPR() != 0 || !kept.MayContainHash(1) {
		t.Error("Reset leaves something, or a clone is none")
	}
}

// allBut reports whether only one of answers is no.
func allBut(answers []bool, no int) bool {
	return !slices.Contains(answers[:no], false) && !answers[no] && !slices.Contains(answers[no+1:], false)
}

func TestUnion(t *testing.T) {
	o := Options{Bits: 2000, Seeds: sevenSeeds, Hash: bloom.Hash}
	a, b := mustNew(t, o), mustNew(t, o)
	mustAdd(t, a, "one")
	mustAdd(t, b, "two")
	kept := mustMarshal(t, b)
	if err := a.Union(b); err != nil || !a.MayContainString("one") || !a.MayContainString("two") || a.Count() != 2 {
		t.Errorf("Union: %v, %d keys", err, a.Count())
	}
	if !bytes.Equal(mustMarshal(t, b), kept) {
		t.Error("the other filter has changed")
	}
	for _, o := range []Options{{Bits: 2001, Seeds: sevenSeeds}, {Bits: 2000, Seeds: sevenSeeds[:6]}, {Bits: 2000}} {
		if err := a.Union(mustNew(t, o)); !errors.Is(err, ErrParameters) {
			t.Errorf("Union with %+v: %v", o, err)
		}
	}
}

func TestOpen_DoesNotChangeItsBytes(t *testing.T) {
	o := Options{Bits: 2000, Seeds: sevenSeeds, Hash: bloom.Hash}
	f, other := mustNew(t, o), mustNew(t, o)
	mustAdd(t, f, "one")
	mustAdd(t, other, "three")
	b := mustMarshal(t, f)
	for what, change := range map[string]func(f *Filter) error{
		"Add":   func(f *Filter) error { return f.AddString("two") },
		"Reset": func(f *Filter) error { f.Reset(); return nil },
		"Union": func(f *Filter) error { return f.Union(other) },
	} {
		g, err := Open(b)
		if err != nil {
			t.Fatal(err)
		}
		g.SetHash(bloom.Hash)
		if &g.bits[0] != &b[headerLen+7*8] || !g.MayContainString("one") || g.MayContainString("two") {
			t.Fatal("Open copies, or another filter is open")
		}
		if err := change(g); err != nil || bytes.Equal(mustMarshal(t, g), b) || !bytes.Equal(mustMarshal(t, f), b) {
			t.Errorf("%s changes the bytes of the caller, or nothing: %v", what, err)
		}
	}
}

func TestHashes(t *testing.T) {
	for key, want := range map[string]uint64{"": 0, "\x01": 1 << 56, "\x01\x02\x03\x04\x05\x06\x07\x08\x09": 0x0102030405060708} {
		if got := First8([]byte(key)); got != want {
			t.Errorf("First8(%x) = %x, want %x", key, got, want)
		}
	}
	sum := Sum64(fnv.New64a)
	var all sync.WaitGroup
	for i := range 4 {
		all.Go(func() {
			for range 100 {
				key := []byte(number(i))
				h := fnv.New64a()
				_, _ = h.Write(key)
				if sum(key) != h.Sum64() {
					t.Errorf("Sum64 of %s is another", key)
				}
			}
		})
	}
	all.Wait()
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
	if !f.MayContainHash(2) || !f.MayContainString("b") || f.FPR() != 1 || !math.IsInf(f.EstimatedCount(), 1) {
		t.Error("the zero filter denies keys")
	}
	_, binaryErr := f.MarshalBinary()
	_, textErr := f.MarshalText()
	_, jsonErr := f.MarshalJSON()
	_, writeErr := f.WriteTo(io.Discard)
	for _, err := range []error{binaryErr, textErr, jsonErr, writeErr} {
		if !errors.Is(err, ErrParameters) {
			t.Errorf("a filter without bits is written: %v", err)
		}
	}
}

func TestFPR(t *testing.T) {
	seed := uint64(0)
	peertest.Rate{
		Make: func(n int) peertest.Filter {
			o := Options{Keys: uint64(n), Hash: xxhash.Sum64}
			for range 7 { // random ones would give another rate each time
				seed += 0x9e3779b97f4a7c15
				o.Seeds = append(o.Seeds, seed*seed^seed>>29)
			}
			f := mustNew(t, o)
			return peertest.Filter{Add: f.Add, MayContain: f.MayContain}
		},
		Theory: func(n int) float64 {
			return peertest.Classic(math.Ceil(float64(n)*-math.Log(0.01)/(math.Ln2*math.Ln2)), 7, float64(n))
		},
		Small: 1.3,
	}.Measure(t)
}

func TestAllocations(t *testing.T) {
	if testenv.Race {
		t.Skip("the race detector allocates")
	}
	f := mustNew(t, Options{Keys: 1000, Hash: Sum64(fnv.New64a)})
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

// Both forms can stand in the middle of a stream.
func TestReadFrom_OneByteAtATime(t *testing.T) {
	f := mustNew(t, Options{Keys: 10_000, Seeds: sevenSeeds, Hash: bloom.Hash}) // more than a piece
	for i := range 1000 {
		mustAdd(t, f, number(i))
	}
	for what, b := range map[string][]byte{"plain": mustMarshal(t, f), "gzip": packed(t, f)} {
		for _, size := range []int{16, 100_000} {
			r := bufio.NewReaderSize(iotest.OneByteReader(io.MultiReader(bytes.NewReader(b), strings.NewReader("the next thing"))), size)
			again := Filter{hash: bloom.Hash}
			if n, err := again.ReadFrom(r); err != nil || n != int64(len(b)) {
				t.Fatalf("%s: ReadFrom = %d, %v, want %d", what, n, err, len(b))
			}
			rest, err := io.ReadAll(r)
			if err != nil || string(rest) != "the next thing" {
				t.Errorf("%s: %q is left, %v", what, rest, err)
			}
			if !bytes.Equal(mustMarshal(t, &again), mustMarshal(t, f)) || !again.MayContainString(number(0)) || again.MayContainString("two") {
				t.Errorf("%s: read another filter", what)
			}
		}
		// Without an io.ByteReader, a file alone.
		var again Filter
		if n, err := again.ReadFrom(iotest.HalfReader(bytes.NewReader(b))); err != nil || n != int64(len(b)) || !bytes.Equal(mustMarshal(t, &again), mustMarshal(t, f)) {
			t.Errorf("%s: ReadFrom = %d, %v", what, n, err)
		}
	}
}

func TestReadMax(t *testing.T) {
	f := mustNew(t, Options{Bits: 1 << 23, Seeds: sevenSeeds})
	plain, zipped := mustMarshal(t, f), packed(t, f)
	if len(zipped) > len(plain)/500 {
		t.Fatalf("%d bytes of gzip of %d: that tells nothing", len(zipped), len(plain))
	}
	for what, b := range map[string][]byte{"plain": plain, "gzip": zipped} {
		var again Filter
		if _, err := again.ReadMax(bytes.NewReader(b), uint64(len(plain))); err != nil {
			t.Errorf("%s: ReadMax with just enough: %v", what, err)
		}
		limit.Check(t, 0, func() {
			if _, err := again.ReadMax(bytes.NewReader(b), uint64(len(plain)-1)); !errors.Is(err, ErrTooLarge) {
				t.Errorf("%s: ReadMax with a byte less: %v", what, err)
			}
		})
	}
}

func TestDamage(t *testing.T) {
	f := mustNew(t, Options{Bits: 100, Seeds: []uint64{1, 2, 3}})
	f.AddHash(1)
	good := mustMarshal(t, f)
	change := func(at int, v byte) []byte {
		b := bytes.Clone(good)
		b[at] = v
		return b
	}
	sealed := func(at int, v byte) []byte {
		b := change(at, v)
		sum := sha512.Sum384(b[:len(b)-sumLen])
		copy(b[len(b)-sumLen:], sum[:])
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
		{"cut", good[:len(good)-1], bloom.ErrDamaged, "3 seeds and 100 bits in 123 bytes"},
		{"too long", append(bytes.Clone(good), 0), bloom.ErrDamaged, "100 bits in 125 bytes"},
		{"another magic", change(0, 'B'), bloom.ErrDamaged, "it begins with"},
		{"a version to come", change(10, '3'), bloom.ErrUnknown, `version "v03\n"`},
		{"no probes", change(12, 0), bloom.ErrDamaged, "0 probes"},
		{"many probes", change(15, 1), bloom.ErrDamaged, "probes"},
		{"few bits", change(28, 1), bloom.ErrDamaged, "1 bits"},
		{"many bits", change(35, 0xff), bloom.ErrDamaged, "bits"},
		{"another count", change(20, 7), bloom.ErrDamaged, "checksum"},
		{"another bit", change(61, 7), bloom.ErrDamaged, "checksum"},
		{"another checksum", change(len(good)-1, good[len(good)-1]^1), bloom.ErrDamaged, "checksum"},
		{"bits behind", sealed(75, 0x10), bloom.ErrDamaged, "bits behind the last of 100"},
	} {
		again := f.Clone()
		err := again.UnmarshalBinary(c.b)
		if err == nil || !errors.Is(err, c.is) || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v", c.what, err)
		}
		if !bytes.Equal(mustMarshal(t, again), good) {
			t.Errorf("%s: the filter has changed", c.what)
		}
		if opened, err := Open(c.b); opened != nil || err == nil {
			t.Errorf("%s: Open = %v, %v", c.what, opened, err)
		}
	}
	if err := f.UnmarshalText([]byte("*")); !errors.Is(err, bloom.ErrDamaged) {
		t.Errorf("a text that is no base64: %v", err)
	}
}

// Streams that end early or are broken, in both forms, at every byte.
func TestDamage_OfStreams(t *testing.T) {
	f := mustNew(t, Options{Bits: 100, Seeds: []uint64{1, 2, 3}})
	f.AddHash(1)
	broken := errors.New("the disk is broken")
	for what, good := range map[string][]byte{"plain": mustMarshal(t, f), "gzip": packed(t, f)} {
		for n := range good {
			var again Filter
			if m, err := again.ReadFrom(bytes.NewReader(good[:n])); m != int64(n) || !errors.Is(err, bloom.ErrDamaged) || !errors.Is(err, io.ErrUnexpectedEOF) != (n == 0) {
				t.Errorf("%s, cut after %d bytes: %d, %v", what, n, m, err)
			}
			if _, err := again.ReadFrom(io.MultiReader(bytes.NewReader(good[:n]), iotest.ErrReader(broken))); !errors.Is(err, broken) || errors.Is(err, bloom.ErrDamaged) {
				t.Errorf("%s, an error after %d bytes: %v", what, n, err)
			}
			b := bytes.Clone(good)
			b[n] ^= 0x40
			_, err := again.ReadFrom(bytes.NewReader(b))
			switch {
			case err != nil && !errors.Is(err, bloom.ErrDamaged) && !errors.Is(err, bloom.ErrUnknown):
				t.Errorf("%s, byte %d is another: %v", what, n, err)
			case err == nil && (what == "plain" || !bytes.Equal(mustMarshal(t, &again), mustMarshal(t, f))):
				// Some bits of gzip tell nothing of its content.
				t.Errorf("%s, byte %d is another, and so is the filter that is read", what, n)
			}
		}
	}
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	_, _ = w.Write(append(mustMarshal(t, f), 0))
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := new(Filter).ReadFrom(&b); !errors.Is(err, bloom.ErrDamaged) || !strings.Contains(err.Error(), "does not end") {
		t.Errorf("a gzip stream with a byte behind the filter: %v", err)
	}
	for _, n := range []int{0, 5, 50} {
		if _, err := f.WriteTo(&brokenWriter{n, broken}); !errors.Is(err, broken) {
			t.Errorf("WriteTo with room for %d bytes: %v", n, err)
		}
	}
}

// A brokenWriter takes a number of bytes, and then returns err.
type brokenWriter struct {
	room int
	err  error
}

func (w *brokenWriter) Write(b []byte) (int, error) {
	if n := w.room; len(b) > n {
		w.room = 0
		return n, w.err
	}
	w.room -= len(b)
	return len(b), nil
}

func TestDamage_OfJSON(t *testing.T) {
	for j, is := range map[string]error{
		"":                    bloom.ErrDamaged,
		"[]":                  bloom.ErrDamaged,
		"{}":                  bloom.ErrUnknown,
		`{"version":"v03\n"}`: bloom.ErrUnknown,
		`{"version":"v02\n"}`: bloom.ErrDamaged,
		`{"version":"v02\n","bits":[1],"keys":[],"m":64}`:    bloom.ErrDamaged,
		`{"version":"v02\n","bits":[1],"keys":[1],"m":1}`:    bloom.ErrDamaged,
		`{"version":"v02\n","bits":[1],"keys":[1],"m":65}`:   bloom.ErrDamaged,
		`{"version":"v02\n","bits":[1,2],"keys":[1],"m":64}`: bloom.ErrDamaged,
		`{"version":"v02\n","bits":[4],"keys":[1],"m":2}`:    bloom.ErrDamaged,
		`{"version":"v02\n","bits":[-1],"keys":[1],"m":64}`:  bloom.ErrDamaged,
		`{"version":"v02\n","bits":[1],"keys":[1],"m":64}`:   nil,
	} {
		var f Filter
		if err := f.UnmarshalJSON([]byte(j)); !errors.Is(err, is) || f.Cap() != 0 != (is == nil) {
			t.Errorf("%s: %v", j, err)
		}
	}
}

func TestString(t *testing.T) {
	f := mustNew(t, Options{Bits: 1000, Seeds: []uint64{1, 2}})
	f.AddHash(1)
	for want, f := range map[string]Filter{
		"holiman.Filter: 1 keys in 1000 bits, 0.0004 % of absent keys pass": *f,
		"holiman.Filter: the zero value, which says maybe to every key":     {},
	} {
		if got := fmt.Sprint(f); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
