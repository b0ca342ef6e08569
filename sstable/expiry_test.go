package sstable

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/shaledb/shale/internal/base"
	"github.com/shaledb/shale/internal/testenv"
)

// A table states when each eighth of what expires is over: exactly if that is little, else by a sample that is off by some
// hundredths. The order of the keys, and entries that do not expire, do not matter.
func TestWriter_ExpiryQuantiles(t *testing.T) {
	r := rand.New(rand.NewPCG(testenv.Seed(t), 5))
	for _, n := range []int{1, 2, 7, 8, 9, 100, 1500, 100_000} {
		for name, at := range map[string]func(i int) int64{
			"at random":     func(int) int64 { return 1e12 + r.Int64N(1e9) },
			"as keys are":   func(i int) int64 { return 1e12 + int64(i) },
			"the other way": func(i int) int64 { return 1e12 - int64(i) },
			"many at once":  func(int) int64 { return 1e12 + r.Int64N(3) },
		} {
			w := NewWriter(discard{}, WriterOptions{})
			var times []int64
			for i := range n {
				ms := at(i)
				times = append(times, ms)
				stored := base.AppendExpiring(nil, ms, []byte("v"))
				if err := w.Add(base.NewKey(fmt.Appendf(nil, "%08d", i), base.Seq(1), base.KindExpiring), stored); err != nil {
					t.Fatal(err)
				}
				if err := w.Add(base.NewKey(fmt.Appendf(nil, "%08d-", i), base.Seq(1), base.KindPut), []byte("v")); err != nil {
					t.Fatal(err)
				}
			}
			info, err := w.Finish()
			if err != nil || info.Expiring != uint64(n) {
				t.Fatalf("%d entries expire, want %d: %v", info.Expiring, n, err)
			}
			slices.Sort(times)
			if info.Expiry[0] != times[0] || info.Expiry[8] != times[n-1] {
				t.Errorf("%d %s: from %d to %d, want from %d to %d", n, name, info.Expiry[0], info.Expiry[8], times[0], times[n-1])
			}
			for q := 1; q < 8; q++ {
				// The share of the times up to the quantile, and of those below it, has the eighth between them.
				upTo, _ := slices.BinarySearch(times, info.Expiry[q]+1)
				below, _ := slices.BinarySearch(times, info.Expiry[q])
				slack := 1.0
				if n > maxExpirySample {
					slack = float64(n) * 6 / 2 / math.Sqrt(maxExpirySample/2) // six standard deviations
				}
				if want := float64(n*q) / 8; float64(below) > want+slack || float64(upTo) < want-slack {
					t.Errorf("%d %s: %d of 8 are over at %d, when %d to %d are", n, name, q, info.Expiry[q], below, upTo)
				}
			}
		}
	}
}
