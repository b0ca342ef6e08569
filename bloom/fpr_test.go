package bloom

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/shaledb/shale/bloom/internal/filtertest"
	"github.com/shaledb/shale/bloom/internal/lines"
	"github.com/shaledb/shale/internal/testenv"
)

// moments returns what the theory of unitFPR leaves out: the exact mean rate of a unit's
// lines, and the variance between them. A line whose bits were set r times does not have a
// fixed number of bits set, but a distribution of it, and the mean of its k-th power is a
// little above the power of the mean. The part of the variance that is proportional to a
// line's load is subtracted, because all loads together are the keys of the filter.
func moments(keys, lines float64, k uint32) (mean, variance float64) {
	load := keys / lines
	spread := 12*math.Sqrt(load) + 12
	var total, second, withLoad, loads float64
	for i := math.Floor(max(0, load-spread)); i <= min(keys, load+spread); i++ {
		lnP := binomial(keys, i, 1/lines)
		w := math.Exp(lnP)
		total += w
		rate := powerMean(i*float64(k), float64(k))
		mean += w * rate
		withLoad += w * rate * (i - load)
		loads += w * (i - load) * (i - load)
		second += w * powerMean(i*float64(k), 2*float64(k))
	}
	mean, second = mean/total, second/total
	variance = second - mean*mean
	if loads > 0 {
		variance -= withLoad * withLoad / total / loads
	}
	return mean, variance
}

// binomial is the logarithm of the probability that i of n keys fall into one line.
func binomial(n, i, p float64) float64 {
	if p == 1 {
		return math.Log(max(0, 1-math.Abs(n-i))) // all of them do
	}
	a, _ := math.Lgamma(n + 1)
	b, _ := math.Lgamma(i + 1)
	c, _ := math.Lgamma(n - i + 1)
	return a - b - c + i*math.Log(p) + (n-i)*math.Log1p(-p)
}

// powerMean is the mean of (share of bits set)^k after r attempts, to second
// order.
func powerMean(r, k float64) float64 {
	one, two := math.Pow(1-1.0/lineBits, r), math.Pow(1-2.0/lineBits, r)
	set := 1 - one
	if set == 0 {
		return 0
	}
	variance := (one + (lineBits-1)*two - lineBits*one*one) / lineBits
	return math.Pow(set, k) * (1 + k*(k-1)/2*variance/(set*set))
}

// expect returns the rate of f by the exact theory, and the standard deviation of
// a measurement with that many questions. Both the questions and the lines of
// this one filter are random.
func expect(f *Blocked, questions int) (rate, sigma float64) {
	rate = 1
	relative := 0.0
	for _, u := range []lines.Unit{f.units.First, f.units.Second}[:f.Units()] {
		mean, variance := moments(float64(f.keys), float64(u.Lines), u.K)
		rate *= mean
		relative += variance / (mean * mean) / float64(u.Lines)
	}
	return rate, math.Sqrt(rate/float64(questions) + rate*rate*relative)
}

// measure returns the share of random hashes that f lets pass.
func measure(f asker, seed uint64, questions int) float64 {
	r := rand.New(rand.NewPCG(seed, 1))
	n := 0
	for range questions {
		if f.MayContainHash(r.Uint64()) {
			n++
		}
	}
	return float64(n) / float64(questions)
}

// This is the acceptance table: what filters let pass, and what theory says. The measured
// rate is within 3 sigma of the exact theory, and the exact rate at most 4 % above the
// one that FPR computes.
func TestFPR_Measured(t *testing.T) {
	testenv.SkipRace(t)
	const questions = 10e6
	large, share := 1000000, 1
	if filtertest.Short() {
		large, share = 100000, 10
	}
	for _, bits := range []float64{5, 6, 8, 9.4, 10, 12, 13.9, 14, 16, 20, 24} {
		for _, n := range []int{large, 300, 5000} {
			q := int(questions) / share
			if n != large {
				q /= 5
			}
			f := mustOpen(AppendBlocked(nil, filtertest.RandomHashes(uint64(n), n), bits))
			rate := measure(f, uint64(bits*10), q)
			want, sigma := expect(f, q)
			predicted := f.FPR()
			t.Logf("%4v bits, %7d keys: measured %.4f %%, predicted %.4f %%, exact %.4f ± %.4f %%", bits, n,
				100*rate, 100*predicted, 100*want, 100*sigma)
			if math.Abs(rate-want) > 3*sigma {
				t.Errorf("%v bits, %d keys: %.5f %% pass, want %.5f ± %.5f %%", bits, n, 100*rate, 100*want, 100*sigma)
			}
			if d := want/predicted - 1; d < -0.001 || d > 0.04 {
				t.Errorf("%v bits, %d keys: FPR() = %.5f %%, %.1f %% off", bits, n, 100*predicted, 100*d)
			}
		}
	}
}

// An AtomicBlocked lets pass what exact theory says: the sum over all pairs of triples of words,
// and over how often each word of a line is hit. What FPR says of its bits is up to 4 % more,
// because it takes the words of a triple for independent.
func TestFPR_Atomic(t *testing.T) {
	testenv.SkipRace(t)
	const keys, questions = 300_000, 4_000_000
	for bits, want := range map[float64]float64{6: 0.067456, 10: 0.0099396, 16: 0.0013136} {
		f := atomicOf(keys, bits)
		f.AddMany(filtertest.RandomHashes(5, keys))
		rate, sigma := measure(f, 6, questions), math.Sqrt(want/questions)
		t.Logf("%v bits: measured %.4f %%, exact %.4f ± %.4f %%, by its bits %.4f %%", bits, 100*rate, 100*want, 100*sigma, 100*f.FPR())
		if math.Abs(rate-want) > 3*sigma || f.FPR() < want || f.FPR() > 1.04*want {
			t.Errorf("%v bits: %.4f %% pass, want %.4f ± %.4f %%; by its bits %.4f %%", bits, 100*rate, 100*want, 100*sigma, 100*f.FPR())
		}
	}
}

// Theory as it stands in the literature, and in the design of this filter.
func TestPredictFPR_KnownRates(t *testing.T) {
	for _, c := range []struct{ bits, percent float64 }{
		{5, 9.29}, {6, 5.75}, {8, 2.31}, {10, 0.958}, {12, 0.407}, {16, 0.0535}, {20, 0.0092}, {24, 0.00166},
	} {
		if got := 100 * PredictFPR(c.bits); math.Abs(got/c.percent-1) > 0.015 {
			t.Errorf("PredictFPR(%v) = %.5f %%, want %v", c.bits, got, c.percent)
		}
	}
}

func TestBitsForFPR_InverseOfPredictFPR(t *testing.T) {
	for b := MinBits; b <= MaxBits; b += 0.37 {
		if got := BitsForFPR(PredictFPR(b)); math.Abs(got-b) > 1e-6 {
			t.Errorf("BitsForFPR(PredictFPR(%v)) = %v", b, got)
		}
	}
	for _, p := range []float64{0.5, 0.1, 0.02, 0.01, 0.0018, 0.0015, 0.001, 1e-4, 2e-5} {
		b := BitsForFPR(p)
		if PredictFPR(b) > p || b > MinBits && PredictFPR(b-1e-6) <= p {
			t.Errorf("BitsForFPR(%v) = %v, whose rate is %v; with less %v", p, b, PredictFPR(b), PredictFPR(b-1e-6))
		}
	}
	for _, c := range []struct{ p, want float64 }{
		{1, MinBits}, {2, MinBits}, {math.Inf(1), MinBits}, {0, MaxBits}, {-1, MaxBits}, {1e-12, MaxBits}, {math.NaN(), MaxBits},
	} {
		if got := BitsForFPR(c.p); got != c.want {
			t.Errorf("BitsForFPR(%v) = %v, want %v", c.p, got, c.want)
		}
	}
}

// The steps are those of theory, except for two that are higher: no number of probes is
// better than the chosen one by more than a hundredth.
func TestProbesFor_Best(t *testing.T) {
	for b := MinBits; b < twoUnitBits; b += 0.05 {
		best, k := 1.0, uint32(0)
		for i := uint32(firstK); i <= maxK; i++ {
			if p := unitFPR(1e9*lineBits/b, 1e9, i); p < best {
				best, k = p, i
			}
		}
		tolerance := 0.0015
		if b > 10 && b < 10.25 || b > 11.85 && b < 12.05 {
			tolerance = 0.01
		}
		if got := manyKeysFPR(b); got > best*(1+tolerance) {
			t.Errorf("%.2f bits: %d probes pass %.3g, %d would %.3g", b, probesFor(b), got, k, best)
		}
	}
	for b, want := range map[float64]uint32{4: 3, 5: 3, 5.1: 4, 6: 4, 6.65: 5, 8: 5, 8.27: 6, 10: 6, 10.25: 7, 12: 7, 12.05: 8, 13.8: 9} {
		if got := probesFor(b); got != want {
			t.Errorf("probesFor(%v) = %d, want %d", b, got, want)
		}
	}
}

// For any values in a trailer, the prediction is a rate, and takes little time.
func TestUnitFPR_AnyTrailer(t *testing.T) {
	for _, keys := range []float64{0, 1, 2, 511, 1e4, 1e6, math.MaxUint32} {
		for _, lines := range []float64{1, 2, 3, 1000, 1e6, math.MaxUint32} {
			last := 2.0
			for k := uint32(firstK); k <= maxK; k++ {
				p := unitFPR(keys, lines, k)
				if !(p >= 0 && p <= 1) {
					t.Errorf("unitFPR(%v, %v, %d) = %v", keys, lines, k, p)
				}
				if keys/lines < 10 && p > last {
					t.Errorf("unitFPR(%v, %v, %d) = %v, more than %v with fewer probes", keys, lines, k, p, last)
				}
				last = p
			}
		}
	}
}

// The two units must be independent: what passes one has to be as rare in the
// other as any other key.
func TestFPR_UnitsAreIndependent(t *testing.T) {
	testenv.SkipRace(t)
	f := mustOpen(AppendBlocked(nil, filtertest.RandomHashes(1, 100000), 16))
	r := rand.New(rand.NewPCG(2, 3))
	const questions = 4e6
	first, both := 0.0, 0.0
	for range int(questions) {
		h := r.Uint64()
		if !lines.Has(f.units.First.Bytes, f.units.First.Lines, f.units.First.K, h) {
			continue
		}
		first++
		if f.MayContainHash(h) {
			both++
		}
	}
	alone, _ := moments(float64(f.keys), float64(f.units.Second.Lines), f.units.Second.K)
	sigma := math.Sqrt(alone / first)
	if got := both / first; math.Abs(got-alone) > 4*sigma {
		t.Errorf("the second unit lets pass %.5f of what passed the first, want %.5f ± %.5f", got, alone, sigma)
	}
}
