package parquet

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
)

const vector = "parquet-sbbf-1000-10bpk"

func mustNew(t testing.TB, bytes int) *Filter {
	t.Helper()
	f, err := NewBytes(bytes)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// Bits that parquet-go wrote give the same answers here, and are the same when
// they are made again.
func TestVectors(t *testing.T) {
	b := filtertest.File(t, vector+".bits")
	f, err := OpenBits(b)
	if err != nil {
		t.Fatal(err)
	}
	for what, f := range map[string]*Filter{"written again": f, "built anew": thousand(t)} {
		if !bytes.Equal(f.AppendBits(nil), b) {
			t.Errorf("%s it is another", what)
		}
	}
	filtertest.Compare(t, vector+".expect.tsv", 3, func(row []string) bool {
		x, err := strconv.ParseUint(row[1], 16, 64)
		if err != nil {
			t.Fatal(err)
		}
		if x != Hash([]byte(row[0])) || f.MayContainHash(x) != f.MayContain([]byte(row[0])) {
			t.Errorf("hash of %q = %016x, want %016x", row[0], Hash([]byte(row[0])), x)
		}
		return f.MayContainString(row[0])
	})
	t.Logf("%d blocks read, written and built anew bit for bit", len(f.blocks))
}

// thousand is the filter of the vector.
func thousand(t testing.TB) *Filter {
	t.Helper()
	f, err := NewBits(1000, 10)
	if err != nil {
		t.Fatal(err)
	}
	for i := range 1000 {
		f.AddString(fmt.Sprintf("key-%d", i))
	}
	return f
}

// The header of arrow-rs's tests, and ones of other lengths.
func TestHeader(t *testing.T) {
	for n, want := range map[int]string{
		32:         "1540" + "1c1c0000" + "1c1c0000" + "1c1c0000" + "00",
		64:         "158001" + "1c1c0000" + "1c1c0000" + "1c1c0000" + "00",
		1 << 20:    "1580808001" + "1c1c0000" + "1c1c0000" + "1c1c0000" + "00",
		0x7fffffe0: "15c0ffffff0f" + "1c1c0000" + "1c1c0000" + "1c1c0000" + "00",
	} {
		b := appendHeader(nil, n)
		if hex.EncodeToString(b) != want {
			t.Errorf("header of %d bytes = %x, want %s", n, b, want)
		}
		d := decoder{r: bytes.NewReader(append(b, 99))}
		if got, err := d.header(); got != n || err != nil || d.n != int64(len(b)) {
			t.Errorf("header read: %d, %v, want %d; %d bytes, want %d", got, err, n, d.n, len(b))
		}
	}
}

// A header with the fields in long form, and with fields of every type that are
// not known, is read.
func TestHeader_WhatIsToCome(t *testing.T) {
	known := "15401c1c00001c1c00001c1c0000"
	for what, h := range map[string]string{
		"long form":     "0502" + "40" + "0c04" + "0c0200" + "00" + "0c06" + "1c0000" + "0c08" + "1c0000" + "00",
		"bools":         known + "11" + "12" + "00",
		"numbers":       known + "13ff" + "1401" + "15ff7f" + "16ffff7f" + "00",
		"double":        known + "17" + "0102030405060708" + "00",
		"binary":        known + "18" + "03616263" + "00",
		"list":          known + "19" + "31" + "010201" + "00",
		"long list":     known + "19" + "f8" + "10" + strings.Repeat("0161", 16) + "00",
		"set":           known + "1a" + "16" + "05" + "00",
		"map":           known + "1b" + "02" + "81" + "016101" + "016202" + "00",
		"empty map":     known + "1b" + "00" + "00",
		"struct":        known + "1c" + "1502" + "1c1100" + "00" + "00",
		"uuid":          known + "1d" + strings.Repeat("55", 16) + "00",
		"another BLOCK": "15401c1c" + "1502" + "0000" + "1c1c00001c1c0000" + "00",
	} {
		f := mustNew(t, 32)
		f.AddString("a")
		b := append(unhex(h), f.AppendBits(nil)...)
		var again Filter
		if err := again.UnmarshalBinary(b); err != nil {
			t.Errorf("%s: %v", what, err)
		} else if !bytes.Equal(filtertest.Marshal(t, &again), filtertest.Marshal(t, f)) {
			t.Errorf("%s: another filter", what)
		}
	}
}

func unhex(s string) []byte {
	b, err := hex.DecodeString(s)
	if err != nil {
		panic(err)
	}
	return b
}

func golden(t testing.TB) *Filter {
	f := mustNew(t, 96)
	for i := range 6 {
		f.AddString(fmt.Sprintf("key-%d", i))
		f.AddInt32(int32(i) - 3)
		f.AddInt64(int64(i) - 3)
		f.AddFloat(float32(i) / 3)
		f.AddDouble(float64(i) / 3)
	}
	return f
}

func TestGolden(t *testing.T) {
	filtertest.Golden(t, "types.filter", filtertest.Marshal(t, golden(t)))
	// The filter of parquet-go, for machines without the vectors.
	filtertest.Golden(t, vector+".bits", thousand(t).AppendBits(nil))
}

func TestFilter_Types(t *testing.T) {
	f := mustNew(t, 4096)
	f.AddInt32(-2)
	f.AddInt64(-3)
	f.AddFloat(1.5)
	f.AddDouble(2.5)
	for what, got := range map[string][2]bool{
		"INT32":  {f.MayContainInt32(-2), f.MayContain([]byte{0xfe, 0xff, 0xff, 0xff})},
		"INT64":  {f.MayContainInt64(-3), f.MayContain([]byte{0xfd, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff})},
		"FLOAT":  {f.MayContainFloat(1.5), f.MayContain([]byte{0, 0, 0xc0, 0x3f})},
		"DOUBLE": {f.MayContainDouble(2.5), f.MayContain([]byte{0, 0, 0, 0, 0, 0, 4, 0x40})},
	} {
		if !got[0] || !got[1] {
			t.Errorf("%s: %v", what, got)
		}
	}
	if f.MayContainInt32(-3) || f.MayContainInt64(-2) || f.MayContainFloat(2.5) || f.MayContainDouble(1.5) {
		t.Error("a value of another type is found")
	}
	f.AddDouble(0)
	if f.MayContainDouble(math.Copysign(0, -1)) {
		t.Error("-0 is found where 0 was added")
	}
	if p := f.FPR(); !(p > 0 && p < 1e-3) {
		t.Errorf("FPR() = %v", p)
	}
	f.Reset()
	if f.MayContainInt32(-2) || f.FPR() != 0 {
		t.Error("Reset leaves something")
	}
}

// The sizes of Arrow, computed by its formula in bits, and of parquet-go.
func TestNew_Sizes(t *testing.T) {
	for _, c := range []struct {
		n    uint64
		p    float64
		want int
	}{{0, 0.01, 32}, {1, 0.01, 32}, {26, 0.01, 32}, {27, 0.01, 64}, {1000, 0.01, 2048}, {1_000_000, 0.01, 2 << 20},
		{1_000_000, 1e-9, 16 << 20}, {1_000_000_000, 0.01, 128 << 20}, {math.MaxUint64, 1e-300, 128 << 20}, {1, 1e-300, 128 << 20}, {10, 1 - 1e-16, 32}} {
		if f, err := New(c.n, c.p); err != nil || f.SizeBytes() != c.want {
			t.Errorf("New(%d, %v) has %d bytes, want %d: %v", c.n, c.p, f.SizeBytes(), c.want, err)
		}
	}
	for _, c := range []struct {
		n    uint64
		bits uint
		want int
	}{{1000, 10, 1280}, {0, 10, 32}, {1, 256, 32}, {1, 257, 64}} {
		if f, err := NewBits(c.n, c.bits); err != nil || f.SizeBytes() != c.want {
			t.Errorf("NewBits(%d, %d) has %d bytes, want %d: %v", c.n, c.bits, f.SizeBytes(), c.want, err)
		}
	}
	for what, f := range map[string]func() (*Filter, error){
		"rate 0":      func() (*Filter, error) { return New(1, 0) },
		"rate 1":      func() (*Filter, error) { return New(1, 1) },
		"rate NaN":    func() (*Filter, error) { return New(1, math.NaN()) },
		"many values": func() (*Filter, error) { return NewBits(1<<60, 1<<30) },
		"2^31 bytes":  func() (*Filter, error) { return NewBits(1<<31, 9) },
		"no bytes":    func() (*Filter, error) { return NewBytes(0) },
		"33 bytes":    func() (*Filter, error) { return NewBytes(33) },
		"-32 bytes":   func() (*Filter, error) { return NewBytes(-32) },
	} {
		if f, err := f(); f != nil || !errors.Is(err, ErrParameters) {
			t.Errorf("%s: %v", what, err)
		}
	}
}

func TestDamage(t *testing.T) {
	f := golden(t)
	good := filtertest.Marshal(t, f)
	const unions = "1c1c00001c1c00001c1c0000"
	for _, c := range []struct {
		what string
		b    []byte
		is   error
		says string
	}{
		{"nothing", nil, io.EOF, "after 0 bytes"},
		{"half a header", good[:9], io.ErrUnexpectedEOF, "after 9 bytes"},
		{"cut", good[:len(good)-1], bloom.ErrDamaged, "95 bytes of blocks, the header tells of 96"},
		{"too long", append(bytes.Clone(good), 0), bloom.ErrDamaged, "97 bytes of blocks"},
		{"no numBytes", unhex("2c1c00001c1c00001c1c000000"), bloom.ErrDamaged, "no numBytes"},
		{"no hash", unhex("15401c1c00002c1c000000"), bloom.ErrDamaged, "no hash"},
		{"numBytes 0", unhex("1500" + unions + "00"), bloom.ErrDamaged, "numBytes is 0"},
		{"numBytes 33", unhex("1542" + unions + "00"), bloom.ErrDamaged, "numBytes is 33"},
		{"numBytes -32", unhex("153f" + unions + "00"), bloom.ErrDamaged, "numBytes is -32"},
		{"numBytes 2^31", unhex("158080808010" + unions + "00"), bloom.ErrDamaged, "numBytes is 2147483648"},
		{"numBytes of 11 bytes", unhex("15" + strings.Repeat("80", 10) + "01"), bloom.ErrDamaged, "more than 10 bytes"},
		{"numBytes twice", unhex("15400502" + "40" + unions + "00"), bloom.ErrDamaged, "field numBytes"},
		{"numBytes a string", unhex("180161" + unions + "00"), bloom.ErrDamaged, "numBytes of type 8"},
		{"another algorithm", unhex("15401c2c0000"), bloom.ErrUnknown, "algorithm 2"},
		{"another hash", unhex("15401c1c00001c3c0000"), bloom.ErrUnknown, "hash 3"},
		{"another compression", unhex("15401c1c00001c1c00001c2c0000"), bloom.ErrUnknown, "compression 2"},
		{"no algorithm in it", unhex("15401c00"), bloom.ErrDamaged, "algorithm is empty"},
		{"an algorithm of an int", unhex("15401c1502"), bloom.ErrDamaged, "algorithm of type 5"},
		{"a type that is none", unhex("1540" + unions + "1e"), bloom.ErrDamaged, "a value of type 14"},
		{"a deep structure", unhex("1540" + unions + strings.Repeat("1c", 100)), bloom.ErrDamaged, "structures in structures"},
		{"deep lists", unhex("1540" + unions + strings.Repeat("19", 100)), bloom.ErrDamaged, "structures in structures"},
		{"a long header", append(unhex("1540"+unions+"18ffffffff0f"), make([]byte, 2000)...), bloom.ErrDamaged, "a header of more than 1024 bytes"},
	} {
		again := f.Clone()
		for _, err := range []error{again.UnmarshalBinary(c.b), readErr(again, c.b)} {
			if strings.HasPrefix(c.what, "too") && err == nil {
				continue // a stream may go on
			}
			if err == nil || !(errors.Is(err, c.is) && strings.Contains(err.Error(), c.says) || c.what == "cut" && errors.Is(err, io.ErrUnexpectedEOF)) {
				t.Errorf("%s: %v", c.what, err)
			}
		}
		if !bytes.Equal(filtertest.Marshal(t, again), good) {
			t.Errorf("%s: the filter has changed", c.what)
		}
	}
	broken := errors.New("the disk is broken")
	for _, n := range []int{5, 40} {
		if _, err := new(Filter).ReadFrom(io.MultiReader(bytes.NewReader(good[:n]), iotest.ErrReader(broken))); !errors.Is(err, broken) || errors.Is(err, bloom.ErrDamaged) {
			t.Errorf("an error of the reader: %v", err)
		}
	}
	if f, err := OpenBits(make([]byte, 31)); f != nil || !errors.Is(err, bloom.ErrDamaged) {
		t.Errorf("31 bytes of blocks: %v", err)
	}
}

func readErr(f *Filter, b []byte) error {
	_, err := f.ReadFrom(bytes.NewReader(b))
	return err
}
