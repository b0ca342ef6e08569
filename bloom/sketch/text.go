package sketch

import "github.com/shaledb/shale/bloom/internal/form"

// MarshalText returns the bytes of AppendBinary in base64.
func (s Scalable) MarshalText() ([]byte, error) { return form.Text(s.MarshalBinary()) }

// UnmarshalText makes s the filter that MarshalText wrote as text: see UnmarshalBinary.
func (s *Scalable) UnmarshalText(text []byte) error {
	return form.UnmarshalText(text, s.UnmarshalBinary)
}

// MarshalText returns the bytes of AppendBinary in base64.
func (f Counting) MarshalText() ([]byte, error) { return form.Text(f.MarshalBinary()) }

// UnmarshalText makes f the filter that MarshalText wrote as text: see UnmarshalBinary.
func (f *Counting) UnmarshalText(text []byte) error {
	return form.UnmarshalText(text, f.UnmarshalBinary)
}

// MarshalText returns the bytes of AppendBinary in base64.
func (f Cuckoo) MarshalText() ([]byte, error) { return form.Text(f.MarshalBinary()) }

// UnmarshalText makes f the filter that MarshalText wrote as text: see UnmarshalBinary.
func (f *Cuckoo) UnmarshalText(text []byte) error { return form.UnmarshalText(text, f.UnmarshalBinary) }

// MarshalText returns the bytes of AppendBinary in base64.
func (s Bitset) MarshalText() ([]byte, error) { return form.Text(s.MarshalBinary()) }

// UnmarshalText makes s the set that MarshalText wrote as text: see UnmarshalBinary.
func (s *Bitset) UnmarshalText(text []byte) error { return form.UnmarshalText(text, s.UnmarshalBinary) }

// MarshalText always returns an error, which is errors.ErrUnsupported: an Exact
// has no serialized form.
func (e Exact) MarshalText() ([]byte, error) { return nil, form.ErrNone("Exact", form.WriteBelow) }

// UnmarshalText always returns an error: see MarshalText.
func (e *Exact) UnmarshalText([]byte) error { return form.ErrNone("Exact", form.WriteBelow) }
