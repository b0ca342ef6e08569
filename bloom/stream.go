package bloom

import (
	"io"

	"github.com/shaledb/shale/bloom/internal/form"
)

// WriteTo and ReadFrom put a frame with the length in front of the serialized form, so that
// something else may follow in a stream. docs/FORMAT.md describes it.

// WriteTo writes a frame of 24 bytes and the serialized form, the bytes of MarshalBinary, so
// that ReadFrom finds its end in a stream. It holds a copy while it writes.
func (f *Blocked) WriteTo(w io.Writer) (n int64, err error) { return form.WriteTo(w, f.AppendBinary) }

// ReadFrom reads from r what WriteTo wrote, and not a byte more, and makes f that filter: see
// [Filter.ReadFrom].
func (f *Blocked) ReadFrom(r io.Reader) (n int64, err error) {
	return form.ReadFrom(r, f.UnmarshalBinary)
}

// WriteTo writes a frame of 24 bytes and the serialized form, the bytes of MarshalBinary, so
// that ReadFrom finds its end in a stream. It holds a copy while it writes. Keys may be added
// meanwhile: each key whose addition has returned before is written.
func (f *AtomicBlocked) WriteTo(w io.Writer) (n int64, err error) {
	return form.WriteTo(w, f.AppendBinary)
}

// ReadFrom reads from r what WriteTo wrote, and not a byte more, and makes f that filter: see
// [Filter.ReadFrom]. Nobody may use f at the same time.
func (f *AtomicBlocked) ReadFrom(r io.Reader) (n int64, err error) {
	return form.ReadFrom(r, f.UnmarshalBinary)
}

// WriteTo writes a frame of 24 bytes and the serialized form, the bytes of MarshalBinary, so
// that ReadFrom finds its end in a stream. It holds a copy while it writes.
func (f *Fuse) WriteTo(w io.Writer) (n int64, err error) { return form.WriteTo(w, f.AppendBinary) }

// ReadFrom reads from r what WriteTo wrote, and not a byte more, and makes f that filter: see
// [Filter.ReadFrom].
func (f *Fuse) ReadFrom(r io.Reader) (n int64, err error) { return form.ReadFrom(r, f.UnmarshalBinary) }

// WriteTo writes a frame of 24 bytes and the serialized form, the bytes of MarshalBinary, so
// that ReadFrom finds its end in a stream. It holds a copy while it writes.
func (s *Static) WriteTo(w io.Writer) (n int64, err error) { return form.WriteTo(w, s.AppendBinary) }

// ReadFrom reads from r what WriteTo wrote, and not a byte more, and makes s that filter: see
// [Filter.ReadFrom].
func (s *Static) ReadFrom(r io.Reader) (n int64, err error) {
	return form.ReadFrom(r, s.UnmarshalBinary)
}
