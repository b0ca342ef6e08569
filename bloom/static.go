package bloom

import (
	"runtime"

	"github.com/shaledb/shale/bloom/internal/form"
)

// A Kind is how a serialized filter works. It is part of the file format: a number is never
// changed, and never used again for another kind.
type Kind uint8

// The kinds of filter that a Static may be.
const (
	KindBlocked Kind = form.KindBlocked // Blocked
	KindFuse    Kind = form.KindFuse    // Fuse
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

// A Static is a read-only filter, a Blocked or a Fuse, over hashes of any function. It is
// opened from its bytes, which say what it is. Any number of goroutines may ask it at once.
// The zero Static answers maybe to every key.
type Static struct {
	// Constant after construction.
	fuse    *Fuse   // nil: the filter is blocked
	blocked Blocked // only if fuse is nil
	hasher  Hasher
}

// OpenStatic returns the filter whose serialized form is b, all of b. It keeps b
// and does not copy it. b may lie in memory that the garbage collector does not
// count. The caller may free that memory when the filter, or the value that
// contains it, can no longer be reached.
//
// The errors are those of [OpenBlocked], except that every hash function of this package is
// known. A filter that cannot be read means maybe, never no.
func OpenStatic(b []byte) (*Static, error) {
	if len(b) >= form.TrailerLen && b[len(b)-form.TrailerLen] == form.KindFuse {
		f, err := openFuse(b, everyHash)
		if err != nil {
			return nil, err
		}
		return &Static{fuse: f, hasher: f.head.hasher}, nil
	}
	t, err := parseTrailer(b, int64(len(b)), everyHash)
	if err != nil {
		return nil, err
	}
	return &Static{blocked: *newBlocked(b, t), hasher: t.hasher}, nil
}

// MayContainHash reports whether a key with this hash may be in the filter. The hash has to be
// made by the filter's Hasher. False is certain. It allocates nothing.
func (s *Static) MayContainHash(h uint64) (maybe bool) {
	if s.fuse != nil {
		maybe = s.fuse.MayContainHash(h)
	} else {
		maybe = s.blocked.MayContainHash(h)
	}
	runtime.KeepAlive(s) // see OpenStatic
	return maybe
}

// Hasher returns the function that keys have to be hashed with.
func (s *Static) Hasher() Hasher { return s.hasher }

// Kind returns how the filter works.
func (s *Static) Kind() Kind {
	if s.fuse != nil {
		return KindFuse
	}
	return KindBlocked
}

// Count returns the number of hashes that the filter was built from. 2^32 - 1
// means that number or more.
func (s *Static) Count() uint64 {
	if s.fuse != nil {
		return s.fuse.Count()
	}
	return s.blocked.Count()
}

// SizeBytes returns the memory that the filter keeps.
func (s *Static) SizeBytes() int {
	if s.fuse != nil {
		return s.fuse.SizeBytes()
	}
	return s.blocked.SizeBytes()
}

// Units returns how many parts the filter has that can be dropped one after the other: 2
// for a Blocked of two units, else 1.
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

// FPR returns the share of absent keys that are expected to pass.
func (s *Static) FPR() float64 {
	if s.fuse != nil {
		return s.fuse.FPR()
	}
	return s.blocked.FPR()
}

// FirstUnitBytes returns the SizeBytes that the result of FirstUnit has.
func (s *Static) FirstUnitBytes() int {
	if s.fuse != nil {
		return s.fuse.SizeBytes()
	}
	return s.blocked.FirstUnitBytes()
}

// FirstUnit returns the filter without its second unit, in memory of its own: see
// [Blocked.FirstUnit]. For a filter of one unit it returns the filter itself.
func (s *Static) FirstUnit() *Static {
	if s.Units() == 1 {
		return s
	}
	first := &Static{blocked: *s.blocked.FirstUnit(), hasher: s.hasher}
	runtime.KeepAlive(s)
	return first
}

// FirstUnitIn is FirstUnit with memory of the caller. mem is FirstUnitBytes long
// and begins at an address that 64 divides. It belongs to the new filter from
// then on. Requires: two units.
func (s *Static) FirstUnitIn(mem []byte) *Static {
	first := &Static{blocked: *s.blocked.firstUnitIn(mem), hasher: s.hasher}
	runtime.KeepAlive(s)
	return first
}

// StaticOptions say how to build a filter. The zero value makes a Blocked with [MinBits] a
// key, over hashes of the function Hash.
type StaticOptions struct {
	Kind       Kind // default KindBlocked
	BitsPerKey float64
	Hasher     Hasher // that made the hashes
}

// AppendStatic appends to dst a filter of the keys with these hashes, and returns the
// longer slice. [OpenStatic] opens it from the appended bytes alone. What [AppendBlocked] says
// of dst and hashes holds here too, except that a [KindFuse] allocates. A [StaticBuilder]
// allocates only once.
//
// A KindFuse has the widest fingerprints that fit into BitsPerKey (see [FuseFor]). A
// [KindBlocked] can always be built; with a very small probability a KindFuse cannot.
// An error leaves dst as it was.
func AppendStatic(dst []byte, hashes []uint64, o StaticOptions) ([]byte, error) {
	var b StaticBuilder
	return b.Append(dst, hashes, o)
}
