package form

import (
	"encoding/base64"
	"errors"
	"fmt"
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

// A filter prints as its type, its number of keys, its size in bits, and the share of absent
// keys that are expected to pass.

// Zero follows the type in what a zero filter prints.
const Zero = "the zero value, which says maybe to every key"

// Printed returns what a filter prints. kind is the type of the filter and a colon.
func Printed(kind string, keys uint64, bytes int, rate float64) string {
	return fmt.Sprintf("%s %d keys in %d bits, %.3g %% of absent keys pass", kind, keys, 8*uint64(bytes), 100*rate)
}

// NameOf returns what a filter prints as, or its type if it has no method String.
func NameOf(f any) string {
	if s, ok := f.(fmt.Stringer); ok {
		return s.String()
	}
	return strings.TrimPrefix(fmt.Sprintf("%T", f), "*")
}
