package spans

import (
	"bytes"

	"github.com/shaledb/shale/internal/base"
)

// A Finder asks several sets about keys that are near each other as a rule. It remembers the interval of the last key, in
// which all sets have the same numbers. One goroutine at a time uses it.
type Finder struct {
	sets         []*Set
	covers       []*cover // those of the interval
	lower, upper []byte   // of the interval: as of Set.interval
	known        bool     // there is an interval
}

// Reset gives the finder other sets: none.
func (f *Finder) Reset() {
	clear(f.sets)
	clear(f.covers)
	f.sets, f.covers, f.lower, f.upper, f.known = f.sets[:0], f.covers[:0], nil, nil, false
}

// Add adds a set.
func (f *Finder) Add(s *Set) {
	if !s.Empty() {
		f.sets, f.known = append(f.sets, s), false
	}
}

// Empty reports whether no set has a range delete.
func (f *Finder) Empty() bool { return len(f.sets) == 0 }

// Cover returns the greatest number up to seq of the range deletes that cover key, or 0.
func (f *Finder) Cover(key []byte, seq base.Seq) (at base.Seq) {
	if len(f.sets) == 0 {
		return 0
	}
	f.find(key)
	for _, c := range f.covers {
		at = max(at, c.at(seq))
	}
	return at
}

// find moves to the interval of key.
func (f *Finder) find(key []byte) {
	if f.known && bytes.Compare(f.lower, key) <= 0 && (f.upper == nil || bytes.Compare(key, f.upper) < 0) {
		return
	}
	f.covers, f.lower, f.upper, f.known = f.covers[:0], nil, nil, true
	for _, s := range f.sets {
		all, lower, upper := s.interval(key)
		if f.covers = append(f.covers, all.own); all.over != nil {
			f.covers = append(f.covers, all.over)
		}
		if bytes.Compare(lower, f.lower) > 0 {
			f.lower = lower
		}
		if upper != nil && (f.upper == nil || bytes.Compare(upper, f.upper) < 0) {
			f.upper = upper
		}
	}
}

// Find returns the fragment with the greatest number up to seq that covers key, and the number, or 0.
func (f *Finder) Find(key []byte, seq base.Seq) (part Fragment, at base.Seq) {
	for _, s := range f.sets {
		all, lower, upper := s.interval(key)
		if n := all.at(seq); n > at {
			part, at = Fragment{lower, upper, all}, n
		}
	}
	return part, at
}

// LeastAbove returns the least number above seq of the range deletes that cover key, or 0.
func (f *Finder) LeastAbove(key []byte, seq base.Seq) (at base.Seq) {
	if len(f.sets) == 0 {
		return 0
	}
	f.find(key)
	for _, c := range f.covers {
		if least := c.leastAbove(seq); at == 0 || least > 0 && least < at {
			at = least
		}
	}
	return at
}

// Hidden reports whether key is covered by numbers above above and up to seq. If so, all keys from key to upper are; nil:
// all keys from there on.
func (f *Finder) Hidden(key []byte, above, seq base.Seq) (upper []byte, yes bool) {
	upper = key
	for more := true; more; {
		more = false
		for _, s := range f.sets {
			end, hidden := s.hidden(upper, above, seq)
			if !hidden {
				continue
			}
			if end == nil {
				return nil, true
			}
			upper, more, yes = end, true, true
		}
	}
	return upper, yes
}

// hiddenBelow reports whether the keys right below key are covered by numbers above above and up to seq. If so, all keys
// from lower to key are.
func (f *Finder) hiddenBelow(key []byte, above, seq base.Seq) (lower []byte, yes bool) {
	lower = key
	for more := true; more; {
		more = false
		for _, s := range f.sets {
			if begin, hidden := s.hiddenBelow(lower, above, seq); hidden {
				lower, more, yes = begin, true, true
			}
		}
	}
	return lower, yes
}

// Newer returns a number above seq of a range delete that covers keys from lower to upper, which is exclusive (nil: there is
// no bound), and a bound of it; or 0.
func (f *Finder) Newer(lower, upper []byte, seq base.Seq) (begin []byte, at base.Seq) {
	for _, s := range f.sets {
		if s.last <= seq {
			continue
		}
		for part := range s.Overlapping(lower, upper) {
			if part.Newest() > seq {
				return part.Lower, part.Newest()
			}
		}
	}
	return nil, 0
}
