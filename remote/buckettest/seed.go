package buckettest

import "math/rand/v2"

// Where faults come from: by chance, with a seed that repeats them, or at one call that a test
// names.

// Rates says how often each fault happens, from 0 to 1. Together they are at most 1.
type Rates map[Fault]float64

// All returns rates with which each fault happens equally often, and all together to a part of the
// calls, from 0 to 1.
func All(part float64) Rates {
	rates := make(Rates)
	for _, f := range faults {
		rates[f] = part / float64(len(faults))
	}
	return rates
}

// BySeed returns a function for NewFaulty that chooses faults by chance. The same seed and rates
// choose the same faults for the same numbers of calls, whatever the calls are.
func BySeed(seed uint64, rates Rates) func(Op) Fault {
	return func(op Op) Fault {
		// Each call has a generator of its own, so that its fault does not depend on the calls that
		// other goroutines make before it.
		x := rand.New(rand.NewPCG(seed, uint64(op.N))).Float64()
		for _, f := range faults {
			if x < rates[f] {
				return f
			}
			x -= rates[f]
		}
		return None
	}
}

// At returns a function for NewFaulty with which one call has a fault: the n-th of a method, from 1.
// A test that tries each call in turn counts n up until the fault does not happen any more.
func At(call Call, n int64, fault Fault) func(Op) Fault {
	var seen int64 // NewFaulty calls the function under a lock
	return func(op Op) Fault {
		if op.Call != call {
			return None
		}
		if seen++; seen == n {
			return fault
		}
		return None
	}
}
