package bloom

import (
	"errors"
	"runtime"
)

// Filters that are probed in their serialized bytes are written again from those and
// a new trailer, which is the same one; for the result of FirstUnit it is that of a
// filter of one unit.

// AppendBinary appends the serialized form to dst, the bytes that OpenBlocked takes,
// and returns the longer slice. The zero Blocked is an error, with dst as it was.
func (f *Blocked) AppendBinary(dst []byte) ([]byte, error) { return f.appendWith(dst, Hasher{}) }

// appendWith is AppendBinary of a filter of hashes that hasher made.
func (f *Blocked) appendWith(dst []byte, hasher Hasher) ([]byte, error) {
	if f.first.lines == 0 {
		return dst, errors.New("bloom: write filter: it was not made by OpenBlocked or OpenStatic")
	}
	t := trailer{head: head{keys: f.keys, hasher: hasher}, units: f.Units()}
	t.k = [2]uint32{f.first.k, f.second.k}
	t.lines = [2]uint32{uint32(f.first.lines), uint32(f.second.lines)}
	start, first := len(dst), len(f.first.bytes)
	dst = grow(dst, int(t.size()))
	filter := dst[start:]
	copy(filter, f.first.bytes)
	copy(filter[first:], f.second.bytes)
	t.put(filter)
	return dst, nil
}

// MarshalBinary returns the serialized form: see AppendBinary.
func (f *Blocked) MarshalBinary() ([]byte, error) { return f.AppendBinary(nil) }

// UnmarshalBinary makes f the filter whose serialized form is b, exactly. Unlike
// OpenBlocked it copies b. Errors are those of OpenBlocked, and leave f as it was.
func (f *Blocked) UnmarshalBinary(b []byte) error {
	made, err := OpenBlocked(ownCopy(b))
	if err == nil {
		*f = *made
	}
	return err
}

// AppendBinary appends the serialized form to dst, the bytes that OpenFuse takes, and
// returns the longer slice. The zero Fuse is an error, with dst as it was.
func (f *Fuse) AppendBinary(dst []byte) ([]byte, error) {
	if f.r == 0 {
		return dst, errors.New("bloom: write filter: it was not made by OpenFuse or OpenStatic")
	}
	t := fuseTrailer{head: f.head, r: f.r, segments: f.span / f.length, length: f.length}
	start := len(dst)
	dst = grow(dst, len(f.bytes)+trailerLen)
	copy(dst[start:], f.bytes)
	t.put(dst[start:])
	return dst, nil
}

// MarshalBinary returns the serialized form: see AppendBinary.
func (f *Fuse) MarshalBinary() ([]byte, error) { return f.AppendBinary(nil) }

// UnmarshalBinary makes f the filter whose serialized form is b, exactly. Unlike
// OpenFuse it copies b. Errors are those of OpenFuse, and leave f as it was.
func (f *Fuse) UnmarshalBinary(b []byte) error {
	made, err := OpenFuse(ownCopy(b))
	if err == nil {
		*f = *made
	}
	return err
}

// AppendBinary appends the serialized form to dst, the bytes that OpenStatic takes,
// and returns the longer slice. The zero Static is an error, with dst as it was.
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

// UnmarshalBinary makes s the filter whose serialized form is b, exactly. Unlike
// OpenStatic it copies b. Errors are those of OpenStatic, and leave s as it was.
func (s *Static) UnmarshalBinary(b []byte) error {
	made, err := OpenStatic(ownCopy(b))
	if err == nil {
		*s = *made
	}
	return err
}

// ownCopy returns a copy of b that can be probed with one cache line a key: see grow.
func ownCopy(b []byte) []byte {
	c := grow(nil, len(b))
	copy(c, b)
	return c
}
