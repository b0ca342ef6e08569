package bloom

import (
	"fmt"
	"math"
	"math/bits"
	"slices"
	"strings"
	"testing"

	"github.com/shaledb/shale/bloom/internal/filtertest"
	"github.com/shaledb/shale/bloom/internal/lines"
	"github.com/shaledb/shale/internal/testenv"
	"github.com/shaledb/shale/internal/testkeys"
)

// A cell is one measurement of a false positive rate. Two steps lead from the prediction to
// it, and both are random: the bits that the keys set, and the questions.
type cell struct {
	kind, filter string
	keys, asked  int
	passed       int
	predicted    float64 // what the filter says of itself
	expected     float64 // by the exact theory
	spread       float64 // standard deviation of what the bits give
	given        float64 // the rate of random hashes, given the filter's bits
}

// sigmas is the distance of the measurement from the rate that the bits give. The square
// root of a Poisson number has a nearly constant variance and nearly no skew, also if only
// a few keys pass (Anscombe 1948).
func (c cell) sigmas() float64 {
	mean := c.given * float64(c.asked)
	return 2 * (math.Sqrt(float64(c.passed)+3./8) - math.Sqrt(mean+3./8)) / math.Sqrt(1-c.given)
}

// bitSigmas is the distance of the bits from what theory says of them.
func (c cell) bitSigmas() float64 { return (c.given - c.expected) / c.spread }

const cellHead = "kind                      filter          keys    asked  predicted %   expected %   its bits %   sigmas   measured %   sigmas"

func (c cell) String() string {
	return fmt.Sprintf("%-25s %-12s %7d %8d %12.5f %12.5f %12.5f %8.2f %12.5f %8.2f", c.kind, c.filter, c.keys, c.asked,
		100*c.predicted, 100*c.expected, 100*c.given, c.bitSigmas(), 100*float64(c.passed)/float64(c.asked), c.sigmas())
}

// Keys of every kind that programs have get the false positives that are predicted, in
// filters of every width and in those of memtables.
func TestFPR_EveryKind(t *testing.T) {
	testenv.SkipRace(t)
	seed, long := filtertest.Seed(t)
	n, asked := 20_000, 120_000
	switch {
	case long:
		n, asked = 50_000, 2_000_000
	case testenv.Race:
		n, asked = 1000, 4000
	case testing.Short():
		n, asked = 5000, 20_000
	}
	var cells []cell
	for i, kind := range append(testkeys.Made(), testkeys.Listed(t)...) {
		present, absent := kind.Make(seed+uint64(i), n, asked)
		stored, questions := hashAll(present), hashAll(absent)
		for _, bits := range []float64{4, 5, 6, 8, 10, 12, 13.9, 14, 16, 20, 24} {
			f := mustOpen(AppendBlocked(nil, stored, bits))
			checkHolds(t, f, stored)
			rate, spread := expect(f, math.MaxInt)
			c := cell{kind.Name, fmt.Sprintf("%v bits", bits), len(stored), len(questions), count(f, questions), f.FPR(), rate, spread, givenBits(f)}
			if d := c.expected/c.predicted - 1; d < -0.001 || d > 0.04 {
				t.Errorf("%v: FPR() is %.1f %% off", c, 100*d)
			}
			cells = append(cells, c)
		}
		for _, bits := range []float64{6, 10, 16} {
			f := atomicOf(len(stored), bits)
			for _, h := range stored {
				f.AddHash(h)
			}
			for _, h := range stored {
				if !f.MayContainHash(h) {
					t.Fatalf("%s: the atomic filter denies %x", kind.Name, h)
				}
			}
			rate := expectAtomic(f, len(stored))
			given, spread := givenAtomic(f, stored)
			cells = append(cells, cell{kind.Name, fmt.Sprintf("%v, atomic", bits), len(stored), len(questions), count(f, questions), rate, rate, spread, given})
		}
	}
	checkCells(t, cells)
}

func hashAll(keys [][]byte) []uint64 {
	hs := make([]uint64, len(keys))
	for i, k := range keys {
		hs[i] = Hash(k)
	}
	return hs
}

func count(f asker, hashes []uint64) (passed int) {
	for _, h := range hashes {
		if f.MayContainHash(h) {
			passed++
		}
	}
	return passed
}

// checkCells prints the table and checks that the differences are random: none is above 5
// sigma, not more than usual are above 3, the sum of all squares is neither too large nor
// too small, and no kind and no width is biased. The bits of a kind's filters come from the
// same keys, so they are not independent.
func checkCells(t *testing.T, cells []cell) {
	t.Helper()
	table := []string{cellHead}
	far, squares := 0, 0.0
	sums, numbers := make(map[string]float64), make(map[string]float64)
	for _, c := range cells {
		z := c.sigmas()
		table = append(table, c.String())
		squares += z * z
		for _, of := range []string{c.kind, c.filter} {
			sums[of] += z
			numbers[of]++
		}
		if math.Abs(z) > 3 {
			far++
		}
		if math.Abs(z) > 5 || math.Abs(c.bitSigmas()) > 5 {
			t.Errorf("too far:\n%s\n%v", cellHead, c)
		}
	}
	n := float64(len(cells))
	expected := 0.0027 * n
	t.Logf("%s\n%d cells, %d beyond 3 sigma (%.1f expected), chi-square a cell %.2f ± %.2f", strings.Join(table, "\n"), len(cells), far,
		expected, squares/n, math.Sqrt(2/n))
	if float64(far) > expected+5*math.Sqrt(expected)+1 {
		t.Errorf("%d of %d cells are beyond 3 sigma, %.1f expected", far, len(cells), expected)
	}
	if math.Abs(squares/n-1) > 5*math.Sqrt(2/n) {
		t.Errorf("chi-square a cell is %.2f, want 1 ± %.2f", squares/n, math.Sqrt(2/n))
	}
	for of, sum := range sums {
		if z := sum / math.Sqrt(numbers[of]); math.Abs(z) > 5 {
			t.Errorf("%s: all cells together are %.1f sigmas off", of, z)
		}
	}
}

// givenBits returns the share of random hashes that f lets pass.
func givenBits(f *Blocked) float64 {
	rate := 1.0
	for _, u := range []lines.Unit{f.units.First, f.units.Second}[:f.Units()] {
		sum := 0.0
		for line := range slices.Chunk(u.Bytes[:u.Lines*lineBytes], lineBytes) {
			set := 0
			for _, b := range line {
				set += bits.OnesCount8(b)
			}
			sum += math.Pow(float64(set)/lineBits, float64(u.K))
		}
		rate *= sum / float64(u.Lines)
	}
	return rate
}

// expectAtomic returns the rate of f with so many keys.
//
// A key sets two bits in each of three words: it is one of 32 triples. Seen from
// a triple that is asked for, a line's keys hit each of its words or not, and
// two given bits of a word are set after m hits, where the two of a hit may
// coincide, with the chance 1 + c1·a^m + c2·b^m: a sum of powers, so that the
// mean over how often the three words are hit is a sum of powers too.
func expectAtomic(f *AtomicBlocked, keys int) (rate float64) {
	const (
		a  = (63. / 64) * (63. / 64) // no hit sets one given bit
		b  = (62. / 64) * (62. / 64) // nor another one
		c1 = -1./64 - 2*63./64
		c2 = 63. / 64
	)
	coefficient, base := [3]float64{1, c1, c2}, [3]float64{1, a, b}
	triples := atomicTriples()
	type power struct{ factor, base float64 }
	var powers []power
	for _, asked := range triples {
		for term := range 27 {
			choice := [3]int{term % 3, term / 3 % 3, term / 9}
			p := power{factor: 1. / float64(len(triples))}
			for _, c := range choice {
				p.factor *= coefficient[c]
			}
			for _, set := range triples {
				mean := 1.
				for i, word := range asked {
					if word == set[0] || word == set[1] || word == set[2] {
						mean *= base[choice[i]]
					}
				}
				p.base += mean / float64(len(triples))
			}
			powers = append(powers, p)
		}
	}
	// The keys of a line are binomial, and the mean of x^keys then is
	// (1 - p + p·x)^n.
	lines := float64(len(f.lines))
	for _, p := range powers {
		rate += p.factor * math.Pow(1-1/lines+p.base/lines, float64(keys))
	}
	return rate
}

// atomicTriples returns the words that a key may set bits in.
func atomicTriples() (all [][3]int) {
	for word := range 8 {
		for step := 1; step < 8; step += 2 {
			all = append(all, [3]int{word, (word + step) % 8, (word + 2*step) % 8})
		}
	}
	return all
}

// givenAtomic returns the share of random hashes that f lets pass, and the
// standard deviation of that: by how much the rates of lines differ beyond what
// comes with their load, because all loads together are the keys.
func givenAtomic(f *AtomicBlocked, keys []uint64) (rate, spread float64) {
	triples := atomicTriples()
	loads, rates := make([]float64, len(f.lines)), make([]float64, len(f.lines))
	for _, h := range keys {
		i, _ := bits.Mul64(h, uint64(len(f.lines)))
		loads[i]++
	}
	for i := range f.lines {
		var set [8]float64 // chance that the two bits asked of the word are set
		for w := range set {
			n := float64(bits.OnesCount64(f.lines[i][w].Load())) / 64
			set[w] = n * n
		}
		for _, t := range triples {
			rates[i] += set[t[0]] * set[t[1]] * set[t[2]] / float64(len(triples))
		}
	}
	for _, r := range rates {
		rate += r / float64(len(rates))
	}
	variance := covariance(rates, rates)
	if of := covariance(loads, loads); of > 0 {
		variance -= covariance(rates, loads) * covariance(rates, loads) / of
	}
	return rate, math.Sqrt(max(0, variance) / float64(len(rates)))
}

func covariance(x, y []float64) float64 {
	n, sumX, sumY, sum := float64(len(x)), 0.0, 0.0, 0.0
	for i := range x {
		sumX += x[i]
		sumY += y[i]
		sum += x[i] * y[i]
	}
	return sum/n - sumX/n*sumY/n
}
