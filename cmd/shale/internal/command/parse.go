package command

import (
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/shaledb/shale/internal/quoting"
)

// A Word is one word of a command.
type Word struct {
	Text string // the bytes that it stands for
	// literal: it was written with quotes or in hexadecimal, and so is never
	// an option and never the - of standard input.
	Literal bool

	from, to int // where it stands in its line
}

// ParseLine splits a line into words (see the package comment). The line of a
// comment has none.
func ParseLine(line string) ([]Word, error) {
	var words []Word
	for i := SkipSpace(line, 0); i < len(line); i = SkipSpace(line, i) {
		if len(words) == 0 && line[i] == '#' {
			return nil, nil
		}
		w, n, err := parseWord(line[i:])
		if err != nil {
			return nil, &Mistake{from: i, to: i + WordEnd(line[i:]), column: utf8.RuneCountInString(line[:i]) + 1, err: err}
		}
		w.from, w.to = i, i+n
		words = append(words, w)
		i += n
	}
	return words, nil
}

// parseWord parses the word that s begins with and returns its length.
// Requires: s begins with no space.
func parseWord(s string) (w Word, n int, err error) {
	if s[0] != '"' {
		n = WordEnd(s)
		w, err = parseBare(s[:n])
		return w, n, err
	}
	text, n, err := unquote(s)
	if err != nil {
		return Word{}, 0, err
	}
	if n < len(s) && !isSpace(s[n]) {
		return Word{}, 0, errors.New(`no space after the closing quote; write \" for a quote in quotes`)
	}
	return Word{Text: text, Literal: true}, n, nil
}

// parseArg makes a word of an argument that a shell has split off already.
func parseArg(arg string) (Word, error) {
	text, literal, err := quoting.Parse(arg)
	if err != nil && strings.HasPrefix(arg, `"`) {
		err = fmt.Errorf("argument %s begins with a quote: %w", arg, err)
	}
	return Word{Text: text, Literal: literal}, err
}

// parseBare makes a word of s, which is without quotes.
func parseBare(s string) (Word, error) {
	text, literal, err := quoting.ParseBare(s)
	return Word{Text: text, Literal: literal}, err
}

func SkipSpace(s string, i int) int {
	for i < len(s) && isSpace(s[i]) {
		i++
	}
	return i
}

// WordEnd returns where the bare word that s begins with ends.
func WordEnd(s string) int {
	n := 0
	for n < len(s) && !isSpace(s[n]) {
		n++
	}
	return n
}

// isSpace: \r too, so that lines may end as on Windows.
func isSpace(c byte) bool { return c == ' ' || c == '\t' || c == '\r' || c == '\n' }

func unquote(s string) (text string, n int, err error) { return quoting.Unquote(s) }
func isHex(s string) bool                              { return quoting.IsHex(s) }
