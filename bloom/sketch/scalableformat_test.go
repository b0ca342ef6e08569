package sketch

import (
	"bytes"
	"encoding"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"math"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/shaledb/shale/bloom"
	"github.com/shaledb/shale/bloom/internal/filtertest"
	"github.com/shaledb/shale/bloom/internal/form"
)

func readScalable(b []byte) (encoding.BinaryUnmarshaler, error) {
	s := new(Scalable)
	return s, s.UnmarshalBinary(b)
}

// The worked examples in the document are the golden filters, and hold their keys.
func TestScalableFormat_WorkedExample(t *testing.T) {
	text, err := os.ReadFile("../../docs/FORMAT.md")
	if err != nil {
		t.Fatal(err)
	}
	row := regexp.MustCompile(`(?m)^((?:[0-9a-f]{2} {1,2})+) `)
	for _, c := range []struct {
		heading, golden string
		read            func([]byte) (encoding.BinaryUnmarshaler, error)
		keys            int
	}{
		{"\n#### Kind 6", "scalable-example", readScalable, 3},
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
		filtertest.CheckHas(t, f.(bloom.Set), 0, c.keys)
	}
}

// A filter whose hash function has no id cannot be written, and the zero filter neither.
func TestScalableFormat_Unwritable(t *testing.T) {
	s := scalableOf(t, 10, 0.01, ScalableOptions{Hash: ownHash}, 5)
	if _, err := s.MarshalBinary(); !errors.Is(err, bloom.ErrNoHashID) {
		t.Errorf("Scalable: %v", err)
	}
	if _, err := new(Scalable).MarshalBinary(); err == nil {
		t.Error("the zero Scalable is written")
	}
}

// A changed, missing or additional byte is an error.
func TestScalableFormat_Damaged(t *testing.T) {
	scalable := scalableOf(t, 10, 0.01, ScalableOptions{Hasher: hasherOf(bloom.HashSipHash, 7)}, 60)
	for _, c := range []struct {
		name string
		good []byte
		read func([]byte) (encoding.BinaryUnmarshaler, error)
	}{
		{"Scalable", filtertest.Marshal(t, scalable), readScalable},
	} {
		refused := func(what string, b []byte) {
			t.Helper()
			if _, err := c.read(b); errors.Is(err, bloom.ErrDamaged) == errors.Is(err, bloom.ErrUnknown) {
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
func TestScalableFormat_Impossible(t *testing.T) {
	scalable := filtertest.Marshal(t, scalableOf(t, 10, 0.01, ScalableOptions{}, 60)) // three layers
	put32, put64 := binary.LittleEndian.PutUint32, binary.LittleEndian.PutUint64
	m := len(scalable) - form.TrailerLen
	layers := m - 8 - 3*layerLen
	for _, c := range []struct {
		name   string
		change func(s []byte)
		want   error
	}{
		{"kind", func(s []byte) { s[m] = 0 }, bloom.ErrUnknown},
		{"each other's kind", func(s []byte) { s[m] = form.KindFilter }, bloom.ErrUnknown},
		{"version 0", func(s []byte) { s[m+1] = 0 }, bloom.ErrUnknown},
		{"version 2", func(s []byte) { s[m+1] = 2 }, bloom.ErrUnknown},
		{"hash 0", func(s []byte) { s[m+2] = 0 }, bloom.ErrUnknown},
		{"next hash", func(s []byte) { s[m+2] = 4 }, bloom.ErrUnknown},
		{"a caller's hash", func(s []byte) { s[m+2] = 200 }, bloom.ErrUnknown},
		{"murmur3 with a seed", func(s []byte) { s[m+20] = 1 }, bloom.ErrUnknown},
		{"keys", func(s []byte) { put32(s[m+8:], 61) }, bloom.ErrDamaged},
		{"no probes", func(s []byte) { put64(s[layers+24:], 0) }, bloom.ErrDamaged},
		{"too many probes", func(s []byte) { put64(s[layers+24:], bloom.MaxProbes+1) }, bloom.ErrDamaged},
		{"reserved", func(s []byte) { s[m+16] = 1 }, bloom.ErrDamaged},
		{"bits", func(s []byte) { put64(s[layers+16:], 63) }, bloom.ErrDamaged},
		{"no bits", func(s []byte) { put64(s[layers+16:], 0) }, bloom.ErrDamaged},
		{"bits of another length", func(s []byte) { put64(s[layers+16:], 64) }, bloom.ErrDamaged},
		{"most bits", func(s []byte) { put64(s[layers+16:], math.MaxUint64-63) }, bloom.ErrDamaged},
		{"count", func(s []byte) { put64(s[layers+8:], 1<<40) }, bloom.ErrDamaged},
		{"no layers", func(s []byte) { put32(s[m+12:], 0) }, bloom.ErrDamaged},
		{"too many layers", func(s []byte) { put32(s[m+12:], maxLayers+1) }, bloom.ErrDamaged},
		{"most layers", func(s []byte) { put32(s[m+12:], math.MaxUint32) }, bloom.ErrDamaged},
		{"layers that do not scale", func(s []byte) { s[m+3] = 1 }, bloom.ErrDamaged},
		{"flags", func(s []byte) { s[m+3] = 2 }, bloom.ErrDamaged},
		{"expansion", func(s []byte) { put32(s[m+4:], 0) }, bloom.ErrDamaged},
		{"large expansion", func(s []byte) { put32(s[m+4:], MaxExpansion+1) }, bloom.ErrDamaged},
		{"rate", func(s []byte) { put64(s[m-8:], math.Float64bits(1)) }, bloom.ErrDamaged},
		{"NaN as a rate", func(s []byte) { put64(s[m-8:], math.Float64bits(math.NaN())) }, bloom.ErrDamaged},
		{"more keys than a layer takes", func(s []byte) { put64(s[layers+8:], 11); put64(s[layers+2*layerLen+8:], 29) }, bloom.ErrDamaged},
		{"capacity", func(s []byte) { put64(s[layers:], 0) }, bloom.ErrDamaged},
	} {
		s := bytes.Clone(scalable)
		c.change(s)
		if _, err := readScalable(filtertest.Reseal(s)); !errors.Is(err, c.want) {
			t.Errorf("Scalable, %s: %v, want %v", c.name, err, c.want)
		}
	}
}
