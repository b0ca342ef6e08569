// Package treepicture draws the tables of a store over its keys: a row for
// each run, a bar for each table from its smallest key to its largest, and a
// colour for its filter, its false positives or its size.
//
// A key's place is its rank: how many of the store's entries come before it, as
// far as the tables' bounds, counts and ranks tell (scale).
//
// Keys may hold any bytes. They are written as quoted text, and what is drawn
// is well-formed XML whatever they are.
package treepicture

import "iter"

// A Level is the tables of one depth.
type Level struct {
	Number int
	Tables []Table // in any order
}

// tables returns the tables of levels, in no order.
func tables(levels []Level) iter.Seq[*Table] {
	return func(yield func(*Table) bool) {
		for _, l := range levels {
			for i := range l.Tables {
				if !yield(&l.Tables[i]) {
					return
				}
			}
		}
	}
}

// A Table is what a bar shows.
type Table struct {
	Number              uint64
	Run                 int // of its level; 0 is the newest
	Smallest, Largest   []byte
	Size                int64
	Entries, Tombstones uint64

	Filter       string  // its kind; empty: no filter
	FilterBits   float64 // a key
	PredictedFPR float64 // 0: not known
	MeasuredFPR  float64 // of Asked lookups
	Asked        uint64

	// Rank returns about which share of the entries lies before a key. If it is nil, the keys
	// are taken for spread evenly.
	Rank func(key []byte) float64
}

// A Colouring says what colours stand for.
type Colouring int

// The colourings.
const (
	ByBits Colouring = iota // bits a key of the filter
	ByFPR                   // false positives, measured to predicted
	BySize                  // bytes of the table
)

// Colourings are their names, as ParseColouring takes them.
var Colourings = []string{ByBits: "bits", ByFPR: "fpr", BySize: "size"}

// ParseColouring returns the colouring of a name; false: there is none.
func ParseColouring(name string) (Colouring, bool) {
	for i, n := range Colourings {
		if n == name {
			return Colouring(i), true
		}
	}
	return 0, false
}

// Options say how to draw. The zero value will do.
type Options struct {
	Width int // in pixels; default 1200
	By    Colouring
	// Memory is what the memtables have, from the first key to the last, its entries and its bytes. It is drawn if
	// there are no tables yet; nil: there is nothing.
	Memory *Table
	// Key returns a key as text. Default: quoting.Short of 48 characters.
	Key func(key []byte) string
}
