package sketch

import (
	"math/bits"
	"math/rand/v2"
	"testing"

	"github.com/shaledb/shale/bloom"
	"github.com/shaledb/shale/bloom/internal/filtertest"
	"github.com/shaledb/shale/internal/testenv"
)

// A countingModel counts as docs/FORMAT.md says, and slowly.
type countingModel struct {
	lines    int
	k        uint64
	counters map[[3]uint64]int // line, word, counter
}

// places returns the counters of a hash.
func (m *countingModel) places(h uint64) (all [][3]uint64) {
	line, _ := bits.Mul64(h, uint64(m.lines))
	p := h * 0x9e3779b97f4a7c15
	word, step := p>>61, 2*(p>>59&3)+1
	for i := range m.k {
		all = append(all, [3]uint64{line, (word + i*step) % 8, p >> (54 - 4*i) & 15})
	}
	return all
}

func (m *countingModel) add(h uint64) {
	for _, c := range m.places(h) {
		m.counters[c] = min(m.counters[c]+1, 15)
	}
}

func (m *countingModel) has(h uint64) bool {
	for _, c := range m.places(h) {
		if m.counters[c] == 0 {
			return false
		}
	}
	return true
}

func (m *countingModel) remove(h uint64) bool {
	if !m.has(h) {
		return false
	}
	for _, c := range m.places(h) {
		if m.counters[c] < 15 {
			m.counters[c]--
		}
	}
	return true
}

// bytes is the body that a filter with these counters has.
func (m *countingModel) bytes() []byte {
	b := make([]byte, m.lines*64)
	for c, n := range m.counters {
		b[c[0]*64+c[1]*8+c[2]/2] |= byte(n << (c[2] % 2 * 4))
	}
	return b
}

// Additions and removals in any order, also of absent keys and false positives, change the
// counters as the format says.
func TestCounting_AsDocumented(t *testing.T) {
	rng := rand.New(rand.NewPCG(testenv.Seed(t), 0))
	steps, full, refused := 30_000, 0, 0
	if filtertest.Short() {
		steps = 5000
	}
	for _, o := range []CountingOptions{{Keys: 1}, {Keys: 100, BitsPerKey: 16}, {Keys: 1000}, {Keys: 200, BitsPerKey: 100}} {
		f := mustCounting(o)
		m := &countingModel{lines: len(f.lines), k: uint64(f.K()), counters: make(map[[3]uint64]int)}
		pool := filtertest.RandomHashes(rng.Uint64(), 2*int(o.Keys)+20)
		for range steps {
			h := pool[rng.IntN(len(pool))]
			switch want := m.has(h); {
			case f.MayContainHash(h) != want:
				t.Fatalf("%+v: MayContainHash(%016x) = %v", o, h, !want)
			case rng.IntN(2) == 0:
				f.AddHash(h)
				m.add(h)
			default:
				if f.RemoveHash(h) != want {
					t.Fatalf("%+v: RemoveHash(%016x) = %v", o, h, !want)
				}
				if !m.remove(h) {
					refused++
				}
			}
		}
		b, _ := f.MarshalBinary()
		body := m.bytes()
		if got := b[:len(body)]; string(got) != string(body) {
			t.Fatalf("%+v: the counters are\n%x, want\n%x", o, got, body)
		}
		set := 0
		for _, n := range m.counters {
			if n > 0 {
				set++
			}
			if n == 15 {
				full++
			}
		}
		if want := float64(set) / float64(128*m.lines); f.FillRatio() != want {
			t.Errorf("%+v: FillRatio() = %v, want %v", o, f.FillRatio(), want)
		}
	}
	t.Logf("%d steps each, %d removals refused, %d counters full", steps, refused, full)
	if refused == 0 || full == 0 {
		t.Errorf("%d removals were refused, %d counters became full: nothing is tested", refused, full)
	}
}

// A key that was added more often than a counter can count stays for ever, and is
// never denied too early.
func TestCounting_FullCounters(t *testing.T) {
	for _, times := range []int{1, 2, 14, 15, 16, 100} {
		f := countingFor(100, 0.01)
		h := uint64(0x123456789abcdef0)
		for range times {
			f.AddHash(h)
		}
		for i := range times {
			if !f.MayContainHash(h) || !f.RemoveHash(h) {
				t.Fatalf("added %d times, removed %d times: it is denied", times, i)
			}
		}
		if stays := times >= counterMax; f.MayContainHash(h) != stays || f.RemoveHash(h) != stays || f.Count() != 0 {
			t.Errorf("added and removed %d times: MayContainHash = %v, Count() = %d", times, !stays, f.Count())
		}
	}
}

func TestCounting_Union(t *testing.T) {
	a, b := mustCounting(CountingOptions{Keys: 300}), mustCounting(CountingOptions{Keys: 300})
	hs := filtertest.RandomHashes(testenv.Seed(t), 600)
	both := a.Clone()
	for i, h := range hs {
		for range 1 + i%20 { // some fill counters, alone or together
			if both.AddHash(h); i%3 == 0 {
				a.AddHash(h)
			} else {
				b.AddHash(h)
			}
		}
	}
	if err := a.Union(b); err != nil {
		t.Fatal(err)
	}
	want, _ := both.MarshalBinary()
	if got, _ := a.MarshalBinary(); string(got) != string(want) {
		t.Errorf("two filters merged are not the filter of all keys")
	}
	for _, o := range []CountingOptions{{Keys: 600}, {Keys: 300, Hasher: hasherOf(bloom.HashXXH3, 0)}, {Keys: 214, BitsPerKey: 56.5}} {
		other := mustCounting(o)
		other.AddHash(1)
		if err := a.Union(other); err == nil {
			t.Errorf("Union of a filter of %+v, no error", o)
		}
	}
	if got, _ := a.MarshalBinary(); string(got) != string(want) {
		t.Errorf("a refused Union changes the filter")
	}
}

// Sizes and rates are those that were asked for.
func TestNewCounting_Options(t *testing.T) {
	for _, p := range []float64{0.2, 0.05, 0.01, 0.001, 0.0001, 0.00002} {
		for _, n := range []uint64{1, 10, 1000, 1e6} {
			f := countingFor(n, p)
			f.count = n
			if got := f.FPR(); got > p || n >= 1e6 && got < 0.98*p {
				t.Errorf("NewCounting(%d, %v): FPR() = %v of all keys", n, p, got)
			}
		}
	}
	for _, c := range []struct {
		p     float64
		bytes int
	}{{0.00000742, 32000}, {0.25, 2048}, {0.99, 2048}} {
		if got := countingFor(1000, c.p).SizeBytes(); got != c.bytes {
			t.Errorf("NewCounting(1000, %v) has %d bytes, want %d", c.p, got, c.bytes)
		}
	}
	if f := countingFor(0, 0.01); f.SizeBytes() != lineBytes || f.MayContain(nil) || f.FPR() != 0 {
		t.Errorf("NewCounting(0) has %d bytes, or keys", f.SizeBytes())
	}
	if f := mustCounting(CountingOptions{Keys: 128e3}); f.SizeBytes() != 640e3 || f.K() != 6 || f.Cap() != 1280e3 {
		t.Errorf("the default has %d bytes, %d counters a key, Cap() = %d", f.SizeBytes(), f.K(), f.Cap())
	}
}
