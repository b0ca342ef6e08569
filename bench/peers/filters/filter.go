package main

import (
	"errors"
	"math"

	"github.com/shaledb/shale/bench/peers/internal/keys"
)

// A filter is one library's, measured by loops that call it as its users would:
// a loop for each, because a call through an interface for each key would cost as
// much as the fastest of them.
type filter interface {
	add(k keys.Slab) error       // what a static filter does before it is built
	ask(k keys.Slab) (maybe int) // for how many keys the answer is maybe
	sized
}

// A sized filter tells what it takes and what to expect of it.
type sized interface {
	bits() float64   // of memory, in all
	theory() float64 // the share of absent keys that pass, unknown: there is no formula
}

// A built filter takes all keys at once: add only collects them.
type built interface{ build() error }

// A hashed filter is one that takes hashes instead of keys.
type hashed interface {
	hash(k keys.Slab, hashes []uint64) []uint64 // appends
	addHashes(h []uint64) error
	askHashes(h []uint64) (maybe int)
}

// A remover forgets keys that were added.
type remover interface {
	remove(k keys.Slab) error
}

// unknown is a rate for which there is no formula.
const unknown = -1

// A contestant is a library with its settings.
type contestant struct {
	group    string
	name     string
	settings string
	safe     bool // may be asked, and added to if it grows, by several goroutines
	make     func(keys int) (filter, error)
}

func (c contestant) ours() bool { return len(c.name) > 5 && c.name[:5] == "shale" }

// The groups, in the order of the report.
const (
	static  = "static"
	growing = "growing"
	removal = "deletion"
	unsized = "unknown size"
)

// A group is what can do the same.
type group struct{ name, equal string }

var groups = []group{
	{static, "built once of all keys; the same memory: at most 10 bits a key"},
	{growing, "added to while it is asked; the same memory: 10 bits a key, and the probes that each library finds best for them"},
	{removal, "keys can be taken out; counting filters have the same rate, 1 %, and cuckoo filters of 8 bits the same memory, 8.4 bits a key; 12 bits are shale's default"},
	{unsized, "the number of keys is not known; the same rate where it can be chosen, 1 %, and the same beginning, 1/10 of the keys"},
}

// What is equal within the groups.
const (
	bitsPerKey = 10
	rate       = 0.01

	// beginning is which part of the keys a filter of unknown size begins with. One
	// that doubles then ends with room for 1.5 times the keys: 16 would be its worst
	// case, 1.94 times, and 15 its best.
	beginning = 10
)

// classicRate is that of a classic filter: n keys, m bits, k probes.
func classicRate(n int, m, k float64) float64 {
	return math.Pow(-math.Expm1(-k*float64(n)/m), k)
}

// bestRate is what a classic filter with so many bits a key is sized for.
func bestRate(bits float64) float64 { return math.Exp(-bits * math.Ln2 * math.Ln2) }

// contestants lists all; in a group shale's come first, and the first of them is
// what the others are compared with.
func contestants() []contestant {
	var all []contestant
	for _, of := range [][]contestant{statics(), growers(), removers(), scalers()} {
		all = append(all, of...)
	}
	return all
}

// errFull says that a filter refused a key, although it was told how many there
// would be. What it holds then may not be all that it took before.
var errFull = errors.New("full before its time")
