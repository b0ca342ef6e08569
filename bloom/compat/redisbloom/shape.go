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
type Shape struct {
	f     *Filter
	lines bool // the links have lines
}

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
	return Shape{f: f}, err
}

// ParseShape reads what Header has returned. The errors are those of Load.
func ParseShape(header []byte) (Shape, error) {
	if n := len(header) - 1; n >= headerLen && n%linkLen == headerLen && header[n] == lineMark {
		f, err := parseHeader(header[:n], (*link).checkLines)
		if err == nil && f.options|noScaling != noRounding|force64|noScaling {
			err = damage("options %d of lines", f.options)
		}
		return Shape{f, true}, err
	}
	f, err := parseHeader(header, (*link).check)
	return Shape{f: f}, err
}

// Header returns the header, the chunk of BF.SCANDUMP with iterator 1. That of NewLineShape is one byte longer than RedisBloom's,
// which refuses it.
func (s Shape) Header() []byte {
	header := s.filter().header()
	if s.lines {
		header = append(header, lineMark)
	}
	return header
}

// Lines reports whether it is a shape of NewLineShape.
func (s Shape) Lines() bool { return s.lines }

// Info returns what BF.INFO returns for the filter.
func (s Shape) Info() Info { return s.filter().Info() }

// Debug returns what BF.DEBUG returns for the filter: a line about it, and one for each link.
func (s Shape) Debug() []string {
	f := s.filter()
	lines := []string{fmt.Sprintf("size:%d", f.items)}
	for i := range f.links {
		l := &f.links[i]
		lines = append(lines, fmt.Sprintf("bytes:%d bits:%d hashes:%d hashwidth:64 capacity:%d size:%d ratio:%.6g",
			l.bytes, l.bits, l.hashes, l.entries, l.items, l.errorRate))
	}
	return lines
}

// Links returns the number of links.
func (s Shape) Links() int { return len(s.filter().links) }

// LinkBytes returns how many bytes the bits of a link take. Bit n is bit n%8 of byte n/8.
func (s Shape) LinkBytes(link int) uint64 { return s.f.links[link].bytes }

// Positions returns the bits that a key has in a link. Some may come twice.
func (s Shape) Positions(link int, key []byte) iter.Seq[uint64] {
	l := &s.f.links[link]
	m := l.modulus()
	return func(yield func(bit uint64) bool) {
		if s.lines {
			l.linePositions(key, yield)
			return
		}
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
	links := len(s.f.links)
	err := s.f.count()
	if err == nil && s.lines && len(s.f.links) > links {
		n := float64(links + 1)
		if err = s.f.links[links].setLines(s.f.links[0].errorRate / (n * n)); err != nil {
			s.Uncount()
		}
	}
	return err
}

// Uncount takes back the last Count, which has added a link that the program can't keep.
func (s Shape) Uncount() {
	s.f.links = s.f.links[:len(s.f.links)-1]
	s.f.items--
}
