package bloom

import (
	"bytes"
	"encoding/binary"
	"errors"
	"math"
	"math/big"
	"testing"

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

// Values that no writer makes are refused, also with a checksum that fits.
func TestFilterFormat_Impossible(t *testing.T) {
	filter := filtertest.Marshal(t, filterOf(t, FilterOptions{Keys: 20}, 0, 20))
	put32, put64 := binary.LittleEndian.PutUint32, binary.LittleEndian.PutUint64
	n := len(filter) - form.TrailerLen
	for _, c := range []struct {
		name   string
		change func(f []byte)
	}{
		{"keys", func(f []byte) { put32(f[n+8:], 21) }},
		{"no probes", func(f []byte) { f[n+3] = 0 }},
		{"too many probes", func(f []byte) { f[n+3] = MaxProbes + 1 }},
		{"reserved", func(f []byte) { f[n+4] = 1 }},
		{"bits", func(f []byte) { put64(f[n+12:], 257) }},
		{"no bits", func(f []byte) { put64(f[n+12:], 0) }},
		{"bits of another length", func(f []byte) { put64(f[n+12:], 512) }},
		{"most bits", func(f []byte) { put64(f[n+12:], math.MaxUint64-63) }},
		{"count", func(f []byte) { put64(f[n-8:], 1<<40) }},
	} {
		f := bytes.Clone(filter)
		c.change(f)
		if _, err := OpenFilter(filtertest.Reseal(f)); !errors.Is(err, ErrDamaged) {
			t.Errorf("%s: %v", c.name, err)
		}
	}
	// A filter without words would have no bit to ask.
	if _, err := OpenFilter(filtertest.Reseal(append(make([]byte, 8), filter[n:]...))); !errors.Is(err, ErrDamaged) {
		t.Errorf("no words: %v", err)
	}
}
