package main

import (
	"math"
	"math/rand/v2"
	"time"
)

// An order is what the parent tells a child.
type order struct {
	Dir  string // holds the store and all files of the run
	Seed uint64
	Life int
	Last bool // the run ends with this life: one short session, and all checks at its end
}

// A plan is how a life goes, as the seed has it.
type plan struct {
	after time.Duration // from its start to its end
	kill  bool          // or be told to end
}

// planOf returns the plan of a life.
func planOf(seed uint64, life int, limit time.Duration) plan {
	r := rand.New(rand.NewPCG(mix(seed, uint64(life)), 'p'))
	p := plan{kill: true}
	switch n := r.IntN(20); {
	case n < 5: // in Open, or soon after
		p.after = between(r, time.Millisecond, 300*time.Millisecond)
	case n < 13:
		p.after = between(r, 200*time.Millisecond, 15*time.Second)
	case n < 18:
		p.after, p.kill = between(r, 2*time.Second, 20*time.Second), false
	default: // long enough for a leak to show
		p.after, p.kill = between(r, 80*time.Second, 5*time.Minute), r.IntN(2) == 0
	}
	p.after = min(p.after, limit)
	return p
}

// between chooses a duration: short and long ones are equally likely.
func between(r *rand.Rand, lo, hi time.Duration) time.Duration {
	return time.Duration(float64(lo) * math.Pow(float64(hi)/float64(lo), r.Float64()))
}
