package main

import (
	"encoding/hex"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"
)

// A word is one word of a command.
type word struct {
	text string // the bytes that it stands for
	// literal: it was written with quotes or in hexadecimal, and so is never
	// an option and never the - of standard input.
	literal bool

	from, to int // where it stands in its line
}

// parseLine splits a line into words (see the package comment). The line of a
// comment has none.
func parseLine(line string) ([]word, error) {
	var words []word
	for i := skipSpace(line, 0); i < len(line); i = skipSpace(line, i) {
		if len(words) == 0 && line[i] == '#' {
			return nil, nil
		}
		w, n, err := parseWord(line[i:])
		if err != nil {
			return nil, &mistake{from: i, to: i + wordEnd(line[i:]), column: utf8.RuneCountInString(line[:i]) + 1, err: err}
		}
		w.from, w.to = i, i+n
		words = append(words, w)
		i += n
	}
	return words, nil
}

// parseWord parses the word that s begins with and returns its length.
// Requires: s begins with no space.
func parseWord(s string) (w word, n int, err error) {
	if s[0] != '"' {
		n = wordEnd(s)
		w, err = parseBare(s[:n])
		return w, n, err
	}
	text, n, err := unquote(s)
	if err != nil {
		return word{}, 0, err
	}
	if n < len(s) && !isSpace(s[n]) {
		return word{}, 0, errors.New(`no space after the closing quote; write \" for a quote in quotes`)
	}
	return word{text: text, literal: true}, n, nil
}

// parseArg makes a word of an argument that a shell has split off already.
func parseArg(arg string) (word, error) {
	if !strings.HasPrefix(arg, `"`) {
		return parseBare(arg)
	}
	text, n, err := unquote(arg)
	if err == nil && n < len(arg) {
		err = errors.New("it goes on after the closing quote")
	}
	if err != nil {
		return word{}, fmt.Errorf("argument %s begins with a quote: %w", arg, err)
	}
	return word{text: text, literal: true}, nil
}

// parseBare makes a word of s, which is without quotes.
func parseBare(s string) (word, error) {
	if !isHex(s) {
		return word{text: s, literal: s == ""}, nil
	}
	b, err := hex.DecodeString(s[2:])
	switch {
	case errors.Is(err, hex.ErrLength):
		return word{}, fmt.Errorf("%s has an odd number of hexadecimal digits; write \"%s\" if it is no hexadecimal", s, s)
	case err != nil:
		return word{}, fmt.Errorf("%s is not hexadecimal; write \"%s\" if it is not meant to be", s, s)
	}
	return word{text: string(b), literal: true}, nil
}

// isHex tells whether a bare word is taken for hexadecimal.
func isHex(s string) bool {
	return len(s) >= 2 && s[0] == '0' && (s[1] == 'x' || s[1] == 'X')
}

// unquote returns the text of the quoted word that s begins with, and the
// length of that word, quotes included.
func unquote(s string) (text string, n int, err error) {
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
			b = append(b, s[n]) // bytes that are not UTF-8 too
			n++
		}
	}
	return "", 0, errors.New("the closing quote is missing")
}

// appendEscaped appends what the escape that s begins with stands for, and
// returns its length.
func appendEscaped(dst []byte, s string) ([]byte, int, error) {
	r, multibyte, rest, err := strconv.UnquoteChar(s, '"')
	if err != nil {
		return dst, 0, fmt.Errorf(`unknown escape %s; a backslash in quotes is written \\`, escapeStart(s))
	}
	if multibyte {
		dst = utf8.AppendRune(dst, r)
	} else {
		dst = append(dst, byte(r)) // \x80 is the byte, not U+0080
	}
	return dst, len(s) - len(rest), nil
}

// escapeStart returns the backslash and the character after it.
func escapeStart(s string) string {
	_, size := utf8.DecodeRuneInString(s[1:])
	return s[:1+size]
}

func skipSpace(s string, i int) int {
	for i < len(s) && isSpace(s[i]) {
		i++
	}
	return i
}

// wordEnd returns where the bare word that s begins with ends.
func wordEnd(s string) int {
	n := 0
	for n < len(s) && !isSpace(s[n]) {
		n++
	}
	return n
}

// isSpace: \r too, so that lines may end as on Windows.
func isSpace(c byte) bool { return c == ' ' || c == '\t' || c == '\r' || c == '\n' }
