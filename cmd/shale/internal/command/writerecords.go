package command

import (
	"bytes"
	"encoding/base64"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"unicode"
	"unicode/utf8"

	"github.com/shaledb/shale/cmd/shale/internal/output"
)

// A recordWriter writes entries in a format.
type recordWriter interface {
	write(key, value []byte) error
	end() error
}

func newRecordWriter(w io.Writer, format fileFormat) recordWriter {
	switch format {
	case formatCSV:
		return &csvWriter{csv.NewWriter(w)}
	case formatJSONL:
		e := json.NewEncoder(w)
		e.SetEscapeHTML(false)
		return &jsonWriter{e}
	}
	return &textWriter{w: w, keys: format == formatLines}
}

// appendField appends text. It writes a quoted word if bare text would be read differently, or if
// it has bytes that can't be seen.
func appendField(dst, text []byte) []byte {
	if fieldNeedsQuotes(text) {
		return strconv.AppendQuote(dst, string(text))
	}
	return append(dst, text...)
}

func fieldNeedsQuotes(text []byte) bool {
	if len(text) > 0 && text[0] == '"' {
		return true
	}
	for i := 0; i < len(text); {
		if c := text[i]; c < utf8.RuneSelf {
			if c < ' ' || c == 0x7f {
				return true
			}
			i++
			continue
		}
		r, size := utf8.DecodeRune(text[i:])
		if !unicode.IsPrint(r) || r == utf8.RuneError && size == 1 {
			return true
		}
		i += size
	}
	return false
}

// A textWriter writes lines, of keys or of tsv.
type textWriter struct {
	w     io.Writer
	keys  bool
	begun bool
	value []byte // the value of all entries
	line  []byte
}

func (t *textWriter) write(key, value []byte) error {
	if !t.keys {
		t.line = append(appendField(append(appendField(t.line[:0], key), '\t'), value), '\n')
	} else {
		if t.begun && !bytes.Equal(value, t.value) {
			return fmt.Errorf("the value of key %s differs from the values before it, but the format lines has only keys; --format tsv has both", output.Short(key))
		}
		if !t.begun {
			t.begun, t.value = true, bytes.Clone(value)
		}
		if t.line = appendField(t.line[:0], key); len(key) == 0 {
			t.line = append(t.line, `""`...)
		}
		t.line = append(t.line, '\n')
	}
	_, err := t.w.Write(t.line)
	return err
}

func (t *textWriter) end() error { return nil }

type csvWriter struct{ w *csv.Writer }

func (c *csvWriter) write(key, value []byte) error {
	return c.w.Write([]string{string(appendField(nil, key)), string(appendField(nil, value))})
}

func (c *csvWriter) end() error {
	c.w.Flush()
	return c.w.Error()
}

type jsonWriter struct{ e *json.Encoder }

// A jsonRecord is a line of jsonl.
type jsonRecord struct {
	Key     *string `json:"key,omitempty"`
	Key64   *string `json:"key64,omitempty"`
	Value   *string `json:"value,omitempty"`
	Value64 *string `json:"value64,omitempty"`
}

func (j *jsonWriter) write(key, value []byte) error {
	var r jsonRecord
	r.Key, r.Key64 = jsonText(key)
	r.Value, r.Value64 = jsonText(value)
	return j.e.Encode(r)
}

func (j *jsonWriter) end() error { return nil }

// jsonText returns b as a string if it is UTF-8, and otherwise in base64.
func jsonText(b []byte) (text, coded *string) {
	if utf8.Valid(b) {
		s := string(b)
		return &s, nil
	}
	s := base64.StdEncoding.EncodeToString(b)
	return nil, &s
}
