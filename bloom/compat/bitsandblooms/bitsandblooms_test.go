package bitsandblooms

import (
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
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

const vector = "bits-and-blooms-1000-p01"

func mustNew(t testing.TB, n uint64, p float64) *Filter {
	t.Helper()
	f, err := NewWithEstimates(n, p)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func keys(n int) *Filter {
	f, err := NewWithEstimates(uint64(n), 0.01)
	if err != nil {
		panic(err)
	}
	for i := range n {
		f.AddString(fmt.Sprintf("key-%d", i))
	}
	return f
}

// A filter that the peer wrote in two ways gives the same answers here, and is written in
// the same two ways when it is built again.
func TestVectors(t *testing.T) {
	b, j := filtertest.File(t, vector+".bf"), filtertest.File(t, vector+".json")
	var fromBytes, fromJSON Filter
	if err := fromBytes.UnmarshalBinary(b); err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(j, &fromJSON); err != nil {
		t.Fatal(err)
	}
	for what, f := range map[string]*Filter{"read": &fromBytes, "read from JSON": &fromJSON, "built anew": keys(1000)} {
		if !bytes.Equal(filtertest.Marshal(t, f), b) {
			t.Errorf("%s it is written otherwise", what)
		}
		if again, err := json.Marshal(f); err != nil || !bytes.Equal(again, bytes.TrimSpace(j)) {
			t.Errorf("%s its JSON is another: %v", what, err)
		}
		filtertest.Compare(t, vector+".expect.tsv", 2, func(row []string) bool { return f.MayContainString(row[0]) })
	}
	t.Logf("m %d, k %d, read, written and built anew bit for bit, as bytes and as JSON", fromBytes.Cap(), fromBytes.K())
}

func TestLocation_AsThePeer(t *testing.T) {
	rows := filtertest.Rows(t, "bits-and-blooms-locations-k8.tsv", 9)
	for _, row := range rows {
		key, err := hex.DecodeString(row[0])
		if err != nil {
			t.Fatal(err)
		}
		h := hashes(key)
		for i := range uint64(8) {
			x := location(&h, i)
			if strconv.FormatUint(x, 10) != row[1+i] {
				t.Errorf("location %d of %x = %d, want %s", i, key, x, row[1+i])
			}
		}
	}
	t.Logf("%d locations of %d keys", 8*len(rows), len(rows))
}

// The filter of the package comment, and a small one, are the same bytes for ever.
func TestGolden(t *testing.T) {
	one, err := New(64, 3)
	if err != nil {
		t.Fatal(err)
	}
	one.AddString("a")
	if got, want := hex.EncodeToString(filtertest.Marshal(t, one)), "000000000000004000000000000000030000000000000040"+"0400000000000200"; got != want {
		t.Errorf("the filter of one key is %s, want %s", got, want)
	}
	// The filter of 1000 keys is the peer's. It stands here for machines without
	// the vectors.
	for name, f := range map[string]*Filter{"thirty": keys(30), vector: keys(1000)} {
		filtertest.Golden(t, name+".bf", filtertest.Marshal(t, f))
		j, err := json.Marshal(f)
		if err != nil {
			t.Fatal(err)
		}
		filtertest.Golden(t, name+".json", j)
	}
}

func TestEstimateParameters(t *testing.T) {
	for _, c := range []struct {
		n    uint64
		p    float64
		m, k uint64
	}{{1000, 0.01, 9586, 7}, {1, 0.5, 2, 2}, {1_000_000, 0.001, 14377588, 10}} {
		if m, k := EstimateParameters(c.n, c.p); m != c.m || k != c.k {
			t.Errorf("EstimateParameters(%d, %v) = %d, %d, want %d, %d", c.n, c.p, m, k, c.m, c.k)
		}
	}
	for _, f := range []func() (*Filter, error){
		func() (*Filter, error) { return NewWithEstimates(0, 0.1) },
		func() (*Filter, error) { return NewWithEstimates(10, 0) },
		func() (*Filter, error) { return NewWithEstimates(10, 1) },
		func() (*Filter, error) { return NewWithEstimates(10, math.NaN()) },
		func() (*Filter, error) { return NewWithEstimates(math.MaxUint64, 1e-9) },
		func() (*Filter, error) { return New(math.MaxUint64, 1) },
		func() (*Filter, error) { return New(1, 1<<17) },
	} {
		if f, err := f(); f != nil || !errors.Is(err, ErrParameters) {
			t.Errorf("a filter that cannot be: %v", err)
		}
	}
	if f, err := New(0, 0); err != nil || f.Cap() != 1 || f.K() != 1 {
		t.Errorf("New(0, 0) = %v, %v", f, err)
	}
}

func TestFilter(t *testing.T) {
	f := mustNew(t, 1000, 1e-6)
	if f.CheckAndAdd([]byte("one")) || !f.CheckAndAdd([]byte("one")) || !f.MayContainString("one") || f.MayContainString("two") {
		t.Error("CheckAndAdd tells wrongly")
	}
	for i := range 500 {
		f.AddString(strconv.Itoa(i))
	}
	if n := f.EstimatedCount(); n < 490 || n > 512 {
		t.Errorf("EstimatedCount() = %v, want about 501", n)
	}
	if r := f.FillRatio(); r < 0.25 || r > 0.35 || f.FPR() != math.Pow(r, float64(f.K())) {
		t.Errorf("FillRatio() = %v, FPR() = %v", r, f.FPR())
	}
	f.Reset()
	if f.MayContainString("one") || f.EstimatedCount() != 0 {
		t.Error("Reset leaves something")
	}
	full, err := New(10, 1)
	if err != nil {
		t.Fatal(err)
	}
	for i := range 500 {
		full.AddString(strconv.Itoa(i))
	}
	if full.FPR() != 1 || full.EstimatedCount() != math.Inf(1) {
		t.Errorf("a full filter: FPR() = %v, EstimatedCount() = %v", full.FPR(), full.EstimatedCount())
	}
}

// A longer bitset, all of whose bits are set, is cut.
func TestUnion_LongerBitset(t *testing.T) {
	var long Filter
	if err := long.UnmarshalBinary(words(100, 3, 192, math.MaxUint64, math.MaxUint64, math.MaxUint64)); err != nil {
		t.Fatal(err)
	}
	short, err := New(100, 3)
	if err != nil {
		t.Fatal(err)
	}
	if err := short.Union(&long); err != nil || !bytes.Equal(filtertest.Marshal(t, short), words(100, 3, 100, math.MaxUint64, 1<<36-1)) {
		t.Errorf("merged with a longer bitset: %v, %x", err, filtertest.Marshal(t, short))
	}
}

// words returns big-endian words.
func words(vs ...uint64) (b []byte) {
	for _, v := range vs {
		b = binary.BigEndian.AppendUint64(b, v)
	}
	return b
}

func TestDamage(t *testing.T) {
	f := keys(30)
	good := filtertest.Marshal(t, f)
	for _, c := range []struct {
		what string
		b    []byte
		is   error
		says string
	}{
		{"nothing", nil, io.EOF, "after 0 bytes"},
		{"half a header", good[:23], io.ErrUnexpectedEOF, "after 23 bytes"},
		{"cut", good[:len(good)-1], bloom.ErrDamaged, "a bitset of 288 bits in 39 bytes"},
		{"too long", append(bytes.Clone(good), 0, 0, 0, 0, 0, 0, 0, 0), bloom.ErrDamaged, "288 bits in 48 bytes"},
		{"no bits", words(0, 3, 0), bloom.ErrDamaged, "0 bits"},
		{"no probes", words(64, 0, 64, 1), bloom.ErrDamaged, "0 probes"},
		{"many probes", words(64, 1<<60, 64, 1), bloom.ErrDamaged, "probes"},
		{"few bits", words(65, 3, 64, 1), bloom.ErrDamaged, "65 bits, but a bitset of 64"},
		{"many bits", words(math.MaxUint64, 3, math.MaxUint64), bloom.ErrDamaged, "a bitset of 18446744073709551615 bits"},
		{"bits behind", words(3, 3, 3, 8), bloom.ErrDamaged, "bits behind the last of 3"},
	} {
		again := f.Clone()
		err := again.UnmarshalBinary(c.b)
		if err == nil || !errors.Is(err, c.is) || !errors.Is(err, bloom.ErrDamaged) || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v", c.what, err)
		}
		if !bytes.Equal(filtertest.Marshal(t, again), good) {
			t.Errorf("%s: the filter has changed", c.what)
		}
		if len(c.b) < 24 {
			continue
		}
		j := fmt.Sprintf(`{"m":%d,"k":%d,"b":%q}`, binary.BigEndian.Uint64(c.b), binary.BigEndian.Uint64(c.b[8:]), base64.URLEncoding.EncodeToString(c.b[16:]))
		if err := again.UnmarshalJSON([]byte(j)); !errors.Is(err, bloom.ErrDamaged) || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s, in JSON: %v", c.what, err)
		}
	}
	for _, j := range []string{"", "null", "{}", "[]", `{"m":-1}`, `{"m":1,"k":1,"b":"*"}`, `{"m":1.5}`} {
		if err := new(Filter).UnmarshalJSON([]byte(j)); !errors.Is(err, bloom.ErrDamaged) {
			t.Errorf("%s: %v", j, err)
		}
	}
	broken := errors.New("the disk is broken")
	if _, err := new(Filter).ReadFrom(io.MultiReader(bytes.NewReader(good[:40]), iotest.ErrReader(broken))); !errors.Is(err, broken) || errors.Is(err, bloom.ErrDamaged) {
		t.Errorf("an error of the reader: %v", err)
	}
}
