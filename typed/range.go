package typed

import (
	"bytes"
	"errors"

	"github.com/shaledb/shale"
)

// A Range selects keys. The zero value selects all. Its pointers are read when a loop begins.
type Range[K any] struct {
	Lower, Upper *K   // inclusive, exclusive; nil: no bound
	Reverse      bool // walk from the last to the first
	KeysOnly     bool // leave Value zero: it is not decoded
	Limit        int  // stop after this many entries; 0: no limit

	only  bool                                                  // nothing but Lower
	first func(dst []byte, c KeyCodec[K]) (b []byte, err error) // appends what all keys begin with
}

// Between selects the keys from lower to upper, exclusive.
func Between[K any](lower, upper K) Range[K] { return Range[K]{Lower: &lower, Upper: &upper} }

// From selects lower and all keys above it.
func From[K any](lower K) Range[K] { return Range[K]{Lower: &lower} }

// Below selects all keys below upper.
func Below[K any](upper K) Range[K] { return Range[K]{Upper: &upper} }

// Only selects one key. In an Index there may be several entries with it.
func Only[K any](key K) Range[K] { return Range[K]{Lower: &key, only: true} }

// Prefix selects the keys that begin with p.
func Prefix[K ~string | ~[]byte](p K) Range[K] {
	rng := From(p)
	if end := shale.Prefix(p).Upper; end != nil {
		upper := K(end)
		rng.Upper = &upper
	}
	return rng
}

// WithFirst selects the pairs whose First is first: WithFirst[time.Time]("alice"). Bounds may narrow it. It is for maps
// and indexes with a codec of Tuple2.
func WithFirst[B, A any](first A) Range[Pair[A, B]] {
	return Range[Pair[A, B]]{first: func(dst []byte, c KeyCodec[Pair[A, B]]) ([]byte, error) {
		t, ok := c.(tuple2[A, B])
		if !ok {
			return dst, errors.New("WithFirst of keys that Tuple2 does not store")
		}
		return t.first.append(dst, first, true)
	}}
}

// Reversed returns r with its direction turned round.
func (r Range[K]) Reversed() Range[K] {
	r.Reverse = !r.Reverse
	return r
}

// in returns r in the keys of a store that begin with prefix, a byte other than 0xff at its end. What follows prefix is
// a key of c, as a part or not. Both bounds are set.
func (r Range[K]) in(prefix []byte, c KeyCodec[K], part bool) (shale.Range, error) {
	begin, err := bytes.Clone(prefix), error(nil)
	if r.first != nil {
		if begin, err = r.first(begin, c); err != nil {
			return shale.Range{}, err
		}
	}
	in := shale.Prefix(begin)
	in.Reverse, in.KeysOnly, in.Limit = r.Reverse, r.KeysOnly, r.Limit
	if r.Lower != nil {
		lower, err := c.append(bytes.Clone(prefix), *r.Lower, part)
		switch {
		case err != nil:
			return in, err
		case r.only && part:
			in.Lower, in.Upper = lower, shale.Prefix(lower).Upper
		case r.only:
			in.Lower, in.Upper = lower, append(bytes.Clone(lower), 0)
		case bytes.Compare(lower, in.Lower) > 0:
			in.Lower = lower
		}
	}
	if r.Upper != nil {
		upper, err := c.append(bytes.Clone(prefix), *r.Upper, part)
		if err != nil {
			return in, err
		}
		if bytes.Compare(upper, in.Upper) < 0 {
			in.Upper = upper
		}
	}
	return in, nil
}
