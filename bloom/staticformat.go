package bloom

import (
	"errors"
	"runtime"

	"github.com/shaledb/shale/bloom/internal/form"
)

// Blocked, Fuse and Static are probed in their serialized bytes. So writing one copies
// these bytes and makes the trailer again. The trailer has the same bytes as before, except
// for the result of FirstUnit, which gets the trailer of a filter of one unit.

// AppendBinary appends the serialized form to dst, the bytes that [OpenBlocked] takes, and
// returns the longer slice. For the zero Blocked it returns an error and dst as it was.
func (f *Blocked) AppendBinary(dst []byte) ([]byte, error) { return f.appendWith(dst, Hasher{}) }

// appendWith is AppendBinary for a filter whose hashes were made by hasher.
func (f *Blocked) appendWith(dst []byte, hasher Hasher) ([]byte, error) {
	if f.units.First.Lines == 0 {
		return dst, errors.New("bloom: write filter: it was not made by OpenBlocked or OpenStatic")
	}
	t := trailer{head: head{keys: f.keys, hasher: hasher}, units: f.Units()}
	t.k = [2]uint32{f.units.First.K, f.units.Second.K}
	t.lines = [2]uint32{uint32(f.units.First.Lines), uint32(f.units.Second.Lines)}
	start, first := len(dst), len(f.units.First.Bytes)
	dst = grow(dst, int(t.size()))
	filter := dst[start:]
	copy(filter, f.units.First.Bytes)
	copy(filter[first:], f.units.Second.Bytes)
	t.put(filter)
	return dst, nil
}

// MarshalBinary returns the serialized form: see AppendBinary.
func (f *Blocked) MarshalBinary() ([]byte, error) { return f.AppendBinary(nil) }

// UnmarshalBinary makes f the filter whose serialized form is b, all of b. Unlike
// [OpenBlocked] it copies b. The errors are those of OpenBlocked, and leave f as it was.
func (f *Blocked) UnmarshalBinary(b []byte) error {
	made, err := OpenBlocked(ownCopy(b))
	if err == nil {
		*f = *made
	}
	return err
}

// AppendBinary appends the serialized form to dst, the bytes that [OpenFuse] takes, and
// returns the longer slice. For the zero Fuse it returns an error and dst as it was.
func (f *Fuse) AppendBinary(dst []byte) ([]byte, error) {
	if f.r == 0 {
		return dst, errors.New("bloom: write filter: it was not made by OpenFuse or OpenStatic")
	}
	t := fuseTrailer{head: f.head, r: f.r, segments: f.span / f.length, length: f.length}
	start := len(dst)
	dst = grow(dst, len(f.bytes)+form.TrailerLen)
	copy(dst[start:], f.bytes)
	t.put(dst[start:])
	return dst, nil
}

// MarshalBinary returns the serialized form: see AppendBinary.
func (f *Fuse) MarshalBinary() ([]byte, error) { return f.AppendBinary(nil) }

// UnmarshalBinary makes f the filter whose serialized form is b, all of b. Unlike [OpenFuse]
// it copies b. The errors are those of OpenFuse, and leave f as it was.
func (f *Fuse) UnmarshalBinary(b []byte) error {
	made, err := OpenFuse(ownCopy(b))
	if err == nil {
		*f = *made
	}
	return err
}

// AppendBinary appends the serialized form to dst, the bytes that [OpenStatic] takes, and
// returns the longer slice. For the zero Static it returns an error and dst as it was.
func (s *Static) AppendBinary(dst []byte) (longer []byte, err error) {
	if s.fuse != nil {
		longer, err = s.fuse.AppendBinary(dst)
	} else {
		longer, err = s.blocked.appendWith(dst, s.hasher)
	}
	runtime.KeepAlive(s) // see OpenStatic
	return longer, err
}

// MarshalBinary returns the serialized form: see AppendBinary.
func (s *Static) MarshalBinary() ([]byte, error) { return s.AppendBinary(nil) }

// UnmarshalBinary makes s the filter whose serialized form is b, all of b. Unlike
// [OpenStatic] it copies b. The errors are those of OpenStatic, and leave s as it was.
func (s *Static) UnmarshalBinary(b []byte) error {
	made, err := OpenStatic(ownCopy(b))
	if err == nil {
		*s = *made
	}
	return err
}

// ownCopy returns a copy of b that is aligned to cache lines: see grow.
func ownCopy(b []byte) []byte {
	c := grow(nil, len(b))
	copy(c, b)
	return c
}
