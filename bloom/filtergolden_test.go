package bloom

import (
	"bytes"
	"encoding"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/shaledb/shale/bloom/internal/filtertest"
	"github.com/shaledb/shale/bloom/internal/form"
	"github.com/shaledb/shale/internal/fuzzing"
)

// filterGoldens are golden bytes of the types that keys can be added to.
func filterGoldens(t testing.TB) map[string]encoding.BinaryMarshaler {
	sip := hasherOf(HashSipHash, 0x0123456789abcdef)
	return map[string]encoding.BinaryMarshaler{
		"filter-none":    New(0, 0.01),
		"filter-example": filterOf(t, FilterOptions{Bits: 128, Probes: 6}, 0, 2),
		"filter-hundred": filterOf(t, FilterOptions{Keys: 100}, 0, 100),
		"filter-siphash": filterOf(t, FilterOptions{Keys: 100, FPR: 1e-6, Hasher: sip}, 0, 100),
		"filter-own":     filterOf(t, ownOptions(200), 0, 100),
	}
}

func TestGolden_Filters(t *testing.T) {
	for name, made := range filterGoldens(t) {
		b := filtertest.Marshal(t, made)
		kept := filtertest.ReadGolden(t, name+"-v1.filter", func() []byte { return b })
		if !bytes.Equal(b, kept) {
			t.Errorf("%s: the filter's bytes changed", name)
		}
		into := made.(encoding.BinaryUnmarshaler) // which knows a caller's hash
		if err := into.UnmarshalBinary(kept); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if !bytes.Equal(filtertest.Marshal(t, made), kept) {
			t.Errorf("%s: not the same after it was read", name)
		}
		if bytes.Contains(kept[len(kept)-form.TrailerLen:], []byte{100, 0, 0, 0}) {
			filtertest.CheckHas(t, made.(filtertest.Set), 0, 100)
		}
	}
}

// The decoders copy their input, and need little other memory.
var decodeLimit = fuzzing.Limit{Bytes: 8 << 10, PerByte: 2}

func addFilterGoldens(f *testing.F) {
	f.Helper()
	for _, pattern := range []string{"filter-*.filter"} {
		files, err := filepath.Glob("testdata/" + pattern)
		if err != nil || len(files) == 0 {
			f.Fatalf("no golden filters: %v", err)
		}
		for _, name := range files {
			b, err := os.ReadFile(name)
			if err != nil {
				f.Fatal(err)
			}
			f.Add(b)
			f.Add(b[len(b)-form.TrailerLen:])
		}
	}
	f.Add([]byte{})
}

// FuzzFilter gives bytes to the decoder, as they are and with a checksum that fits. A
// filter that can be read is used, and writes the same bytes again.
func FuzzFilter(f *testing.F) {
	addFilterGoldens(f)
	f.Fuzz(func(t *testing.T, b []byte) {
		for _, b := range [][]byte{b, filtertest.Reseal(b)} {
			g := filterOf(t, ownOptions(200), 0, 1)
			if !probeUnmarshal(t, b, g) {
				continue
			}
			if p := g.FPR(); !(p >= 0 && p <= 1) || !(g.EstimatedCount() >= 0) || !(g.EstimatedFillRatio() >= 0) {
				t.Fatalf("FPR() = %v, EstimatedCount() = %v", p, g.EstimatedCount())
			}
			had, one := g.MayContain(b), g.bits.Ones()
			if g.CheckAndAdd(b) != had || !g.MayContain(b) || had != (one == g.bits.Ones()) {
				t.Fatalf("%x: CheckAndAdd", b)
			}
			if err := g.Union(g.Clone()); err != nil {
				t.Fatal(err)
			}
		}
	})
}

func probeUnmarshal(t *testing.T, b []byte, into interface {
	encoding.BinaryMarshaler
	encoding.BinaryUnmarshaler
}) (opened bool) {
	kept := bytes.Clone(b)
	before, _ := into.MarshalBinary()
	var err error
	decodeLimit.Check(t, len(b), func() { err = into.UnmarshalBinary(b) })
	if !bytes.Equal(b, kept) {
		t.Fatal("decoding changed the bytes")
	}
	again, failed := into.MarshalBinary()
	if err != nil {
		if errors.Is(err, ErrDamaged) == errors.Is(err, ErrUnknown) || !bytes.Equal(again, before) {
			t.Fatalf("UnmarshalBinary: %v", err)
		}
		return false
	}
	if failed != nil || !bytes.Equal(again, b) {
		t.Fatalf("written again %x, %v", again, failed)
	}
	return true
}
