package bloom

import (
	"bytes"
	"encoding"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/shaledb/shale/internal/fuzzing"
)

// filterGoldens are golden bytes of the types that keys can be added to.
func filterGoldens(t testing.TB) map[string]encoding.BinaryMarshaler {
	sip := hasherOf(HashSipHash, 0x0123456789abcdef)
	return map[string]encoding.BinaryMarshaler{
		"filter-none":       New(0, 0.01),
		"filter-example":    filterOf(t, FilterOptions{Bits: 128, Probes: 6}, 0, 2),
		"filter-hundred":    filterOf(t, FilterOptions{Keys: 100}, 0, 100),
		"filter-siphash":    filterOf(t, FilterOptions{Keys: 100, FPR: 1e-6, Hasher: sip}, 0, 100),
		"filter-own":        filterOf(t, ownOptions(200), 0, 100),
		"scalable-example":  scalableOf(t, 2, 0.1, ScalableOptions{}, 3),
		"scalable-none":     scalableOf(t, 10, 0.01, ScalableOptions{NonScaling: true}, 0),
		"scalable-siphash":  scalableOf(t, 10, 0.01, ScalableOptions{Hasher: sip}, 100),
		"scalable-constant": scalableOf(t, 40, 0.001, ScalableOptions{Expansion: 1}, 100),
	}
}

func TestGolden_Filters(t *testing.T) {
	for name, made := range filterGoldens(t) {
		b := marshal(t, made)
		kept := readGolden(t, name+"-v1.filter", func() []byte { return b })
		if !bytes.Equal(b, kept) {
			t.Errorf("%s: the filter's bytes changed", name)
		}
		into := made.(encoding.BinaryUnmarshaler) // which knows a caller's hash
		if err := into.UnmarshalBinary(kept); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if !bytes.Equal(marshal(t, made), kept) {
			t.Errorf("%s: not the same after it was read", name)
		}
		if bytes.Contains(kept[len(kept)-trailerLen:], []byte{100, 0, 0, 0}) {
			checkHas(t, made.(Asker), 0, 100)
		}
	}
}

// The decoders copy their input, and need little other memory.
var decodeLimit = fuzzing.Limit{Bytes: 8 << 10, PerByte: 2}

func addFilterGoldens(f *testing.F) {
	f.Helper()
	for _, pattern := range []string{"filter-*.filter", "scalable-*.filter"} {
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
			f.Add(b[len(b)-trailerLen:])
		}
	}
	f.Add([]byte{})
}

// FuzzFilter gives bytes to the decoder, as they are and with a checksum that fits. A
// filter that can be read is used, and writes the same bytes again.
func FuzzFilter(f *testing.F) {
	addFilterGoldens(f)
	f.Fuzz(func(t *testing.T, b []byte) {
		for _, b := range [][]byte{b, reseal(b)} {
			g := filterOf(t, ownOptions(200), 0, 1)
			if !probeUnmarshal(t, b, g) {
				continue
			}
			if p := g.FPR(); !(p >= 0 && p <= 1) || !(g.EstimatedCount() >= 0) || !(g.EstimatedFillRatio() >= 0) {
				t.Fatalf("FPR() = %v, EstimatedCount() = %v", p, g.EstimatedCount())
			}
			had, one := g.MayContain(b), g.ones()
			if g.CheckAndAdd(b) != had || !g.MayContain(b) || had != (one == g.ones()) {
				t.Fatalf("%x: CheckAndAdd", b)
			}
			if err := g.Merge(g.Clone()); err != nil {
				t.Fatal(err)
			}
		}
	})
}

// FuzzScalable is FuzzFilter for Scalable.
func FuzzScalable(f *testing.F) {
	addFilterGoldens(f)
	f.Fuzz(func(t *testing.T, b []byte) {
		for _, b := range [][]byte{b, reseal(b)} {
			s := new(Scalable)
			if !probeUnmarshal(t, b, s) {
				continue
			}
			if p := s.FPR(); !(p >= 0 && p <= 1) || s.Info().Filters < 1 {
				t.Fatalf("FPR() = %v, %+v", p, s.Info())
			}
			had, last := s.Has(b), s.layers[len(s.layers)-1]
			if last.count >= last.capacity && !s.nonScaling && !had {
				continue // the next layer is as large as the file says
			}
			if isNew, err := s.Add(b); isNew == had && err == nil || err == nil != s.Has(b) {
				t.Fatalf("Add = %v, %v", isNew, err)
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

// FuzzSink checks that values with different fields never give the same bytes.
func FuzzSink(f *testing.F) {
	f.Add("ab", []byte("c"), "a", []byte("bc"), uint64(1))
	f.Fuzz(func(t *testing.T, s1 string, b1 []byte, s2 string, b2 []byte, n uint64) {
		var a, b Sink
		a.String(s1)
		a.Bytes(b1)
		a.Uint64(n)
		b.String(s2)
		b.Bytes(b2)
		b.Uint64(n)
		if same := s1 == s2 && bytes.Equal(b1, b2); bytes.Equal(a.Key(), b.Key()) != same {
			t.Errorf("%q and %q, %x and %x: the keys are %x and %x", s1, s2, b1, b2, a.Key(), b.Key())
		}
	})
}
