package sketch

import (
	"io"

	"github.com/shaledb/shale/bloom/internal/form"
)

// WriteTo and ReadFrom put a frame with the length in front of the serialized form, so that
// something else may follow in a stream. docs/FORMAT.md describes it.

// WriteTo writes a frame of 24 bytes and the serialized form, the bytes of MarshalBinary, so
// that ReadFrom finds its end in a stream. It holds a copy while it writes.
func (s *Scalable) WriteTo(w io.Writer) (n int64, err error) { return form.WriteTo(w, s.AppendBinary) }

// ReadFrom reads from r what WriteTo wrote, and not a byte more, and makes s that filter: see
// Filter.ReadFrom of package bloom.
func (s *Scalable) ReadFrom(r io.Reader) (n int64, err error) {
	return form.ReadFrom(r, s.UnmarshalBinary)
}

// WriteTo writes a frame of 24 bytes and the serialized form, the bytes of MarshalBinary, so
// that ReadFrom finds its end in a stream. It holds a copy while it writes.
func (f *Counting) WriteTo(w io.Writer) (n int64, err error) { return form.WriteTo(w, f.AppendBinary) }

// ReadFrom reads from r what WriteTo wrote, and not a byte more, and makes f that filter: see
// Filter.ReadFrom of package bloom.
func (f *Counting) ReadFrom(r io.Reader) (n int64, err error) {
	return form.ReadFrom(r, f.UnmarshalBinary)
}

// WriteTo writes a frame of 24 bytes and the serialized form, the bytes of MarshalBinary, so
// that ReadFrom finds its end in a stream. It holds a copy while it writes.
func (f *Cuckoo) WriteTo(w io.Writer) (n int64, err error) { return form.WriteTo(w, f.AppendBinary) }

// ReadFrom reads from r what WriteTo wrote, and not a byte more, and makes f that filter: see
// Filter.ReadFrom of package bloom.
func (f *Cuckoo) ReadFrom(r io.Reader) (n int64, err error) {
	return form.ReadFrom(r, f.UnmarshalBinary)
}

// WriteTo writes a frame of 24 bytes and the serialized form, the bytes of MarshalBinary, so
// that ReadFrom finds its end in a stream. It holds a copy while it writes.
func (s *Bitset) WriteTo(w io.Writer) (n int64, err error) { return form.WriteTo(w, s.AppendBinary) }

// ReadFrom reads from r what WriteTo wrote, and not a byte more, and makes s that set: see
// Filter.ReadFrom of package bloom.
func (s *Bitset) ReadFrom(r io.Reader) (n int64, err error) {
	return form.ReadFrom(r, s.UnmarshalBinary)
}
