package sketch

import (
	"encoding"
	"errors"
	"math"
	"slices"
	"testing"

	"github.com/shaledb/shale/bloom/internal/filtertest"
	"github.com/shaledb/shale/internal/testenv"
)

var (
	_ encoding.BinaryMarshaler   = (*Scalable)(nil)
	_ encoding.BinaryAppender    = (*Scalable)(nil)
	_ encoding.BinaryUnmarshaler = (*Scalable)(nil)
)

// scalableOf makes a filter with n numbered keys.
func scalableOf(t testing.TB, capacity uint64, fpr float64, o ScalableOptions, n int) *Scalable {
	t.Helper()
	o.Capacity, o.FPR = capacity, fpr
	s, err := NewScalable(o)
	if err != nil {
		t.Fatal(err)
	}
	for i := range n {
		if err := s.Add(filtertest.Numbered(i)); err != nil {
			t.Fatal(err)
		}
	}
	return s
}

// The rate stays below the asked one over many growths, and is what theory says: a
// key passes if any layer lets it.
func TestScalable_Rate(t *testing.T) {
	testenv.SkipRace(t)
	capacity, asked := uint64(500), 100_000
	if testenv.Long(t) > 0 {
		capacity, asked = 100_000, 10_000_000
	} else if filtertest.Short() {
		capacity, asked = 100, 3000
	}
	for _, rate := range []float64{0.1, 0.01, 0.001} {
		s := scalableOf(t, capacity, rate, ScalableOptions{}, 0)
		for growths := range 6 {
			for i := 0; s.Info().Items < s.Info().Capacity; i++ {
				if err := s.Add(filtertest.Numbered(i)); err != nil {
					t.Fatal(err)
				}
			}
			denied := 1.0
			for i := range s.layers {
				denied *= 1 - filtertest.ExactFPR(s.layers[i].M, s.layers[i].K, s.layers[i].Count)
			}
			passed := filtertest.FalsePositives(s, asked)
			mean := s.FPR() * float64(asked)
			z := 2 * (math.Sqrt(float64(passed)+3./8) - math.Sqrt(mean+3./8))
			info := s.Info()
			t.Logf("asked for %v: %d growths, %d keys, %.1f bits a key: %d of %d pass, %.1f expected by the bits (%+.2f sigma), theory %.4g %%",
				rate, growths, info.Items, 8*float64(info.SizeBytes)/float64(info.Items), passed, asked, mean, z, 100*(1-denied))
			if math.Abs(z) > 4.5 || float64(passed) > rate*float64(asked)+4.5*math.Sqrt(rate*float64(asked)) {
				t.Errorf("%d of %d pass, %.1f expected", passed, asked, mean)
			}
			if 1-denied > rate {
				t.Errorf("by theory %v pass, more than %v", 1-denied, rate)
			}
			if growths < 5 {
				if err := s.grow(2 * s.layers[growths].capacity); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
}

func TestScalable_AddTellsWhatIsNew(t *testing.T) {
	s := scalableOf(t, 1000, 1e-6, ScalableOptions{}, 0)
	for _, c := range []struct {
		key   string
		there bool
	}{{"a", false}, {"b", false}, {"a", true}} {
		if maybe, err := s.CheckAndAdd([]byte(c.key)); err != nil || maybe != c.there {
			t.Errorf("CheckAndAdd(%q) = %v, %v", c.key, maybe, err)
		}
	}
	if err := s.AddString("b"); err != nil || s.Count() != 2 {
		t.Errorf("AddString: %v, %d keys", err, s.Count())
	}
	has := make([]bool, 4)
	if s.MayContainKeys([][]byte{[]byte("b"), []byte("c"), []byte("a")}, has); !slices.Equal(has, []bool{true, false, true, true}) {
		t.Errorf("MayContainKeys: %v", has)
	}
	if !s.MayContainString("a") || s.MayContainString("d") || !s.MayContain([]byte("a")) || !s.MayContainHash(s.Hash([]byte("a"))) || s.Count() != 2 {
		t.Errorf("%+v", s.Info())
	}
	if err := s.AddHash(s.Hash([]byte("d"))); err != nil || s.Count() != 3 || !s.MayContainString("d") {
		t.Errorf("AddHash = %v, %d keys", err, s.Count())
	}
	c := s.Clone()
	if s.Reset(); s.Count() != 0 || s.MayContainString("a") || !c.MayContainString("a") || c.Count() != 3 {
		t.Error("Reset or Clone")
	}
}

func TestScalable_NonScaling(t *testing.T) {
	s := scalableOf(t, 100, 0.01, ScalableOptions{NonScaling: true}, 0)
	if want := (ScalableInfo{Capacity: 100, SizeBytes: 120, Filters: 1}); s.Info() != want {
		t.Errorf("Info() = %+v, want %+v", s.Info(), want)
	}
	var keys [][]byte
	for i := range 200 {
		keys = append(keys, filtertest.Numbered(i))
	}
	err := s.AddKeys(keys)
	added := 0
	for added < len(keys) && s.MayContain(keys[added]) {
		added++
	}
	if !errors.Is(err, ErrAtCapacity) || s.Info().Items != 100 || s.Info().Filters != 1 || added < 100 || added > 110 {
		t.Errorf("%d added, %v, %+v", added, err, s.Info())
	}
	filtertest.CheckHas(t, s, 0, added)
	if maybe, err := s.CheckAndAdd(filtertest.Numbered(0)); !maybe || err != nil {
		t.Errorf("CheckAndAdd of a key that is there = %v, %v", maybe, err)
	}
}

func TestScalable_LayersThatCannotBe(t *testing.T) {
	// A layer that would be too large is an error, and the filter stays as it was.
	s := scalableOf(t, 10, 0.01, ScalableOptions{Expansion: MaxExpansion}, 9)
	s.layers[0].capacity = 1 << 60
	s.layers[0].Count = 1 << 60
	if err := s.Add([]byte("other")); !errors.Is(err, ErrAtCapacity) || len(s.layers) != 1 {
		t.Errorf("Add: %v, %d layers", err, len(s.layers))
	}
	for len(s.layers) < maxLayers {
		if err := s.grow(1); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.grow(1); !errors.Is(err, ErrAtCapacity) {
		t.Errorf("grow: %v", err)
	}
}
