package output

import (
	"encoding/hex"
	"errors"
	"strconv"
	"unicode/utf8"

	"github.com/shaledb/shale/internal/quoting"
)

// A Format is how keys and values are printed.
type Format int

const (
	AsWords Format = iota // words, which can be used as input again
	AsHex                 // 0x6b6579, which can be used as input again, too
	AsBytes               // the bytes as they are
)

func FormatOf(hex, raw bool) (Format, error) {
	switch {
	case hex && raw:
		return AsWords, errors.New("--hex and --raw can't be used together")
	case hex:
		return AsHex, nil
	case raw:
		return AsBytes, nil
	}
	return AsWords, nil
}

// AppendWord appends text in format f.
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
func Quote[B ~string | ~[]byte](text B) string {
	return string(AppendWord(nil, text, AsWords))
}

// shortKey is the number of characters of a key that a table shows.
const shortKey = 32

// Short returns a key as a word. A long key is cut.
func Short(key []byte) string {
	text := Quote(key)
	if utf8.RuneCountInString(text) <= shortKey {
		return text
	}
	return string([]rune(text)[:shortKey-1]) + "…"
}
