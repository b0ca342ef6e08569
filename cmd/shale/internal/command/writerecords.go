package command

import (
	"bytes"
	"encoding/base64"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"io"
	"time"
	"unicode/utf8"

	"github.com/shaledb/shale/cmd/shale/internal/output"
)

// A recordWriter writes entries in a format. end writes the rest.
//
// Only jsonl has the time at which a value is over. write does not keep key and value. After an error of either, the file is of no use.
type recordWriter struct {
	write func(key, value []byte, expires time.Time) error
	end   func() error
}

// newRecordWriter returns a writer of entries. Each format is chosen so that import gives back the
// same bytes, whatever they are: words with escapes in tsv and csv, base64 in jsonl.
func newRecordWriter(w io.Writer, format fileFormat) recordWriter {
	nothing := func() error { return nil }
	switch format {
	case formatCSV:
		c := csv.NewWriter(w)
		return recordWriter{func(key, value []byte, _ time.Time) error {
			return c.Write([]string{string(output.AppendField(nil, key)), string(output.AppendField(nil, value))})
		}, func() error { c.Flush(); return c.Error() }}
	case formatJSONL:
		e := json.NewEncoder(w)
		e.SetEscapeHTML(false)
		return recordWriter{func(key, value []byte, expires time.Time) error {
			r := jsonRecord{Expires: expiryOf(expires)}
			r.Key, r.Key64 = jsonText(key)
			r.Value, r.Value64 = jsonText(value)
			return e.Encode(r)
		}, nothing}
	case formatLines:
		return recordWriter{(&keyWriter{w: w}).write, nothing}
	}
	var line []byte
	return recordWriter{func(key, value []byte, _ time.Time) error {
		line = append(output.AppendField(append(output.AppendField(line[:0], key), '\t'), value), '\n')
		_, err := w.Write(line)
		return err
	}, nothing}
}

// A keyWriter writes lines of keys. All of them must have the same value.
//
// The format lines is for sets: their entries have one value, often an empty one.
type keyWriter struct {
	w     io.Writer
	begun bool
	value []byte
	line  []byte
}

// write writes the line of a key. An empty key is "", because an empty line is none.
func (k *keyWriter) write(key, value []byte, _ time.Time) error {
	if k.begun && !bytes.Equal(value, k.value) {
		return fmt.Errorf("the value of key %s differs from the values before it, but the format lines has only keys; --format tsv has both", output.Short(key))
	}
	if !k.begun {
		k.begun, k.value = true, bytes.Clone(value)
	}
	if k.line = output.AppendField(k.line[:0], key); len(key) == 0 {
		k.line = append(k.line, `""`...)
	}
	k.line = append(k.line, '\n')
	_, err := k.w.Write(k.line)
	return err
}

// A jsonRecord is a line of jsonl.
type jsonRecord struct {
	Key     *string `json:"key,omitempty"`
	Key64   *string `json:"key64,omitempty"`
	Value   *string `json:"value,omitempty"`
	Value64 *string `json:"value64,omitempty"`
	Expires int64   `json:"expires_ms,omitempty"`
}

// expiryOf returns a time of expiry as milliseconds, or 0 if there is none.
func expiryOf(at time.Time) int64 {
	if at.IsZero() {
		return 0
	}
	return at.UnixMilli()
}

// jsonText returns b as a string if it is UTF-8, and otherwise in base64.
//
// One of the two is nil, and so its field is left out.
func jsonText(b []byte) (text, coded *string) {
	if utf8.Valid(b) {
		s := string(b)
		return &s, nil
	}
	s := base64.StdEncoding.EncodeToString(b)
	return nil, &s
}
