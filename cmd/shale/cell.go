package main

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/shaledb/shale/internal/base"
	"github.com/shaledb/shale/internal/quoting"
)

// A cell is one field of a table: what people read, and what programs do.
type cell struct {
	text string
	raw  any // int64, uint64, float64, bool, []cell; nil: the text

	// bytes is a key or a value, not nil, of which text, if not empty, is a short
	// form. It is written in the format that is set.
	bytes []byte
}

// sizeCell is 1.2 MiB for people, and bytes for programs.
func sizeCell[N ~int | ~int64 | ~uint64](n N) cell {
	return cell{text: base.FormatBytes(int64(n)), raw: int64(n)}
}

// numberCell is n with commas for people.
func numberCell[N ~int | ~int64 | ~uint64](n N) cell {
	if n < 0 {
		return cell{text: strconv.FormatInt(int64(n), 10), raw: int64(n)}
	}
	return cell{text: number(n), raw: uint64(n)}
}

// percentCell is a share of one: a percentage for people.
func percentCell(p float64) cell { return cell{text: base.FormatPercent(p), raw: p} }

// floatCell has the digits of format, as of Printf, for people.
func floatCell(format string, v float64) cell { return cell{text: fmt.Sprintf(format, v), raw: v} }

// durationCell is seconds for programs.
func durationCell(d time.Duration) cell { return cell{text: d.String(), raw: d.Seconds()} }

// byteCell is a key or a value, whole. It keeps b.
func byteCell(b []byte) cell {
	if b == nil {
		b = []byte{}
	}
	return cell{bytes: b}
}

// keyCell is a key in a table: people get it cut if it is long.
func keyCell(key []byte) cell {
	c := byteCell(key)
	c.text = short(key)
	return c
}

// keysCell is a range of keys: an array of two for programs.
func keysCell(smallest, largest []byte) cell {
	return cell{text: short(smallest) + " … " + short(largest), raw: []cell{byteCell(smallest), byteCell(largest)}}
}

// noCell is a field without a value: empty for people, null for programs.
func noCell(text string) cell { return cell{text: text, raw: []cell(nil)} }

func (c cell) isNull() bool {
	list, ok := c.raw.([]cell)
	return ok && list == nil
}

// cellOf makes a cell of what a row was given. Text in a column of numbers that
// is one is a number for programs too.
func cellOf(v any, right bool) cell {
	switch v := v.(type) {
	case cell:
		return v
	case string:
		return textCell(v, right)
	case []byte:
		return byteCell(v)
	case bool:
		return cell{text: strconv.FormatBool(v), raw: v}
	case int:
		return numberCell(v)
	case int64:
		return numberCell(v)
	case uint64:
		return numberCell(v)
	case time.Duration:
		return durationCell(v)
	}
	return textCell(fmt.Sprint(v), right)
}

func textCell(text string, right bool) cell {
	if !right {
		return cell{text: text}
	}
	if text == "" || text == "-" {
		return noCell(text)
	}
	digits := strings.ReplaceAll(text, ",", "")
	if n, err := strconv.ParseUint(digits, 10, 64); err == nil {
		return cell{text: text, raw: n}
	}
	if v, err := strconv.ParseFloat(digits, 64); err == nil && !math.IsInf(v, 0) && !math.IsNaN(v) && !quoting.IsHex(digits) {
		return cell{text: text, raw: v}
	}
	return cell{text: text}
}

// plain returns what people read, on one line, with nothing that a terminal
// would obey.
func (c cell) plain(f format) string {
	if c.bytes == nil {
		return seen(c.text)
	}
	if c.text != "" && f == asWords {
		return c.text
	}
	if f == asBytes {
		f = asWords // raw bytes would break the frame
	}
	return string(appendWord(nil, c.bytes, f))
}

// seen returns text with escapes for what can't be seen.
func seen(text string) string {
	for _, r := range text {
		if r != ' ' && !unicode.IsPrint(r) || r == utf8.RuneError {
			q := strconv.Quote(text)
			return q[1 : len(q)-1]
		}
	}
	return text
}

// appendField appends c to a line of CSV: a number as a number is written, text
// as it is; a key or value as a quoted word if it begins with a quote or has
// what can't be seen, so that it is clear which of the two it is.
func (c cell) appendField(dst []byte, f format) []byte {
	switch {
	case c.bytes != nil && f == asWords && isPlain(c.bytes):
		return append(dst, c.bytes...)
	case c.bytes != nil && f == asWords:
		return strconv.AppendQuote(dst, string(c.bytes))
	}
	return c.appendWord(dst, f)
}

// appendWord appends c to a line of words.
func (c cell) appendWord(dst []byte, f format) []byte {
	switch {
	case c.bytes != nil:
		return appendWord(dst, c.bytes, f)
	case c.raw == nil:
		return append(dst, seen(c.text)...)
	}
	if list, ok := c.raw.([]cell); ok {
		for i, e := range list {
			if i > 0 {
				dst = append(dst, ' ')
			}
			dst = e.appendWord(dst, f)
		}
		return dst
	}
	return c.appendRaw(dst)
}

func isPlain(b []byte) bool {
	if len(b) > 0 && b[0] == '"' {
		return false
	}
	for i := 0; i < len(b); {
		r, size := utf8.DecodeRune(b[i:])
		if r != ' ' && !unicode.IsPrint(r) || r == utf8.RuneError && size == 1 {
			return false
		}
		i += size
	}
	return true
}

func (c cell) appendRaw(dst []byte) []byte {
	switch v := c.raw.(type) {
	case int64:
		return strconv.AppendInt(dst, v, 10)
	case uint64:
		return strconv.AppendUint(dst, v, 10)
	case bool:
		return strconv.AppendBool(dst, v)
	case float64:
		return appendFloat(dst, v)
	}
	return append(dst, "null"...)
}

// appendFloat appends v as JSON has it, which knows no infinities.
func appendFloat(dst []byte, v float64) []byte {
	if math.IsInf(v, 0) || math.IsNaN(v) {
		return append(dst, "null"...)
	}
	return strconv.AppendFloat(dst, v, 'g', -1, 64)
}

// appendJSON appends c as a value of JSON.
func (c cell) appendJSON(dst []byte, f format) []byte {
	switch v := c.raw.(type) {
	case nil:
		if c.bytes == nil {
			return appendString(dst, c.text)
		}
		if f == asHex || !utf8.Valid(c.bytes) {
			return appendString(dst, string(appendWord(nil, c.bytes, f)))
		}
		return appendString(dst, string(c.bytes))
	case []cell:
		if v == nil {
			return append(dst, "null"...)
		}
		for i, e := range v {
			dst = append(dst, "[,"[min(i, 1)])
			dst = e.appendJSON(dst, f)
		}
		return append(dst, ']')
	}
	return c.appendRaw(dst)
}

// appendString appends text as a string of JSON. What can't be seen is escaped,
// beyond what JSON asks for: terminals obey some of it.
func appendString(dst []byte, text string) []byte {
	dst = append(dst, '"')
	for _, r := range text {
		switch {
		case r == '"' || r == '\\':
			dst = append(dst, '\\', byte(r))
		case r == '\n':
			dst = append(dst, `\n`...)
		case r == '\t':
			dst = append(dst, `\t`...)
		case r == ' ' || unicode.IsPrint(r):
			dst = utf8.AppendRune(dst, r)
		case r > 0xffff:
			high, low := utf16.EncodeRune(r)
			dst = fmt.Appendf(dst, `\u%04x\u%04x`, high, low)
		default:
			dst = fmt.Appendf(dst, `\u%04x`, r)
		}
	}
	return append(dst, '"')
}
