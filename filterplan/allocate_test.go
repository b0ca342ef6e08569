package filterplan

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"
	"github.com/shaledb/shale/bloom"
)

// sumFPR is the expected number of blocks read for an absent key.
func sumFPR(runs []runShare, bits []float64) float64 {
	sum := 0.0
	for i, b := range bits {
		switch {
		case b == 0:
			sum++
		case runs[i].fuseKeys > 0:
			sum += bloom.FuseFPR(bloom.FuseFor(runs[i].fuseKeys, b))
		default:
			sum += bloom.PredictFPR(b)
		}
	}
	return sum
}

func averageBits(runs []runShare, bits []float64) float64 {
	sum, total := 0.0, 0.0
	for i, r := range runs {
		sum += float64(r.keys) * bits[i]
		total += float64(r.keys)
	}
	return sum / total
}

// TestEntropyRule runs the text table. "tree" is a leveled tree with the
// given ratio and number of levels, "runs" lists keys or keys/probe share.
func TestEntropyRule(t *testing.T) {
	datadriven.RunTest(t, "testdata/allocate", func(t *testing.T, d *datadriven.TestData) string {
		var runs []runShare
		var averages []float64
		for _, a := range d.CmdArgs {
			for _, v := range a.Vals {
				var r runShare
				var x float64
				switch a.Key {
				case "avg":
					fmt.Sscan(v, &x)
					averages = append(averages, x)
				case "runs":
					keys, fuse, _ := strings.Cut(v, "+fuse")
					keys, probe, _ := strings.Cut(keys, "/")
					fmt.Sscan(keys, &x)
					r.keys = uint64(x)
					if probe != "" {
						fmt.Sscan(probe, &r.probe)
					}
					if fuse != "" {
						fmt.Sscan(fuse, &x)
						r.fuseKeys = int(x)
					}
					runs = append(runs, r)
				case "levels":
					var n int
					fmt.Sscan(v, &n)
					for i := range n {
						runs = append(runs, runShare{keys: 1000 * uint64(math.Pow10(i))})
					}
				}
			}
		}
		var b strings.Builder
		for _, average := range averages {
			bits := allocate(runs, average)
			uniform := make([]float64, len(runs))
			for i := range uniform {
				if average >= minBits {
					uniform[i] = average
				}
			}
			fmt.Fprintf(&b, "avg %v:", average)
			for i := range bits {
				fmt.Fprintf(&b, " %.1f", bits[i])
			}
			fmt.Fprintf(&b, "  sum %.4f  uniform %.4f  used %.2f\n", sumFPR(runs, bits), sumFPR(runs, uniform), averageBits(runs, bits))
		}
		return b.String()
	})
}

// TestEntropyRule_PublishedTable reproduces the table for ratio 10 that the rule
// was chosen by: bits per level and sum of the false positive rates.
func TestEntropyRule_PublishedTable(t *testing.T) {
	rows := []struct {
		levels  int
		average float64
		sum     float64
		bits    string // top to bottom
	}{
		{3, 5, 0.1359, "14.2 9.3 4.4"}, {3, 8, 0.0338, "17.3 12.5 7.4"}, {3, 10, 0.0136, "19.3 14.4 9.4"}, {3, 12, 0.0058, "21.4 16.2 11.4"},
		{4, 5, 0.1360, "19.2 14.2 9.3 4.4"}, {4, 8, 0.0338, "22.4 17.3 12.5 7.4"}, {4, 10, 0.0136, "24 19.3 14.4 9.4"}, {4, 12, 0.0058, "24 21.4 16.2 11.4"},
		{5, 5, 0.1360, "24 19.2 14.2 9.3 4.4"}, {5, 8, 0.0339, "24 22.4 17.3 12.5 7.4"}, {5, 10, 0.0136, "24 24 19.3 14.4 9.4"}, {5, 12, 0.0058, "24 24 21.4 16.2 11.4"},
		{6, 5, 0.1361, "24 24 19.2 14.2 9.3 4.4"}, {6, 8, 0.0339, "24 24 22.4 17.3 12.5 7.4"}, {6, 10, 0.0136, "24 24 24 19.3 14.4 9.4"}, {6, 12, 0.0058, "24 24 24 21.4 16.2 11.4"},
	}
	for _, row := range rows {
		var runs []runShare
		for i := range row.levels {
			runs = append(runs, runShare{keys: 1000 * uint64(math.Pow10(i))})
		}
		bits := allocate(runs, row.average)
		for i, word := range strings.Fields(row.bits) {
			var want float64
			fmt.Sscan(word, &want)
			if math.Abs(bits[i]-want) > 0.35 {
				t.Errorf("%d levels, %v bits: level %d gets %.2f, published %v", row.levels, row.average, i, bits[i], want)
			}
		}
		if got := sumFPR(runs, bits); math.Abs(got/row.sum-1) > 0.04 {
			t.Errorf("%d levels, %v bits: sum %.4f, published %.4f", row.levels, row.average, got, row.sum)
		}
	}
}

// TestEntropyRule_IsTheBest compares the rule with random other ways to spend
// the same memory.
func TestEntropyRule_IsTheBest(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 2))
	for range 100 {
		runs := make([]runShare, 2+r.IntN(8))
		for i := range runs {
			runs[i].keys = uint64(math.Exp(r.Float64()*18)) + 1
		}
		average := 4 + r.Float64()*16
		best := allocate(runs, average)
		if used := averageBits(runs, best); used > average+1e-6 {
			t.Fatalf("%v spends %v bits, allowed %v", runs, used, average)
		}
		for range 20 {
			// Take some bits from one run and give them to another.
			other := append([]float64(nil), best...)
			from, to := r.IntN(len(runs)), r.IntN(len(runs))
			moved := r.Float64() * min(2, other[from]-minBits) * float64(runs[from].keys)
			other[from] -= moved / float64(runs[from].keys)
			other[to] += moved / float64(runs[to].keys)
			if other[from] < minBits || other[to] > maxBits || best[to] == 0 {
				continue
			}
			// Where a second unit begins, a little more buys a lot.
			slack := 0.97
			if best[to] > 12.5 && best[to] < 14.5 || best[from] > 13.5 && best[from] < 15 {
				slack = 0.7
			}
			if a, b := sumFPR(runs, best), sumFPR(runs, other); b < a*slack-1e-7 {
				t.Errorf("runs %v, %v bits: the rule's %v give %v, %v give %v", runs, average, best, a, other, b)
			}
		}
	}
}

func TestEntropyRule_Edges(t *testing.T) {
	cases := []struct {
		runs    []runShare
		average float64
		want    string
	}{
		{[]runShare{{keys: 1}}, 10, "[10.0]"},
		{[]runShare{{keys: 0}}, 10, "[0.0]"},
		{[]runShare{{keys: 100}, {keys: 0}}, 10, "[10.0 24.0]"},
		{[]runShare{{keys: 100}, {keys: 100}}, 0, "[0.0 0.0]"},
		{[]runShare{{keys: 100}, {keys: 100}}, -1, "[0.0 0.0]"},
		{[]runShare{{keys: 100}, {keys: 100}}, 64, "[24.0 24.0]"},
		{[]runShare{{keys: math.MaxUint64}, {keys: 1}}, 10, "[10.0 24.0]"},
	}
	for _, c := range cases {
		if got := fmt.Sprintf("%.1f", allocate(c.runs, c.average)); got != c.want {
			t.Errorf("allocate(%v, %v) = %s, want %s", c.runs, c.average, got, c.want)
		}
	}
}

// Tables of few keys have filters too, if fuse filters are asked for: blocked
// ones, for which a fuse filter would take too many bits.
func TestEntropyRule_FuseOfFewKeys(t *testing.T) {
	for _, keys := range []int{1, 4, 16, 32, 64, 1000} {
		runs := []runShare{{keys: 1000}, {keys: 100_000, fuseKeys: keys}}
		if bits := allocate(runs, 10); bits[1] < 8 {
			t.Errorf("with tables of %d keys the filters of the last level get %v bits a key, want 8 at least", keys, bits[1])
		}
	}
}
