package repair

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/shaledb/shale/internal/testenv"
)

// Stores of all shapes are damaged in all ways, once and several times over.
// Check names the files; what Run saves is right, and what it does not save it
// tells; the damaged store stays as it is.
func TestRepair_Sweep(t *testing.T) {
	testenv.SkipRace(t)
	seed, long := testenv.Seed(t), testenv.Long(t)
	begin := time.Now()
	outcomes, tried := make(map[string]int), 0
	most := 16 // of a shape
	if testing.Short() {
		most = 4
	}
	for round := uint64(0); (round == 0 || time.Since(begin) < long) && !t.Failed(); round++ {
		r := rand.New(rand.NewPCG(seed, round))
		other := build(t, "closed", seed+round+1)
		for _, shape := range someShapes(seed + round) {
			b := build(t, shape, seed+round)
			cases := b.damages(r, other, 97)
			for range len(cases) / 4 {
				cases = append(cases, both(cases[r.IntN(len(cases))], cases[r.IntN(len(cases))]))
			}
			if long == 0 {
				r.Shuffle(len(cases), func(i, j int) { cases[i], cases[j] = cases[j], cases[i] })
				cases = cases[:min(most, len(cases))]
			}
			for _, d := range cases {
				outcome, err := b.try(d)
				if err != nil {
					t.Fatalf("%s: %v: %v", shape, d, err)
				}
				outcomes[outcome]++
				tried++
			}
		}
	}
	list := ""
	for _, o := range slices.Sorted(maps.Keys(outcomes)) {
		list += fmt.Sprintf(", %d %s", outcomes[o], o)
	}
	t.Logf("%d damaged stores, seed %d, %v%s", tried, seed, time.Since(begin).Round(time.Millisecond), list)
}
