package httpproxy

import (
	"fmt"

	"github.com/shaledb/shale/remote/buckettest/internal/chance"
)

// A Fault says what goes wrong with one request.
type Fault int

// The faults. A request that a fault does not fit to passes as usual: only PUT and DELETE can be late or
// duplicated, only a PUT with a condition can conflict, only a request with a body can have it cut or
// flipped, and only the bytes of an object can be cut or flipped in an answer.
const (
	None       Fault = iota
	DropBefore       // the connection ends before the server sees the request
	DropAfter        // the server acts, and the connection ends instead of an answer
	Late             // the connection ends, and the server sees the request only when Replay is called
	Duplicate        // the server acts, and sees the request again when Replay is called
	Delay            // it takes Proxy.Wait longer
	Conflict         // 409: the server asks to repeat the request, and does not act
	Busy             // 503: the server asks to slow down, and does not act
	CutBody          // the server gets a part of the body, and then the connection ends
	FlipBody         // a bit of the body changes on the way to the server
	CutAnswer        // the client gets a part of the object, and then the connection ends
	FlipAnswer       // a bit of the object changes on the way to the client
	numFaults
)

var faultNames = [numFaults]string{
	"None", "DropBefore", "DropAfter", "Late", "Duplicate", "Delay", "Conflict", "Busy", "CutBody", "FlipBody", "CutAnswer", "FlipAnswer",
}

// String returns the name of the constant.
func (f Fault) String() string {
	if f < 0 || f >= numFaults {
		return fmt.Sprintf("Fault(%d)", int(f))
	}
	return faultNames[f]
}

// Faults returns all faults, without None.
func Faults() []Fault {
	var all []Fault
	for f := None + 1; f < numFaults; f++ {
		all = append(all, f)
	}
	return all
}

// Rates says how often each fault happens, from 0 to 1. Together they are at most 1.
type Rates map[Fault]float64

// All returns rates with which each fault happens equally often, and all together to a part of the requests,
// from 0 to 1.
func All(part float64) Rates { return chance.Even(numFaults-1, part) }

// BySeed returns a function for New that chooses faults by chance. The same seed and rates choose the same
// faults for the same numbers of requests, whatever the requests are.
func BySeed(seed uint64, rates Rates) func(Request) Fault {
	return func(r Request) Fault { return chance.Choose(seed, r.N, numFaults-1, rates) }
}
