package bloom

import (
	"fmt"
	"math"
	"math/bits"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/shaledb/shale/bloom/internal/filtertest"
	"github.com/shaledb/shale/internal/testenv"
)

func TestAtomicBlocked_NeverDenies(t *testing.T) {
	hs := filtertest.RandomHashes(1, 1<<20)
	for _, n := range []int{0, 1, 2, 15, 16, 17, 1000, len(hs)} {
		for _, width := range []float64{math.SmallestNonzeroFloat64, 1, 4, 10, 16} {
			f := atomicOf(n, width)
			for _, h := range hs[:min(n, 1<<17)] {
				f.AddHash(h)
			}
			for _, h := range hs[:min(n, 1<<17)] {
				if !f.MayContainHash(h) {
					t.Fatalf("%d keys of %v bits: MayContain(%016x) = false, want true", n, width, h)
				}
			}
		}
	}
}

// With more keys than it was made for the filter is full, and then says maybe to
// everything.
func TestAtomicBlocked_Overfull(t *testing.T) {
	f := atomicOf(10, 10)
	hs := filtertest.RandomHashes(2, 10000)
	for _, h := range hs {
		f.AddHash(h)
	}
	for _, h := range append(hs, 0, math.MaxUint64, 12345) {
		if !f.MayContainHash(h) {
			t.Errorf("MayContain(%016x) = false in a full filter", h)
		}
	}
}

func TestAtomicBlocked_EmptyDeniesAll(t *testing.T) {
	for _, n := range []int{0, 1, 1000} {
		f := atomicOf(n, 10)
		for _, h := range append(filtertest.RandomHashes(3, 1000), 0, math.MaxUint64) {
			if f.MayContainHash(h) {
				t.Fatalf("an empty filter for %d keys holds %016x", n, h)
			}
		}
	}
}

func TestAtomicBlocked_Size(t *testing.T) {
	for _, c := range []struct {
		keys  int
		width float64
		want  int
	}{
		{0, 10, 64}, {1, 10, 64}, {51, 10, 64}, {52, 10, 128}, {512, 10, 640}, {600000, 10, 750016},
	} {
		if got := atomicOf(c.keys, c.width).SizeBytes(); got != c.want {
			t.Errorf("NewAtomicBlocked(%d, %v).SizeBytes() = %d, want %d", c.keys, c.width, got, c.want)
		}
	}
}

// modelAtomic fills lines as AtomicBlocked does, but with random numbers in place of
// hashes. It returns the mean rate of a line and its variance. There is no short formula,
// because the loads of a line's words depend on each other.
func modelAtomic(seed uint64, lines, keys int) (mean, variance float64) {
	r := rand.New(rand.NewPCG(seed, 0))
	filled := make([][8]uint64, lines)
	for range keys {
		line := &filled[r.IntN(lines)]
		word, step := r.IntN(8), 2*r.IntN(4)+1
		for i := range 3 {
			one, other := r.IntN(64), r.IntN(64)
			line[(word+i*step)%8] |= 1<<one | 1<<other
		}
	}
	for _, line := range filled {
		rate := 0.0
		for word := range 8 {
			for step := 1; step < 8; step += 2 {
				p := 1.0
				for i := range 3 {
					set := float64(bits.OnesCount64(line[(word+i*step)%8])) / 64
					p *= set * set
				}
				rate += p / 32
			}
		}
		mean += rate
		variance += rate * rate
	}
	mean /= float64(lines)
	return mean, variance/float64(lines) - mean*mean
}

// The rate is that of the same filter filled with random numbers, and at most 1.1 % at 10
// bits a key, which is the acceptance figure.
func TestAtomicBlocked_FPR(t *testing.T) {
	testenv.SkipRace(t)
	questions, n := 10000000, 600000
	if filtertest.Short() {
		questions, n = questions/10, n/10
	}
	for _, width := range []float64{8, 10, 16} {
		f := atomicOf(n, width)
		for _, h := range filtertest.RandomHashes(4, n) {
			f.AddHash(h)
		}
		rate := measure(f, 5, questions)
		want, variance := modelAtomic(6, len(f.lines), n)
		sigma := math.Sqrt(want/float64(questions) + 2*variance/float64(len(f.lines)))
		t.Logf("%v bits, %d keys: measured %.4f %%, model %.4f ± %.4f %%", width, n, 100*rate, 100*want, 100*sigma)
		if math.Abs(rate-want) > 3*sigma {
			t.Errorf("%v bits: %.4f %% pass, want %.4f ± %.4f", width, 100*rate, 100*want, 100*sigma)
		}
		if width == 10 && rate > 0.011 {
			t.Errorf("%.4f %% pass at 10 bits, want at most 1.1", 100*rate)
		}
	}
}

// A key sets at most two bits in each of exactly three words of one line.
func TestAtomicBlocked_ThreeWords(t *testing.T) {
	f := atomicOf(1000, 10)
	for _, h := range filtertest.RandomHashes(6, 20000) {
		f.AddHash(h)
		words, set := 0, 0
		for i := range f.lines {
			for j := range f.lines[i] {
				if w := f.lines[i][j].Swap(0); w != 0 {
					words++
					set += bits.OnesCount64(w)
				}
			}
		}
		if words != 3 || set < 3 || set > 6 {
			t.Fatalf("hash %016x sets %d bits in %d words, want 3 to 6 in 3", h, set, words)
		}
	}
}

// Goroutines that add at once lose none of each other's bits. A goroutine that learns of a
// key after its Add finds it. To be run with -race.
func TestAtomicBlocked_Concurrent(t *testing.T) {
	const adders, readers, each = 4, 2, 20000
	hs := filtertest.RandomHashes(7, adders*each)
	f := atomicOf(len(hs)/8, 10)   // few lines, many encounters
	var added [adders]atomic.Int64 // keys of each adder that are in
	var adding, reading sync.WaitGroup
	failed := make(chan string, readers)
	for a := range adders {
		adding.Go(func() {
			for i, h := range hs[a*each : (a+1)*each] {
				f.AddHash(h)
				added[a].Store(int64(i + 1))
			}
		})
	}
	for r := range readers {
		reading.Go(func() { // ends when all keys are in
			for i := r; ; i++ {
				a := i % adders
				n := added[a].Load()
				for j := max(0, n-50); j < n; j++ {
					if !f.MayContainHash(hs[a*each+int(j)]) {
						failed <- fmt.Sprintf("key %d of adder %d is added and denied", j, a)
						return
					}
				}
				if a == adders-1 && n == each {
					return
				}
			}
		})
	}
	adding.Wait()
	reading.Wait()
	close(failed)
	for what := range failed {
		t.Error(what)
	}
	for _, h := range hs {
		if !f.MayContainHash(h) {
			t.Fatalf("%016x is lost", h)
		}
	}
}

// Goroutines that add to one line, again and again, leave what one goroutine would leave.
func TestAtomicBlocked_NoBitLost(t *testing.T) {
	const adders, each, rounds = 4, 25, 2000
	for round := range rounds {
		hs := filtertest.RandomHashes(uint64(round), adders*each)
		f, alone := atomicOf(1, 10), atomicOf(1, 10)
		var adding sync.WaitGroup
		start := make(chan struct{})
		for a := range adders {
			adding.Go(func() {
				<-start
				for _, h := range hs[a*each : (a+1)*each] {
					f.AddHash(h)
				}
			})
		}
		close(start)
		for _, h := range hs {
			alone.AddHash(h)
		}
		adding.Wait()
		for i := range alone.lines[0] {
			if got, want := f.lines[0][i].Load(), alone.lines[0][i].Load(); got != want {
				t.Fatalf("round %d, word %d: %016x, want %016x as from one adder", round, i, got, want)
			}
		}
	}
}

// A finished filter is only bytes: many goroutines may ask it at once.
func TestBlocked_Concurrent(t *testing.T) {
	hs := filtertest.RandomHashes(8, 20000)
	f := mustOpen(AppendBlocked(nil, hs, 20))
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			g := f.FirstUnit()
			for _, h := range hs {
				if f.Touch(h); !f.MayContainHash(h) || !g.MayContainHash(h) {
					t.Errorf("MayContain(%016x) = false, want true", h)
					return
				}
			}
		})
	}
	wg.Wait()
}
