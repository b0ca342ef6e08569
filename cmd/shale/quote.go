package main

import (
	"encoding/hex"
	"errors"
	"strconv"
	"unicode/utf8"

	"github.com/shaledb/shale/internal/quoting"
)

// A format is how keys and values are printed.
type format int

const (
	asWords format = iota // so that they can be pasted back
	asHex                 // 0x6b6579, which can be pasted back too
	asBytes               // as they are
)

func formatOf(hex, raw bool) (format, error) {
	switch {
	case hex && raw:
		return asWords, errors.New("hex and raw contradict each other")
	case hex:
		return asHex, nil
	case raw:
		return asBytes, nil
	}
	return asWords, nil
}

// appendWord appends text in format f.
func appendWord[B ~string | ~[]byte](dst []byte, text B, f format) []byte {
	switch {
	case f == asBytes:
		return append(dst, text...)
	case f == asHex:
		return hex.AppendEncode(append(dst, "0x"...), []byte(text))
	case quoting.NeedsQuotes(string(text)):
		return strconv.AppendQuote(dst, string(text))
	}
	return append(dst, text...)
}

// quote returns text as a word, for messages and tables.
func quote[B ~string | ~[]byte](text B) string {
	return string(appendWord(nil, text, asWords))
}

// shortKey is how many characters of a key a table shows.
const shortKey = 32

// short returns a key as a word, cut if it is long.
func short(key []byte) string {
	text := quote(key)
	if utf8.RuneCountInString(text) <= shortKey {
		return text
	}
	return string([]rune(text)[:shortKey-1]) + "…"
}
