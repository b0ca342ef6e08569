package output

import (
	"encoding/hex"
	"strconv"

	"github.com/shaledb/shale/internal/quoting"
)

// A Format is how keys and values are printed.
type Format int

// The formats. Both words and hexadecimal can be used as input again, and mean the same bytes.
const (
	AsWords Format = iota // words, which can be used as input again
	AsHex                 // 0x6b6579, which can be used as input again, too
	AsBytes               // the bytes as they are
)

// AppendWord appends text in format f.
//
// Package quoting says which words need quotes: those with spaces, quotes, bytes that can't be
// seen, and those that begin like a comment or an option.
func AppendWord[B ~string | ~[]byte](dst []byte, text B, f Format) []byte {
	switch {
	case f == AsBytes:
		return append(dst, text...)
	case f == AsHex:
		return hex.AppendEncode(append(dst, "0x"...), []byte(text))
	case quoting.NeedsQuotes(string(text)):
		return strconv.AppendQuote(dst, string(text))
	}
	return append(dst, text...)
}

// Quote returns text as a word, for messages and tables.
func Quote[B ~string | ~[]byte](text B) string { return quoting.Quote(text) }

// shortKey is the number of characters of a key that a table shows.
const shortKey = 32

// Short returns a key as a word. A long key is cut.
func Short(key []byte) string { return quoting.Short(key, shortKey) }

// Seen returns text with escapes for characters that can't be seen.
//
// It is for texts that are no words, such as titles and messages: spaces and quotes in them stay.
func Seen(text string) string {
	if quoting.Visible(text) {
		return text
	}
	q := strconv.Quote(text)
	return q[1 : len(q)-1]
}

// AppendField appends text as a field of a file. It is a quoted word if it begins with a quote or has
// characters that can't be seen, and otherwise written as it is. So a field that begins with a quote
// is always a quoted word.
//
// For example, the value a b stays as it is, and a value of two lines becomes "a\nb".
func AppendField(dst, text []byte) []byte {
	if len(text) > 0 && text[0] == '"' || !quoting.Visible(text) {
		return strconv.AppendQuote(dst, string(text))
	}
	return append(dst, text...)
}
