package command

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"time"
	"unicode/utf8"
)

// base64Suffix is the end of the name of a field with bytes that are not text.
const base64Suffix = "64"

// expiresField is the name of a field with the time at which a value expires, in milliseconds since the beginning of 1970.
const expiresField = "expires_ms"

// A jsonReader reads lines of JSON objects.
//
// For example, each of these lines is an entry:
//
//	{"key":"a","value":"1"}
//	{"key64":"/wA=","value64":"AAE="}
//	{"key":"b","value":{"any":"JSON"}}
type jsonReader struct {
	*lineReader
	key, value string // the names of the fields
}

// newJSONReader returns a reader of objects, whose fields are "key" and "value" unless the form
// names others.
func newJSONReader(lines *lineReader, form recordForm) *jsonReader {
	r := &jsonReader{lines, form.key, form.value}
	if r.key == "" {
		r.key = "key"
	}
	if r.value == "" {
		r.value = "value"
	}
	return r
}

var errNotUTF8 = errors.New("it is not UTF-8; write other bytes in base64, in a field whose name ends in 64")

// next reads one object. Each check has its own error, because a file of a million lines that is
// wrong in one place is hard to look into. Fields that are not named are ignored, so exports of
// other programs can be used.
func (r *jsonReader) next() (record, error) {
	text, err := r.lineReader.next()
	if err != nil {
		return record{}, err
	}
	rec := record{line: r.line}
	var fields map[string]json.RawMessage
	switch {
	case !utf8.Valid(text):
		err = errNotUTF8
	case text[0] == '[':
		err = errors.New("a JSON array begins here; import reads an object on each line, as jq -c '.[]' makes of an array")
	default:
		var other *json.UnmarshalTypeError
		if err = json.Unmarshal(text, &fields); errors.As(err, &other) || err == nil && fields == nil {
			err = errors.New("it is not a JSON object")
		}
	}
	found := false
	if err == nil && string(fields[r.key]) == "null" {
		err = fmt.Errorf("%q is null", r.key)
	}
	if err == nil {
		if rec.key, found, err = bytesOf(fields, r.key); err == nil && !found {
			err = fmt.Errorf("there is no field %q and no %q", r.key, r.key+base64Suffix)
		}
	}
	if err == nil && len(fields[r.key]) > 0 && fields[r.key][0] != '"' {
		err = fmt.Errorf("field %q is not a string", r.key)
	}
	if err == nil {
		raw, there := fields[r.value]
		rec.value, found, err = bytesOf(fields, r.value)
		rec.notText = !found || there && raw[0] != '"'
	}
	if raw, there := fields[expiresField]; err == nil && there {
		var ms int64
		if err = json.Unmarshal(raw, &ms); err != nil || ms <= 0 {
			err = fmt.Errorf("field %q is not a number of milliseconds", expiresField)
		}
		rec.expires = time.UnixMilli(ms)
	}
	if err != nil {
		return record{}, r.bad(err)
	}
	return rec, nil
}

// bytesOf returns the bytes of a field, or of the field with the same name and base64Suffix. A
// value that is not a string is taken as it is written, and null as empty.
//
// JSON has text only, and bytes that are not UTF-8 would be replaced silently. So they travel in
// base64, in a field of another name.
func bytesOf(fields map[string]json.RawMessage, name string) (value []byte, found bool, err error) {
	raw, found := fields[name]
	coded, twin := fields[name+base64Suffix]
	switch {
	case found && twin:
		return nil, false, fmt.Errorf("there are both %q and %q", name, name+base64Suffix)
	case twin:
		var text string
		if err := json.Unmarshal(coded, &text); err != nil {
			return nil, false, fmt.Errorf("field %q is not a string", name+base64Suffix)
		}
		value, err = base64.StdEncoding.DecodeString(text)
		if err != nil {
			return nil, false, fmt.Errorf("field %q: %w", name+base64Suffix, err)
		}
		return value, true, nil
	case !found || string(raw) == "null":
		return nil, false, nil
	case raw[0] != '"':
		return raw, true, nil
	}
	var text string
	if err := json.Unmarshal(raw, &text); err != nil {
		return nil, false, fmt.Errorf("field %q: %w", name, err)
	}
	if lost(raw, text) {
		return nil, false, fmt.Errorf("field %q has an escape for half a character (an unpaired surrogate)", name)
	}
	return []byte(text), true, nil
}

// replacement is what encoding/json puts in place of half a surrogate pair.
const replacement = string(utf8.RuneError)

// lost reports whether decoding has put replacement characters into text that raw does not have.
//
// The text may have replacement characters of its own, which are counted on both sides.
func lost(raw []byte, text string) bool {
	n := bytes.Count([]byte(text), []byte(replacement))
	return n > 0 && n > bytes.Count(raw, []byte(replacement))+bytes.Count(bytes.ToLower(raw), []byte(`\ufffd`))
}
