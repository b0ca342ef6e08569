package typed

import (
	"bytes"
	"cmp"
	"encoding/hex"
	"math"
	"reflect"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/shaledb/shale/internal/fuzzing"
)

// The bytes of keys are part of the format, and never change. Of a part they are the second ones.
func TestKeys_Golden(t *testing.T) {
	golden(t, String, "", "", "0001")
	golden(t, String, "a\x00b\xff", "610062ff", "6100ff62ff0001")
	golden(t, Bytes, []byte{0, 0}, "0000", "00ff00ff0001")
	golden(t, Uint64, 258, "0000000000000102", "0000000000000102")
	golden(t, Uint32, math.MaxUint32, "ffffffff", "ffffffff")
	golden(t, Int64, -1, "7fffffffffffffff", "7fffffffffffffff")
	golden(t, Int64, 1, "8000000000000001", "8000000000000001")
	golden(t, Int32, math.MinInt32, "00000000", "00000000")
	golden(t, Int, 0, "8000000000000000", "8000000000000000")
	golden(t, Float64, 1, "bff0000000000000", "bff0000000000000")
	golden(t, Float64, -1, "400fffffffffffff", "400fffffffffffff")
	golden(t, Bool, true, "01", "01")
	golden(t, Time, time.Unix(0, 5).UTC(), "8000000e7791f70000000005", "8000000e7791f70000000005")
	golden(t, Tuple2(String, String), Pair[string, string]{"a", "b"}, "61000162", "610001620001")
	golden(t, Tuple2(Bool, Tuple2(Bytes, Uint32)), Pair[bool, Pair[[]byte, uint32]]{false, Pair[[]byte, uint32]{[]byte{7}, 9}},
		"0007000100000009", "0007000100000009")
}

func golden[K any](t *testing.T, c KeyCodec[K], key K, whole, part string) {
	t.Helper()
	for _, isPart := range []bool{false, true} {
		want := whole
		if isPart {
			want = part
		}
		b, err := c.append([]byte("x"), key, isPart)
		if got := hex.EncodeToString(b[1:]); err != nil || got != want || b[0] != 'x' {
			t.Errorf("%T(%v), part %v: %s, %v; want %s", c, key, isPart, got, err, want)
		}
		if again, rest, err := c.decode(b[1:], isPart); err != nil || len(rest) > 0 || !reflect.DeepEqual(again, key) {
			t.Errorf("%T: %s is %v, %x, %v; want %v", c, want, again, rest, err, key)
		}
	}
}

// What no key is refused, and so are bytes that no key has.
func TestKeys_Refused(t *testing.T) {
	if b, err := Float64.append(nil, math.NaN(), false); err == nil {
		t.Errorf("NaN is % x", b)
	}
	zero, _ := Float64.append(nil, 0, false)
	if minus, err := Float64.append(nil, math.Copysign(0, -1), false); err != nil || !bytes.Equal(zero, minus) {
		t.Errorf("-0 is % x, %v; 0 is % x", minus, err, zero)
	}
	refused(t, Float64, "7fffffffffffffff") // -0
	refused(t, Float64, "fff8000000000001")
	refused(t, Float64, "0007ffffffffffff")
	refused(t, Bool, "02")
	refused(t, Uint64, "00000000000000")
	refused(t, Uint64, "000000000000000000")
	refused(t, Time, "80000000000000003b9aca00") // 10^9 nanoseconds
	refused(t, Tuple2(String, String), "61")
	refused(t, Tuple2(String, String), "6100")
	refused(t, Tuple2(String, String), "610002")
	if strconv.IntSize == 32 {
		refused(t, Int, "8000000080000000")
		refused(t, Int, "7fffffff7fffffff")
	}
}

func refused[K any](t *testing.T, c KeyCodec[K], src string) {
	t.Helper()
	b, _ := hex.DecodeString(src)
	if key, _, err := c.decode(b, false); err == nil {
		t.Errorf("%T: %s is %v", c, src, key)
	}
}

// Each fuzz target takes two keys, and bytes that may be a key.
func FuzzKeys_Strings(f *testing.F) {
	f.Add("", "\x00", []byte("a\x00\xffb\x00\x01"))
	f.Add("a", "a\x00", []byte{0})
	f.Add("a\xff", "a\x00\xff", []byte{0, 0xff, 0, 1, 0, 1})
	f.Fuzz(func(t *testing.T, a, b string, src []byte) {
		sorts(t, String, a, b, strings.Compare, src)
		sorts(t, Bytes, []byte(a), []byte(b), bytes.Compare, src)
	})
}

func FuzzKeys_Numbers(f *testing.F) {
	f.Add(uint64(0), uint64(1), []byte("12345678"))
	f.Add(uint64(math.MaxInt64), uint64(1<<63), []byte{0x80, 0, 0, 0, 0, 0, 0, 0})
	f.Add(uint64(math.MaxUint64), uint64(math.MaxInt32), []byte{2})
	f.Add(math.Float64bits(math.Inf(-1)), math.Float64bits(-1.5), []byte{0x7f, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff})
	f.Add(math.Float64bits(math.Copysign(0, -1)), math.Float64bits(0), []byte{1, 2, 3, 4})
	f.Fuzz(func(t *testing.T, a, b uint64, src []byte) {
		sorts(t, Uint64, a, b, cmp.Compare, src)
		sorts(t, Uint32, uint32(a), uint32(b), cmp.Compare, src)
		sorts(t, Int64, int64(a), int64(b), cmp.Compare, src)
		sorts(t, Int32, int32(a), int32(b), cmp.Compare, src)
		sorts(t, Int, int(a), int(b), cmp.Compare, src)
		sorts(t, Bool, a%2 == 1, b%2 == 1, func(a, b bool) int { return number01(a) - number01(b) }, src)
		if x, y := math.Float64frombits(a), math.Float64frombits(b); x == x && y == y {
			sorts(t, Float64, x, y, cmp.Compare, src)
		}
	})
}

func number01(b bool) int {
	if b {
		return 1
	}
	return 0
}

func FuzzKeys_Times(f *testing.F) {
	f.Add(int64(0), int64(0), int64(-1), int64(999999999), []byte("123456789012"))
	f.Add(int64(-yearOne), int64(0), int64(math.MinInt64), int64(1), []byte{})
	f.Add(int64(math.MaxInt64), int64(0), int64(math.MaxInt64-yearOne), int64(1), []byte{})
	f.Fuzz(func(t *testing.T, a, na, b, nb int64, src []byte) {
		x, y := time.Unix(a, na), time.Unix(b, nb).UTC()
		sorts(t, Time, x, y, time.Time.Compare, src)
	})
}

func FuzzKeys_Tuples(f *testing.F) {
	f.Add("a", "", int64(0), "a\x00", "", int64(-1), []byte("a\x00\x01b\x00\x01\x80\x00\x00\x00\x00\x00\x00\x00"))
	f.Add("a\x00", "b", int64(0), "a", "\xff", int64(1), []byte("\x00\x01\x00"))
	f.Fuzz(func(t *testing.T, a1, a2 string, a3 int64, b1, b2 string, b3 int64, src []byte) {
		type three = Pair[string, Pair[[]byte, int64]]
		c := Tuple2(String, Tuple2(Bytes, Int64))
		x, y := three{a1, Pair[[]byte, int64]{[]byte(a2), a3}}, three{b1, Pair[[]byte, int64]{[]byte(b2), b3}}
		sorts(t, c, x, y, func(x, y three) int {
			return cmp.Or(strings.Compare(x.First, y.First), bytes.Compare(x.Second.First, y.Second.First), cmp.Compare(x.Second.Second, y.Second.Second))
		}, src)
		flipped := Convert(c, func(k three) three { k.Second.Second = -1 - k.Second.Second; return k },
			func(k three) (three, error) { k.Second.Second = -1 - k.Second.Second; return k, nil })
		sorts(t, flipped, x, y, func(x, y three) int {
			return cmp.Or(strings.Compare(x.First, y.First), bytes.Compare(x.Second.First, y.Second.First), cmp.Compare(y.Second.Second, x.Second.Second))
		}, src)
	})
}

// decoding is what decoding may take.
var decoding = fuzzing.Limit{Bytes: 4 << 10, PerByte: 16}

// sorts checks that two keys sort as their bytes do, whatever follows them, and come back from these; and that bytes are
// no key, or just those of the key that they are.
func sorts[K any](t *testing.T, c KeyCodec[K], a, b K, compare func(a, b K) int, src []byte) {
	t.Helper()
	for _, part := range []bool{false, true} {
		x, errX := c.append(nil, a, part)
		y, errY := c.append(nil, b, part)
		if errX != nil || errY != nil {
			t.Fatalf("%T: %v, %v", c, errX, errY)
		}
		want := compare(a, b)
		if got := bytes.Compare(x, y); got != want {
			t.Fatalf("%T, part %v: % x (%v) compares with % x (%v) as %d, want %d", c, part, x, a, y, b, got, want)
		}
		if part && want != 0 {
			if bytes.HasPrefix(x, y) || bytes.HasPrefix(y, x) {
				t.Fatalf("%T: % x and % x begin the same", c, x, y)
			}
		}
		tail := ""
		if part {
			tail = "\x00tail"
		}
		if again, rest, err := c.decode(append(x, tail...), part); err != nil || compare(again, a) != 0 || string(rest) != tail {
			t.Fatalf("%T, part %v: % x is %v, %q, %v; want %v", c, part, x, again, rest, err, a)
		}
		decoding.Check(t, len(src), func() {
			key, rest, err := c.decode(src, part)
			if err != nil {
				return
			}
			if !part && len(rest) > 0 {
				t.Fatalf("%T: % x leaves % x", c, src, rest)
			}
			if b, err := c.append(nil, key, part); err != nil || !bytes.Equal(b, src[:len(src)-len(rest)]) {
				t.Fatalf("%T, part %v: % x is %v, whose bytes are % x, %v", c, part, src, key, b, err)
			}
		})
	}
}
