package redisbloom

import (
	"fmt"
	"iter"
)

// A Shape is a filter without its bits, for programs that keep these somewhere else, such as in pieces in a store. The zero value
// is one without links, to which nothing can be added. One goroutine at a time uses it.
//
// To add a key, look at the bits of its Positions in each link. If one of the links has all of them, the key may be there
// already. Else Count it, and set the bits of its Positions in the last link.
//
// A link is named by its number, which is below Links, as the index of a slice.
type Shape struct{ f *Filter }

// filter returns the filter, whose links have no bits.
func (s Shape) filter() *Filter {
	if s.f == nil {
		return new(Filter)
	}
	return s.f
}

// NewShape returns the shape of NewFilter(o).
func NewShape(o Options) (Shape, error) {
	f, err := newFilter(o)
	return Shape{f}, err
}

// ParseShape reads a header, the chunk of BF.SCANDUMP with iterator 1. The errors are those of Load.
func ParseShape(header []byte) (Shape, error) {
	f, err := parseHeader(header)
	return Shape{f}, err
}

// Header returns the header, the chunk of BF.SCANDUMP with iterator 1.
func (s Shape) Header() []byte { return s.filter().header() }

// Info returns what BF.INFO returns for the filter.
func (s Shape) Info() Info { return s.filter().Info() }

// Links returns the number of links.
func (s Shape) Links() int { return len(s.filter().links) }

// LinkBytes returns how many bytes the bits of a link take. Bit n is bit n%8 of byte n/8.
func (s Shape) LinkBytes(link int) uint64 { return s.f.links[link].bytes }

// Positions returns the bits that a key has in a link. Some may come twice.
func (s Shape) Positions(link int, key []byte) iter.Seq[uint64] {
	l := &s.f.links[link]
	m := l.modulus()
	return func(yield func(bit uint64) bool) {
		a, b := hash(key)
		for range l.hashes {
			if !yield(a % m) {
				return
			}
			a += b
		}
	}
}

// Count counts a key that is added. If the last link is full, the filter gets another one, whose bits are all zero. The
// errors are those of Filter.Add, and then nothing was counted.
func (s Shape) Count() error {
	if s.f == nil {
		return fmt.Errorf("redisbloom: add: %w: no links", ErrParameters)
	}
	return s.f.count()
}

// Uncount takes back the last Count, which has added a link that the program can't keep.
func (s Shape) Uncount() {
	s.f.links = s.f.links[:len(s.f.links)-1]
	s.f.items--
}
