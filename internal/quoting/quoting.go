// Package quoting writes keys and values for people, and reads them back: bare, with quotes
// and the escapes of Go, or in hexadecimal. What it writes is one line of printable text,
// and can be read back as the same bytes. Only Short shortens.
package quoting

import (
	"encoding/hex"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Parse returns the bytes that arg stands for. literal reports that arg was written with
// quotes or in hexadecimal. A bare word may have spaces.
func Parse(arg string) (text string, literal bool, err error) {
	if !strings.HasPrefix(arg, `"`) {
		return ParseBare(arg)
	}
	text, n, err := Unquote(arg)
	if err == nil && n < len(arg) {
		err = errors.New("it goes on after the closing quote")
	}
	return text, true, err
}

// ParseBare is Parse for a word without quotes.
func ParseBare(s string) (text string, literal bool, err error) {
	if !IsHex(s) {
		return s, s == "", nil
	}
	b, err := hex.DecodeString(s[2:])
	switch {
	case errors.Is(err, hex.ErrLength):
		return "", false, fmt.Errorf("%s has an odd number of hexadecimal digits; write \"%s\" if it is no hexadecimal", s, s)
	case err != nil:
		return "", false, fmt.Errorf("%s is not hexadecimal; write \"%s\" if it is not meant to be", s, s)
	}
	return string(b), true, nil
}

// IsHex reports whether a bare word is read as hexadecimal: it begins with 0x.
func IsHex(s string) bool {
	return len(s) >= 2 && s[0] == '0' && (s[1] == 'x' || s[1] == 'X')
}

// Unquote returns the text of the quoted word at the beginning of s, and the length of that
// word, including the quotes. Requires: s begins with a quote.
func Unquote(s string) (text string, n int, err error) {
	var b []byte
	for n = 1; n < len(s); {
		switch s[n] {
		case '"':
			return string(b), n + 1, nil
		case '\\':
			size := 0
			if b, size, err = appendEscaped(b, s[n:]); err != nil {
				return "", 0, err
			}
			n += size
		default:
			b = append(b, s[n]) // also bytes that are not UTF-8
			n++
		}
	}
	return "", 0, errors.New("the closing quote is missing")
}

// appendEscaped appends what the escape at the beginning of s stands for, and
// returns the length of the escape.
func appendEscaped(dst []byte, s string) ([]byte, int, error) {
	r, multibyte, rest, err := strconv.UnquoteChar(s, '"')
	if err != nil {
		return dst, 0, fmt.Errorf(`unknown escape %s; a backslash in quotes is written \\`, escapeStart(s))
	}
	if multibyte {
		dst = utf8.AppendRune(dst, r)
	} else {
		dst = append(dst, byte(r)) // \x80 is the byte, not U+0080
	} // \x80 is that byte, and not U+0080
	return dst, len(s) - len(rest), nil
}

// escapeStart returns the backslash at the beginning of s and the character after it.
func escapeStart(s string) string {
	_, size := utf8.DecodeRuneInString(s[1:])
	return s[:1+size]
}

// Quote returns text as a word: bare if possible, otherwise with quotes.
func Quote[B ~string | ~[]byte](text B) string {
	if NeedsQuotes(string(text)) {
		return strconv.Quote(string(text))
	}
	return string(text)
}

// Short is Quote for a place of limited width. It cuts a word of more than most characters,
// which then ends in an ellipsis and cannot be read back.
func Short[B ~string | ~[]byte](text B, most int) string {
	n := most * utf8.UTFMax
	cut := n < len(text)
	if cut { // it has more characters than that; the last one is left out if it is not whole
		for i := 1; i < utf8.UTFMax && !utf8.RuneStart(text[n]); i++ {
			n--
		}
		text = text[:n]
	}
	word := Quote(text)
	if utf8.RuneCountInString(word) <= most && !cut {
		return word
	}
	runes := []rune(word)
	return string(runes[:min(most, len(runes))-1]) + "…"
}

// NeedsQuotes reports whether text would mean something else as a bare word, or
// would not be visible.
func NeedsQuotes(text string) bool {
	if text == "" || text == "-" || text == "-h" || text[0] == '"' || text[0] == '#' || IsHex(text) || strings.HasPrefix(text, "--") {
		return true
	}
	return strings.IndexByte(text, ' ') >= 0 || !Visible(text)
}

// Visible reports whether text is UTF-8 and has only spaces and characters that can be seen.
func Visible[B ~string | ~[]byte](text B) bool {
	for i := 0; i < len(text); {
		if c := text[i]; ' ' <= c && c < 0x7f {
			i++
			continue
		}
		r, size := utf8.DecodeRuneInString(string(text[i:min(i+utf8.UTFMax, len(text))]))
		if !unicode.IsPrint(r) || r == utf8.RuneError && size == 1 {
			return false
		}
		i += size
	}
	return true
}
