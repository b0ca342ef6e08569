package output

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

// A Cell is one field of a table. It has a text for people and a value for programs.
//
// A size is "1.2 MiB" for a person and 1306246 for a program, a percentage 0.954 % and 0.00954. So
// a table never has to be parsed to be used.
type Cell struct {
	Text string
	Raw  any // int64, uint64, float64, bool, or []Cell; nil: programs get the text

	// bytes is a key or a value, or nil for other cells. It is written in the format of the
	// session. If text is not empty, it is a short form of bytes.
	bytes []byte
}

// SizeCell returns a cell such as 1.2 MiB for people, and the number of bytes for programs.
func SizeCell[N ~int | ~int64 | ~uint64](n N) Cell {
	return Cell{Text: base.FormatBytes(int64(n)), Raw: int64(n)}
}

// NumberCell returns a cell with n, with commas for people.
func NumberCell[N ~int | ~int64 | ~uint64](n N) Cell {
	if n < 0 {
		return Cell{Text: strconv.FormatInt(int64(n), 10), Raw: int64(n)}
	}
	return Cell{Text: Number(n), Raw: uint64(n)}
}

// PercentCell returns a cell with a share from 0 to 1, which is a percentage for people.
//
// Small rates keep their digits: 0.00166 %.
func PercentCell(p float64) Cell { return Cell{Text: base.FormatPercent(p), Raw: p} }

// FloatCell returns a cell with v. People get it in a format of Printf.
func FloatCell(format string, v float64) Cell { return Cell{Text: fmt.Sprintf(format, v), Raw: v} }

// ByteCell returns a cell with a whole key or value. The cell keeps b.
func ByteCell(b []byte) Cell {
	if b == nil {
		b = []byte{}
	}
	return Cell{bytes: b}
}

// KeyCell returns a cell with a key. People get a long key cut.
func KeyCell(key []byte) Cell {
	c := ByteCell(key)
	c.Text = Short(key)
	return c
}

// KeysCell returns a cell with a range of keys, which is an array of two for programs.
//
// As text the two are cut, as in "a … z".
func KeysCell(smallest, largest []byte) Cell {
	return Cell{Text: Short(smallest) + " … " + Short(largest), Raw: []Cell{ByteCell(smallest), ByteCell(largest)}}
}

// RangeCell returns a cell with the keys from lower up to upper, which is exclusive; nil: there is no bound. It is like that
// of KeysCell.
func RangeCell(lower, upper []byte) Cell {
	c := Cell{Text: Range(lower, upper), Raw: []Cell{ByteCell(lower), NoCell("")}}
	if upper != nil {
		c.Raw = []Cell{ByteCell(lower), ByteCell(upper)}
	}
	return c
}

// Range returns the text of RangeCell: "a .. m", or "a .. the end" without an upper bound. A key with a space is quoted.
func Range(lower, upper []byte) string {
	if upper == nil {
		return Short(lower) + " .. the end"
	}
	return Short(lower) + " .. " + Short(upper)
}

// NoCell returns a cell without a value: empty for people, null for programs.
//
// The text is often "-", which a person reads as "none".
func NoCell(text string) Cell { return Cell{Text: text, Raw: []Cell(nil)} }

// isNull reports whether NoCell has made the cell. A nil slice stands for that, so that Cell needs
// no more fields.
func (c Cell) isNull() bool {
	list, ok := c.Raw.([]Cell)
	return ok && list == nil
}

// cellOf returns the cell for a field of a row. A text in a column of numbers is a number for
// programs, if it can be parsed as one.
//
// right says that the column is one of numbers.
func cellOf(v any, right bool) Cell {
	switch v := v.(type) {
	case Cell:
		return v
	case string:
		return textCell(v, right)
	case []byte:
		return ByteCell(v)
	case bool:
		return Cell{Text: strconv.FormatBool(v), Raw: v}
	case int:
		return NumberCell(v)
	case int64:
		return NumberCell(v)
	case uint64:
		return NumberCell(v)
	case time.Duration:
		return Cell{Text: base.FormatDuration(v), Raw: v.Seconds()}
	}
	return textCell(fmt.Sprint(v), right)
}

// textCell returns the cell of a text. In a column of numbers "1,234" is the number 1234 for
// programs. A text such as 0x10 or NaN stays a text, because it is none of ours.
func textCell(text string, right bool) Cell {
	if !right {
		return Cell{Text: text}
	}
	if text == "" || text == "-" {
		return NoCell(text)
	}
	digits := strings.ReplaceAll(text, ",", "")
	if n, err := strconv.ParseUint(digits, 10, 64); err == nil {
		return Cell{Text: text, Raw: n}
	}
	if v, err := strconv.ParseFloat(digits, 64); err == nil && !math.IsInf(v, 0) && !math.IsNaN(v) && !quoting.IsHex(digits) {
		return Cell{Text: text, Raw: v}
	}
	return Cell{Text: text}
}

// plain returns the text for people. It is one line without control characters.
//
// Keys that were cut keep their short form in the mode text, and are whole in hexadecimal, where
// somebody wants all bytes.
func (c Cell) plain(f Format) string {
	if c.bytes == nil {
		return Seen(c.Text)
	}
	if c.Text != "" && f == AsWords {
		return c.Text
	}
	if f == AsBytes {
		f = AsWords // raw bytes could break the lines of a table
	}
	return string(AppendWord(nil, c.bytes, f))
}

// appendField appends c to a line of CSV. Numbers and texts are written as they are.
func (c Cell) appendField(dst []byte) []byte {
	if c.bytes != nil {
		return AppendField(dst, c.bytes)
	}
	return c.appendWord(dst, AsWords)
}

// appendWord appends c to a line of words.
func (c Cell) appendWord(dst []byte, f Format) []byte {
	switch {
	case c.bytes != nil:
		return AppendWord(dst, c.bytes, f)
	case c.Raw == nil:
		return append(dst, Seen(c.Text)...)
	}
	if list, ok := c.Raw.([]Cell); ok {
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

// appendRaw appends the value of a cell in the form of JSON, which is also that of CSV for numbers.
func (c Cell) appendRaw(dst []byte) []byte {
	switch v := c.Raw.(type) {
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

// appendFloat appends v in the form of JSON, which has no infinities.
func appendFloat(dst []byte, v float64) []byte {
	if math.IsInf(v, 0) || math.IsNaN(v) {
		return append(dst, "null"...)
	}
	return strconv.AppendFloat(dst, v, 'g', -1, 64)
}

// appendJSON appends c as a JSON value.
//
// Names of fields are the business of the caller, also the 64 at the end of those with bytes in
// base64.
func (c Cell) appendJSON(dst []byte) []byte {
	switch v := c.Raw.(type) {
	case nil:
		if c.bytes == nil {
			return appendString(dst, c.Text)
		}
		if !utf8.Valid(c.bytes) {
			return appendString(dst, string(AppendWord(nil, c.bytes, AsWords)))
		}
		return appendString(dst, string(c.bytes))
	case []Cell:
		if v == nil {
			return append(dst, "null"...)
		}
		for i, e := range v {
			dst = append(dst, "[,"[min(i, 1)])
			dst = e.appendJSON(dst)
		}
		return append(dst, ']')
	}
	return c.appendRaw(dst)
}

// appendString appends text as a JSON string. It escapes all characters that can't be seen, which
// is more than JSON requires, because some of them control terminals.
//
// encoding/json is no help here: it passes on U+009B, which starts an escape sequence on some
// terminals.
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
