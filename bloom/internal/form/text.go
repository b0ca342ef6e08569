package form

import (
	"cmp"
	"encoding/base64"
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// The text of a filter is its serialized form in base64 (RFC 4648, with padding).
// encoding/json, encoding/xml and other encoders that know encoding.TextMarshaler write it.
// The filters' methods MarshalText have value receivers: an encoder that gets a filter by
// value sees only such methods. Without them it would write an empty object and return no
// error.

// Text returns b in base64, or err.
func Text(b []byte, err error) ([]byte, error) {
	if err != nil {
		return nil, err
	}
	return base64.StdEncoding.AppendEncode(nil, b), nil
}

// UnmarshalText decodes text and calls unmarshal with the bytes.
func UnmarshalText(text []byte, unmarshal func(b []byte) error) error {
	b, err := base64.StdEncoding.AppendDecode(nil, text)
	if err != nil {
		return Damage("%v", err)
	}
	return unmarshal(b)
}

// ErrNone says that a type has no serialized form. It is returned so that no encoder
// writes or reads an empty object in its place.
func ErrNone(what, instead string) error {
	return fmt.Errorf("bloom: a %s has no serialized form: %w: %s", what, errors.ErrUnsupported, instead)
}

// WriteBelow says what to do in place of writing a filter around another.
const WriteBelow = "write the filter below"

// Zero follows the type in what a zero filter prints.
const Zero = "the zero value, which says maybe to every key"

// Statistics are what a filter prints, beneath its type: a table of one line each.
type Statistics struct {
	Keys string  // how many
	Bits uint64  // of all places
	Name string  // of the row of Set; "bits set" if it is empty
	Of   uint64  // how many of these there are; Bits if it is 0
	Set  uint64  // how many of them are not 0
	Rate float64 // share of absent keys that are expected to pass

	Planned uint64  // keys that the filter was made for; 0: not known
	Probes  int     // 0: no row
	Wanted  float64 // rate that the filter was made for; 0: not known

	Solid bool // there is no number of set places: all of them mean something
}

// Table returns the lines of a filter. kind is its type.
func (s Statistics) Table(kind string) string {
	var b strings.Builder
	row := func(name, format string, v any) { fmt.Fprintf(&b, "\n  %-12s %14s", name, fmt.Sprintf(format, v)) }
	b.WriteString(kind + ":")
	row("keys", "%s", s.Keys)
	if s.Planned > 0 {
		row("keys planned", "%d", s.Planned)
	}
	row("bits", "%d", s.Bits)
	if s.Probes > 0 {
		row("probes", "%d", s.Probes)
	}
	if !s.Solid {
		row(cmp.Or(s.Name, "bits set"), "%d", s.Set)
		row("fill ratio", "%.1f %%", 100*float64(s.Set)/float64(max(cmp.Or(s.Of, s.Bits), 1)))
	}
	row("false maybes", "%.3g %%", 100*s.Rate)
	if s.Wanted > 0 {
		row("rate planned", "%.3g %%", 100*s.Wanted)
	}
	return b.String()
}

// Number returns n as Statistics.Keys has it.
func Number(n uint64) string { return strconv.FormatUint(n, 10) }

// NameOf returns what a filter prints as, or its type if it has no method String.
func NameOf(f any) string {
	if s, ok := f.(fmt.Stringer); ok {
		return s.String()
	}
	return strings.TrimPrefix(fmt.Sprintf("%T", f), "*")
}
