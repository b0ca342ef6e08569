package filterplan

import (
	"math/rand/v2"
	"testing"

	"github.com/shaledb/shale/internal/testenv"
)

// A filter that is as predicted is never said to be worse, one that is twice as
// bad always is.
func TestIsWorse(t *testing.T) {
	r := rand.New(rand.NewPCG(testenv.Seed(t), 7))
	for _, p := range []float64{0.0001, 0.01, 0.1} {
		for _, factor := range []float64{1, 2, 20} {
			said := 0
			for range 200 {
				fp, asked, worse := uint64(0), uint64(0), false
				for fp < 4096 {
					// Questions up to the next false positive.
					asked += uint64(r.ExpFloat64()/(p*factor)) + 1
					if fp++; JudgedAt(fp) {
						worse = worse || IsWorse(fp, asked, p)
					}
				}
				if worse {
					said++
				}
			}
			if want := 200; factor == 1 && said > 0 || factor > 1 && p*factor < 1 && said != want {
				t.Errorf("rate %v, %v times as bad: said %d times of 200", p, factor, said)
			}
		}
	}
}
