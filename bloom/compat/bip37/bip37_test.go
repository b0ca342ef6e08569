package bip37

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"io"
	"math"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/shaledb/shale/bloom"
	"github.com/shaledb/shale/bloom/internal/filtertest"
)

func unhex(s string) []byte {
	b, err := hex.DecodeString(s)
	if err != nil {
		panic(err)
	}
	return b
}

func mustNew(t testing.TB, n uint32, p float64, tweak uint32, flags Flags) *Filter {
	t.Helper()
	f, err := New(n, p, tweak, flags)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// The filters of Bitcoin Core's bloom_tests.
func TestVectors_OfBitcoinCore(t *testing.T) {
	addresses := []string{
		"99108ad8ed9bb6274d3980bab5a85c048f0950c8",
		"b5a2c786d9ef4658287ced5914b37a1b4aa32eee",
		"b9300670b4c5366e95b2699e8b18bc75e5f729c5",
	}
	key := []string{ // a public key and its hash
		"045b81f0017e2091e2edcd5eecf10d5bdd120a5514cb3ee65b8447ec18bfc4575c6d5bf415e54e03b1067934a0f0ba76b01c6b9ab227142ee1d543764b69d901e0",
		"477abbacd4113f2e6b100526222eedd953c26a64",
	}
	for _, c := range []struct {
		n        uint32
		p        float64
		tweak    uint32
		elements []string
		want     string
	}{
		{3, 0.01, 0, addresses, "03614e9b050000000000000001"},
		{3, 0.01, 2147483649, addresses, "03ce4299050000000100008001"},
		{2, 0.001, 0, key, "038fc16b080000000000000001"},
	} {
		f := mustNew(t, c.n, c.p, c.tweak, UpdateAll)
		for _, e := range c.elements {
			f.Add(unhex(e))
		}
		if got := hex.EncodeToString(filtertest.Marshal(t, f)); got != c.want {
			t.Errorf("a filter of %d elements is %s, want %s", len(c.elements), got, c.want)
		}
		var again Filter
		if err := again.UnmarshalBinary(unhex(c.want)); err != nil || !bytes.Equal(filtertest.Marshal(t, &again), unhex(c.want)) {
			t.Errorf("%s read: %v", c.want, err)
		}
		for _, e := range c.elements {
			if !again.MayContain(unhex(e)) {
				t.Errorf("%s denies %s", c.want, e)
			}
		}
		if c.n == 3 && again.MayContain(unhex("19108ad8ed9bb6274d3980bab5a85c048f0950c8")) {
			t.Errorf("%s has an address of which a bit differs", c.want)
		}
	}
}

func TestGolden(t *testing.T) {
	f := mustNew(t, 100, 0.0001, 0xdeadbeef, UpdateP2PubKeyOnly)
	for i := range uint32(100) {
		f.AddOutPoint(OutPoint{TxID: [32]byte{byte(i), 1, 2, 3}, Index: i})
	}
	filtertest.Golden(t, "hundred.filterload", filtertest.Marshal(t, f))
	if f.SizeBytes() != 239 || f.HashFuncs() != 13 || f.Tweak() != 0xdeadbeef || f.Flags() != UpdateP2PubKeyOnly {
		t.Errorf("%d bytes, %d hash functions, tweak %x, flags %d", f.SizeBytes(), f.HashFuncs(), f.Tweak(), f.Flags())
	}
	large := mustNew(t, 300, 0.001, 1, UpdateNone) // a length of 3 bytes
	large.Add([]byte("one"))
	filtertest.Golden(t, "large.filterload", filtertest.Marshal(t, large))
}

func TestNew_Limits(t *testing.T) {
	f := mustNew(t, math.MaxUint16, 1e-9, 0, 0)
	if f.SizeBytes() != MaxBytes || f.HashFuncs() != 2 {
		t.Errorf("%d bytes, %d hash functions", f.SizeBytes(), f.HashFuncs())
	}
	if f := mustNew(t, 10, 1e-16, 0, 0); f.HashFuncs() != MaxHashFuncs || f.SizeBytes() != 95 {
		t.Errorf("%d bytes, %d hash functions", f.SizeBytes(), f.HashFuncs())
	}
	for _, c := range []struct {
		n uint32
		p float64
	}{{0, 0.1}, {1, 0}, {1, 1}, {1, -1}, {1, math.NaN()}, {1, 0.5}, {math.MaxUint32, 0.1}, {300_000, 0.01}} {
		if f, err := New(c.n, c.p, 0, 0); f != nil || !errors.Is(err, ErrParameters) {
			t.Errorf("New(%d, %v) = %v, %v", c.n, c.p, f, err)
		}
	}
}

func TestFilter(t *testing.T) {
	f := mustNew(t, 100, 1e-6, 7, 0)
	o := OutPoint{TxID: [32]byte{1, 2, 3}, Index: 0x01020304}
	f.AddOutPoint(o)
	serialized := append(o.TxID[:], 4, 3, 2, 1)
	other := OutPoint{TxID: o.TxID, Index: 1}
	if !f.MayContainOutPoint(o) || !f.MayContain(serialized) || f.MayContainOutPoint(other) || f.MayContain(serialized[:35]) {
		t.Error("an outpoint is not its 36 bytes")
	}
	if p := f.FPR(); !(p > 0 && p < 1e-20) {
		t.Errorf("FPR() = %v", p)
	}
	c := f.Clone()
	f.Reset()
	if f.MayContainOutPoint(o) || !c.MayContainOutPoint(o) || f.FPR() != 0 {
		t.Error("Reset leaves something, or a clone is none")
	}
	var zero Filter
	zero.Add(serialized)
	if !zero.MayContain(nil) || zero.FPR() != 1 || hex.EncodeToString(filtertest.Marshal(t, &zero)) != "00000000000000000000" {
		t.Errorf("the zero filter: %x", filtertest.Marshal(t, &zero))
	}
}

func TestReadFrom_OneByteAtATime(t *testing.T) {
	for _, size := range []int{0, 1, 252, 253, 255, 256, MaxBytes} {
		f := &Filter{data: bytes.Repeat([]byte{0x5a}, size), hashFuncs: MaxHashFuncs, tweak: 0x01020304, flags: 0xff}
		var b bytes.Buffer
		if n, err := f.WriteTo(&b); err != nil || n != int64(b.Len()) || !bytes.Equal(b.Bytes(), filtertest.Marshal(t, f)) {
			t.Fatalf("WriteTo = %d, %v", n, err)
		}
		want := b.Len()
		b.WriteString("the next thing")
		var again Filter
		if n, err := again.ReadFrom(iotest.OneByteReader(&b)); err != nil || n != int64(want) {
			t.Fatalf("ReadFrom = %d, %v, want %d", n, err, want)
		}
		if b.String() != "the next thing" || !bytes.Equal(filtertest.Marshal(t, &again), filtertest.Marshal(t, f)) {
			t.Errorf("read another filter, or too far: %q is left", b.String())
		}
	}
}

func TestDamage(t *testing.T) {
	good := unhex("03614e9b050000000000000001")
	long := func(size int) []byte {
		return append(binary.LittleEndian.AppendUint16([]byte{0xfd}, uint16(size)), make([]byte, size+9)...)
	}
	for _, c := range []struct {
		what string
		b    []byte
		is   error
		says string
	}{
		{"nothing", nil, io.EOF, "after 0 bytes"},
		{"half a length", []byte{0xfd, 1}, io.ErrUnexpectedEOF, "after 2 bytes"},
		{"cut", good[:len(good)-1], io.ErrUnexpectedEOF, "after 12 bytes"},
		{"too long", append(bytes.Clone(good), 0), bloom.ErrDamaged, "1 bytes behind it"},
		{"36,001 bytes", long(36_001), bloom.ErrDamaged, "36001 bytes, 36000 are allowed"},
		{"32 bits of length", append([]byte{0xfe, 3, 0, 0, 0}, good[1:]...), bloom.ErrDamaged, "a length of more than 16 bits"},
		{"64 bits of length", []byte{0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff}, bloom.ErrDamaged, "a length of more than 16 bits"},
		{"a length that is not the shortest", long(3), bloom.ErrDamaged, "length 3 in 3 bytes"},
		{"51 hash functions", unhex("03614e9b330000000000000001"), bloom.ErrDamaged, "51 hash functions, 50 are allowed"},
	} {
		var f Filter
		if err := f.UnmarshalBinary(good); err != nil {
			t.Fatal(err)
		}
		err := f.UnmarshalBinary(c.b)
		if err == nil || !errors.Is(err, c.is) || !errors.Is(err, bloom.ErrDamaged) || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v", c.what, err)
		}
		if !bytes.Equal(filtertest.Marshal(t, &f), good) {
			t.Errorf("%s: the filter has changed", c.what)
		}
	}
	broken := errors.New("the wire is broken")
	for n := range len(good) {
		if _, err := new(Filter).ReadFrom(io.MultiReader(bytes.NewReader(good[:n]), iotest.ErrReader(broken))); !errors.Is(err, broken) || errors.Is(err, bloom.ErrDamaged) {
			t.Errorf("an error of the reader after %d bytes: %v", n, err)
		}
	}
}
