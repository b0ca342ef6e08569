package sketch

import (
	"bytes"
	"encoding"
	"testing"

	"github.com/shaledb/shale/bloom"
	"github.com/shaledb/shale/bloom/internal/filtertest"
	"github.com/shaledb/shale/bloom/internal/form"
)

// scalableGoldens are golden bytes of scalable filters.
func scalableGoldens(t testing.TB) map[string]encoding.BinaryMarshaler {
	sip := hasherOf(bloom.HashSipHash, 0x0123456789abcdef)
	return map[string]encoding.BinaryMarshaler{
		"scalable-example":  scalableOf(t, 2, 0.1, ScalableOptions{}, 3),
		"scalable-none":     scalableOf(t, 10, 0.01, ScalableOptions{NonScaling: true}, 0),
		"scalable-siphash":  scalableOf(t, 10, 0.01, ScalableOptions{Hasher: sip}, 100),
		"scalable-constant": scalableOf(t, 40, 0.001, ScalableOptions{Expansion: 1}, 100),
	}
}

func TestGolden_Scalables(t *testing.T) {
	for name, made := range scalableGoldens(t) {
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
			filtertest.CheckHas(t, made.(bloom.Set), 0, 100)
		}
	}
}

// FuzzScalable is FuzzFilter for Scalable.
func FuzzScalable(f *testing.F) {
	goldens(f, func(b []byte) { f.Add(b) })
	f.Fuzz(func(t *testing.T, b []byte) {
		for _, b := range [][]byte{b, filtertest.Reseal(b)} {
			s := new(Scalable)
			if !probeUnmarshal(t, b, s) {
				continue
			}
			if p := s.FPR(); !(p >= 0 && p <= 1) || s.Info().Filters < 1 {
				t.Fatalf("FPR() = %v, %+v", p, s.Info())
			}
			had, last := s.MayContain(b), s.layers[len(s.layers)-1]
			if last.Count >= last.capacity && !s.nonScaling && !had {
				continue // the next layer is as large as the file says
			}
			if maybe, err := s.CheckAndAdd(b); maybe != had && err == nil || err == nil != s.MayContain(b) {
				t.Fatalf("CheckAndAdd = %v, %v", maybe, err)
			}
		}
	})
}
