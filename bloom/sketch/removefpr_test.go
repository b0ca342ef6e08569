package sketch

import (
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/shaledb/shale/bloom/internal/filtertest"
	"github.com/shaledb/shale/internal/testenv"
)

// A remover is a filter from which keys can be removed.
type remover interface {
	AddHash(h uint64) error
	RemoveHash(h uint64) bool
	MayContainHash(h uint64) bool
	FPR() float64
	Count() uint64
}

// A countingRemover has the same methods as a Cuckoo.
type countingRemover struct{ *Counting }

func (c countingRemover) AddHash(h uint64) error {
	c.Counting.AddHash(h)
	return nil
}

func mustCounting(o CountingOptions) *Counting {
	f, err := NewCounting(o)
	if err != nil {
		panic(err)
	}
	return f
}

func mustCuckoo(o CuckooOptions) *Cuckoo {
	f, err := NewCuckoo(o)
	if err != nil {
		panic(err)
	}
	return f
}

// removers are the filters whose rates are measured.
var removers = []struct {
	name string
	make func(keys int) remover
}{
	{"counting, 16 bits", func(n int) remover {
		return countingRemover{mustCounting(CountingOptions{Keys: uint64(n), BitsPerKey: 16})}
	}},
	{"counting, 40 bits", func(n int) remover { return countingRemover{mustCounting(CountingOptions{Keys: uint64(n)})} }},
	{"counting, 1 %", func(n int) remover { return countingRemover{countingFor(uint64(n), 0.01)} }},
	{"counting, 0.1 %", func(n int) remover { return countingRemover{countingFor(uint64(n), 0.001)} }},
	{"cuckoo, 8 bits", func(n int) remover { return mustCuckoo(CuckooOptions{Keys: uint64(n), FingerprintBits: 8}) }},
	{"cuckoo, 12 bits", func(n int) remover { return cuckooFor(uint64(n)) }},
	{"cuckoo, 16 bits", func(n int) remover { return mustCuckoo(CuckooOptions{Keys: uint64(n), FingerprintBits: 16}) }},
}

// A rateCell is the false positives of one kind of filter with one kind of key.
type rateCell struct {
	name          string
	keys, filters int
	asked, passed int
	want          float64 // false positives, by FPR
}

func (c rateCell) String() string {
	return fmt.Sprintf("%-52s %8d keys, %6d filters, %8d asked: %.5f %%, predicted %.5f (%+.1f %%, %+.1f sigma)", c.name, c.keys, c.filters,
		c.asked, 100*float64(c.passed)/float64(c.asked), 100*c.want/float64(c.asked), 100*(float64(c.passed)/c.want-1), (float64(c.passed)-c.want)/math.Sqrt(c.want))
}

// within reports whether the rate is the predicted one within 5 %, or within so many
// sigmas if there are too few false positives, or too small filters, to be sure. Lines
// with the same load have rates that differ by about as much as the rates themselves,
// and a line has about 16 keys.
func (c rateCell) within(sigmas float64) bool {
	variance := c.want + c.want*c.want*16/float64(c.keys*c.filters)
	return math.Abs(float64(c.passed)-c.want) <= max(0.05*c.want, sigmas*math.Sqrt(variance)+1)
}

// add measures one filter. It adds stored, and with churn as many other keys, which it
// removes again. Then it asks for absent keys.
func (c *rateCell) add(t *testing.T, f remover, stored, others, absent []uint64) {
	t.Helper()
	for i, h := range stored {
		if err := f.AddHash(h); err != nil {
			t.Fatalf("%s: AddHash, number %d of %d: %v", c.name, i, len(stored), err)
		}
		// Half of the other keys are added and removed on the way, as far as there is room.
		if i > 0 && i < len(others) {
			if err := f.AddHash(others[i]); err != nil || !f.RemoveHash(others[i]) {
				t.Fatalf("%s: number %d cannot come and go: %v", c.name, i, err)
			}
		}
	}
	for _, h := range stored {
		if !f.MayContainHash(h) {
			t.Fatalf("%s: %016x is denied", c.name, h)
		}
	}
	if f.Count() != uint64(len(stored)) {
		t.Fatalf("%s: Count() = %d, want %d", c.name, f.Count(), len(stored))
	}
	for _, h := range absent {
		if f.MayContainHash(h) {
			c.passed++
		}
	}
	c.filters++
	c.asked += len(absent)
	c.want += f.FPR() * float64(len(absent))
}

// Filters of every size let pass what they predict after keys were added and removed. There
// are many small filters, because the rate of a single one is random.
func TestFPR_Removers(t *testing.T) {
	seed, long := filtertest.Seed(t)
	sizes, asked, sigmas := []int{10, 1000, 50_000}, 150_000, 4.
	switch {
	case long:
		sizes, asked, sigmas = []int{10, 100, 1e3, 1e4, 1e5, 1e6, 1e7}, 10_000_000, 5
	case testenv.Race:
		sizes, asked = []int{10, 300}, 3000
	case testing.Short():
		sizes, asked = []int{10, 5000}, 40_000
	}
	var table []string
	for _, kind := range removers {
		for _, n := range sizes {
			cell := rateCell{name: kind.name, keys: n}
			for cell.asked < asked {
				seed += 3
				batch := min(asked, max(200, 20*n))
				cell.add(t, kind.make(n), filtertest.RandomHashes(seed, n), filtertest.RandomHashes(seed+1, n/2), filtertest.RandomHashes(seed+2, batch))
			}
			table = append(table, cell.String())
			if !cell.within(sigmas) {
				t.Errorf("not the predicted rate: %v", cell)
			}
		}
	}
	t.Log("random hashes\n" + strings.Join(table, "\n"))
}
