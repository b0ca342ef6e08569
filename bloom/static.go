package bloom

import (
	"fmt"
	"runtime"
)

// A Kind says how a serialized filter works. It is part of the file format:
// numbers are never changed and never used again.
type Kind uint8

// The kinds.
const (
	KindBlocked Kind = kindBlocked // Blocked
	KindFuse    Kind = kindFuse    // Fuse
)

// String returns the kind's name, as commands print it.
func (k Kind) String() string {
	switch k {
	case KindBlocked:
		return "blocked"
	case KindFuse:
		return "fuse"
	}
	return "unknown"
}

// A Static is a read-only filter of any kind and any hash function, opened from
// its bytes. Any number of goroutines may ask it at once. The zero Static says maybe
// to every key.
type Static struct {
	// Constant after construction.
	fuse    *Fuse   // nil: blocked
	blocked Blocked // if fuse is nil
	hasher  Hasher
}

// OpenStatic returns the filter whose serialized form is b, exactly. The bytes
// are kept, not copied; they may lie in memory that the collector does not count,
// and be freed when the filter, or what it is a part of, can't be reached any more.
// Errors are those of OpenBlocked, but that all hash functions are known: a filter
// that cannot be read means maybe, never no.
func OpenStatic(b []byte) (*Static, error) {
	if len(b) >= trailerLen && b[len(b)-trailerLen] == kindFuse {
		f, err := openFuse(b, everyHash)
		if err != nil {
			return nil, err
		}
		return &Static{fuse: f, hasher: f.head.hasher}, nil
	}
	t, err := parseTrailer(b, everyHash)
	if err != nil {
		return nil, err
	}
	return &Static{blocked: *newBlocked(b, t), hasher: t.hasher}, nil
}

// MayContain tells whether a key with this hash may be in the filter. The hash
// has to be of the filter's Hasher. False is certain. It allocates nothing.
func (s *Static) MayContain(h uint64) (maybe bool) {
	if s.fuse != nil {
		maybe = s.fuse.MayContain(h)
	} else {
		maybe = s.blocked.MayContain(h)
	}
	runtime.KeepAlive(s) // see OpenStatic
	return maybe
}

// Hasher returns the function to hash keys with.
func (s *Static) Hasher() Hasher { return s.hasher }

// Kind returns how the filter works.
func (s *Static) Kind() Kind {
	if s.fuse != nil {
		return KindFuse
	}
	return KindBlocked
}

// Keys returns how many hashes the filter was built from; 2^32 - 1 means that
// many or more.
func (s *Static) Keys() uint64 {
	if s.fuse != nil {
		return s.fuse.Keys()
	}
	return s.blocked.Keys()
}

// SizeBytes returns the memory that the filter keeps.
func (s *Static) SizeBytes() int {
	if s.fuse != nil {
		return s.fuse.SizeBytes()
	}
	return s.blocked.SizeBytes()
}

// Units returns how many parts of the filter can be dropped one after the
// other: 2 for a Blocked of two units, else 1.
func (s *Static) Units() int {
	if s.fuse != nil {
		return 1
	}
	return s.blocked.Units()
}

// BitsPerKey returns the bits of memory for each key, without the trailer.
func (s *Static) BitsPerKey() float64 {
	if s.fuse != nil {
		return s.fuse.BitsPerKey()
	}
	return s.blocked.BitsPerKey()
}

// PredictedFPR returns the share of absent keys that MayContain is expected to
// let pass.
func (s *Static) PredictedFPR() float64 {
	if s.fuse != nil {
		return s.fuse.PredictedFPR()
	}
	return s.blocked.PredictedFPR()
}

// FirstUnitBytes returns what SizeBytes of FirstUnit is.
func (s *Static) FirstUnitBytes() int {
	if s.fuse != nil {
		return s.fuse.SizeBytes()
	}
	return s.blocked.FirstUnitBytes()
}

// FirstUnit returns the filter without its second unit, in memory of its own:
// see Blocked.FirstUnit. A filter of one unit is its own first unit.
func (s *Static) FirstUnit() *Static {
	if s.Units() == 1 {
		return s
	}
	first := &Static{blocked: *s.blocked.FirstUnit(), hasher: s.hasher}
	runtime.KeepAlive(s)
	return first
}

// FirstUnitIn is FirstUnit of a filter of two units, in memory that is the
// filter's from then on: FirstUnitBytes long, aligned to 64.
func (s *Static) FirstUnitIn(mem []byte) *Static {
	first := &Static{blocked: *s.blocked.firstUnitIn(mem), hasher: s.hasher}
	runtime.KeepAlive(s)
	return first
}

// StaticOptions say how to build a filter. The zero value is a Blocked of
// MinBits over hashes of Hash.
type StaticOptions struct {
	Kind       Kind // default KindBlocked
	BitsPerKey float64
	Hasher     Hasher // of the hashes
}

// AppendStatic appends to dst a filter of the keys with these hashes and
// returns the longer slice. It is opened by OpenStatic from the appended bytes
// alone. What AppendBlocked says of dst and hashes holds here too, but that a
// KindFuse allocates, and that with equal hashes their order may change its bytes.
//
// A KindFuse has the widest fingerprints that fit into BitsPerKey (see FuseFor),
// and by a chance that is hardly ever met cannot be built at all. With an error
// dst is returned as it was: a KindBlocked can always be built.
func AppendStatic(dst []byte, hashes []uint64, o StaticOptions) ([]byte, error) {
	switch o.Kind {
	case 0, KindBlocked:
		return appendBlocked(dst, hashes, o.BitsPerKey, o.Hasher), nil
	case KindFuse:
		return appendFuse(dst, hashes, FuseFor(len(hashes), o.BitsPerKey), o.Hasher)
	}
	return dst, fmt.Errorf("bloom: build filter: %w: kind %d", ErrUnknown, o.Kind)
}
