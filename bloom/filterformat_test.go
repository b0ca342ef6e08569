package bloom

import (
	"bytes"
	"encoding"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"math"
	"math/big"
	"os"
	"regexp"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/shaledb/shale/bloom/internal/filtertest"
	"github.com/shaledb/shale/bloom/internal/form"
)

// specFilter adds keys to words as docs/FORMAT.md says, with big numbers.
func specFilter(m uint64, k int, hashes [][2]uint64) []byte {
	body := make([]byte, m/8)
	word := new(big.Int).Lsh(big.NewInt(1), 64)
	for _, h := range hashes {
		h1, h2 := new(big.Int).SetUint64(h[0]), new(big.Int).SetUint64(h[1])
		z := new(big.Int).SetUint64(h[0]%(1<<32)*(1<<32) + h[1]%(1<<32))
		c, _ := new(big.Int).SetString("9e3779b97f4a7c15", 16)
		for i := range int64(k) {
			x := new(big.Int).Set(h1)
			x.Add(x, new(big.Int).Mul(big.NewInt(i), h2))
			x.Add(x, new(big.Int).Mul(big.NewInt(i*(i-1)/2), z))
			x.Add(x, new(big.Int).Mul(big.NewInt(i*(i-1)*(i-2)/6), c))
			x.Mod(x, word)
			bit := x.Mul(x, new(big.Int).SetUint64(m)).Rsh(x, 64).Uint64()
			body[bit/8] |= 1 << (bit % 8)
		}
	}
	return body
}

func TestFilterFormat_AsDocumented(t *testing.T) {
	for _, o := range append(everyFilter(), FilterOptions{Keys: 50, Probes: MaxProbes}) {
		f := filterOf(t, o, 0, 300)
		var hashes [][2]uint64
		for i := range 300 {
			h1, h2 := f.Hash(filtertest.Numbered(i))
			hashes = append(hashes, [2]uint64{h1, h2})
		}
		b := filtertest.Marshal(t, f)
		if !bytes.Equal(b[:f.SizeBytes()], specFilter(f.bits.M, f.bits.K, hashes)) {
			t.Errorf("%+v: the bits are not as documented", o)
		}
		if len(b) != f.SizeBytes()+40 {
			t.Errorf("%+v: %d bytes", o, len(b))
		}
	}
}

// The worked examples in the document are the golden filters, and hold their keys.
func TestFilterFormat_WorkedExamples(t *testing.T) {
	text, err := os.ReadFile("../docs/FORMAT.md")
	if err != nil {
		t.Fatal(err)
	}
	row := regexp.MustCompile(`(?m)^((?:[0-9a-f]{2} {1,2})+) `)
	for _, c := range []struct {
		heading, golden string
		read            func([]byte) (encoding.BinaryUnmarshaler, error)
		keys            int
	}{
		{"\n#### Kind 3", "filter-example", readFilter, 2},
	} {
		_, part, _ := strings.Cut(string(text), c.heading)
		part, _, _ = strings.Cut(part, "\n#")
		var got []byte
		for _, m := range row.FindAllStringSubmatch(part, -1) {
			b, err := hex.DecodeString(strings.ReplaceAll(m[1], " ", ""))
			if err != nil {
				t.Fatal(err)
			}
			got = append(got, b...)
		}
		want, err := os.ReadFile("testdata/" + c.golden + "-v1.filter")
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(got, want) {
			t.Errorf("%s: the worked example is\n%x, want\n%x", c.heading, got, want)
		}
		f, err := c.read(got)
		if err != nil {
			t.Fatal(err)
		}
		filtertest.CheckHas(t, f.(filtertest.Set), 0, c.keys)
	}
}

// An error of a writer or of a reader is returned.
func TestFilterFormat_Failures(t *testing.T) {
	f := New(100_000, 0.01)
	size := int64(form.FrameLen + len(filtertest.Marshal(t, f)))
	for _, room := range []int64{0, 20, 100, size - 40, size - 1} {
		if n, err := f.WriteTo(&filtertest.ShortWriter{Room: room}); !errors.Is(err, io.ErrShortWrite) || n != room {
			t.Errorf("room for %d: WriteTo = %d, %v", room, n, err)
		}
	}
	if n, err := f.ReadFrom(iotest.ErrReader(io.ErrNoProgress)); n != 0 || !errors.Is(err, io.ErrNoProgress) {
		t.Errorf("ReadFrom = %d, %v", n, err)
	}
}

func readFilter(b []byte) (encoding.BinaryUnmarshaler, error) {
	f := new(Filter)
	return f, f.UnmarshalBinary(b)
}

// A changed, missing or additional byte is an error.
func TestFilterFormat_Damaged(t *testing.T) {
	for _, c := range []struct {
		name string
		good []byte
		read func([]byte) (encoding.BinaryUnmarshaler, error)
	}{
		{"Filter", filtertest.Marshal(t, filterOf(t, FilterOptions{Keys: 20}, 0, 20)), readFilter},
	} {
		refused := func(what string, b []byte) {
			t.Helper()
			if _, err := c.read(b); errors.Is(err, ErrDamaged) == errors.Is(err, ErrUnknown) {
				t.Errorf("%s %s: %v", c.name, what, err)
			}
		}
		for i := range c.good {
			b := bytes.Clone(c.good)
			for _, change := range []byte{1, 2, 4, 8, 16, 32, 64, 128, 255} {
				b[i] = c.good[i] ^ change
				refused(fmt.Sprintf("byte %d changed", i), b)
			}
			refused("cut at the end", c.good[:i])
			if i > 0 {
				refused("cut at the front", c.good[i:])
			}
		}
		refused("more behind", append(bytes.Clone(c.good), 0))
		refused("more in front", append(make([]byte, 8), c.good...))
	}
}

// Values that no writer makes are refused, also with a checksum that fits.
func TestFilterFormat_Impossible(t *testing.T) {
	filter := filtertest.Marshal(t, filterOf(t, FilterOptions{Keys: 20}, 0, 20))
	put32, put64 := binary.LittleEndian.PutUint32, binary.LittleEndian.PutUint64
	n := len(filter) - form.TrailerLen
	for _, c := range []struct {
		name   string
		change func(f []byte)
		want   error
	}{
		{"kind", func(f []byte) { f[n] = 0 }, ErrUnknown},
		{"each other's kind", func(f []byte) { f[n] = form.KindScalable }, ErrUnknown},
		{"version 0", func(f []byte) { f[n+1] = 0 }, ErrUnknown},
		{"version 2", func(f []byte) { f[n+1] = 2 }, ErrUnknown},
		{"hash 0", func(f []byte) { f[n+2] = 0 }, ErrUnknown},
		{"next hash", func(f []byte) { f[n+2] = 4 }, ErrUnknown},
		{"a caller's hash", func(f []byte) { f[n+2] = 200 }, ErrUnknown},
		{"murmur3 with a seed", func(f []byte) { f[n+20] = 1 }, ErrUnknown},
		{"keys", func(f []byte) { put32(f[n+8:], 21) }, ErrDamaged},
		{"no probes", func(f []byte) { f[n+3] = 0 }, ErrDamaged},
		{"too many probes", func(f []byte) { f[n+3] = MaxProbes + 1 }, ErrDamaged},
		{"reserved", func(f []byte) { f[n+4] = 1 }, ErrDamaged},
		{"bits", func(f []byte) { put64(f[n+12:], 257) }, ErrDamaged},
		{"no bits", func(f []byte) { put64(f[n+12:], 0) }, ErrDamaged},
		{"bits of another length", func(f []byte) { put64(f[n+12:], 512) }, ErrDamaged},
		{"most bits", func(f []byte) { put64(f[n+12:], math.MaxUint64-63) }, ErrDamaged},
		{"count", func(f []byte) { put64(f[n-8:], 1<<40) }, ErrDamaged},
	} {
		f := bytes.Clone(filter)
		c.change(f)
		if _, err := readFilter(filtertest.Reseal(f)); !errors.Is(err, c.want) {
			t.Errorf("Filter, %s: %v, want %v", c.name, err, c.want)
		}
	}
	// A filter without words would have no bit to ask.
	if _, err := readFilter(filtertest.Reseal(append(make([]byte, 8), filter[n:]...))); !errors.Is(err, ErrDamaged) {
		t.Errorf("no words: %v", err)
	}
}
