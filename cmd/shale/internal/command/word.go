package command

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/shaledb/shale/internal/quoting"
)

// A Word is one word of a command.
type Word struct {
	Text string // the bytes that the word stands for
	// Literal says that the word was written in quotes, in hexadecimal, or after --. Such a word is
	// never an option, and never the - for standard input.
	Literal bool

	argument bool // a shell has split it off, and has taken away one pair of quotes
}

// verbatim is the word after which bare words are taken as they are: as no options, no hexadecimal,
// and no standard input. A script writes it in front of words that it does not know.
const verbatim = "--"

// ParseLine splits a line into words, as the documentation of the program says. A comment ends the
// line: it begins with a # at the beginning of the line, or with a # between spaces.
//
// For example, the line
//
//	put "two words" 0x00ff   ends here
//
// has five words. The second and the third are literal: they are never options. An error names the
// column.
func ParseLine(line string) ([]Word, error) {
	var words []Word
	line = strings.TrimPrefix(line, "\ufeff") // editors put it at the beginning of a file
	asItIs := false
	for i := SkipSpace(line, 0); i < len(line); i = SkipSpace(line, i) {
		end := i + WordEnd(line[i:])
		if line[i] == '#' && (len(words) == 0 || end == i+1) {
			return words, nil
		}
		if bare := line[i] != '"'; bare && asItIs {
			words = append(words, Word{Text: line[i:end], Literal: true})
			i = end
			continue
		} else if bare && line[i:end] == verbatim {
			asItIs = true
		}
		w, n, err := parseWord(line[i:])
		if err != nil {
			return nil, fmt.Errorf("column %d: %w", utf8.RuneCountInString(line[:i])+1, err)
		}
		words = append(words, w)
		i += n
	}
	return words, nil
}

// parseWord parses the word with which s begins, and returns its length too. Requires: s does not
// begin with a space.
//
// A word that begins with 0x and is no hexadecimal is an error, and not a bare word: it is more
// likely a slip of the hand than a key.
func parseWord(s string) (w Word, n int, err error) {
	if s[0] != '"' {
		n = WordEnd(s)
		w.Text, w.Literal, err = quoting.ParseBare(s[:n])
		return w, n, err
	}
	text, n, err := quoting.Unquote(s)
	if err != nil {
		return Word{}, 0, err
	}
	if n < len(s) && !isSpace(s[n]) {
		return Word{}, 0, errors.New(`no space after the closing quote; write \" for a quote in quotes`)
	}
	return Word{Text: text, Literal: true}, n, nil
}

// parseArgs returns the words for arguments, which a shell has split.
func parseArgs(args []string) ([]Word, error) {
	words, asItIs := make([]Word, len(args)), false
	for i, arg := range args {
		if asItIs {
			words[i] = Word{Text: arg, Literal: true, argument: true}
			continue
		}
		var err error
		if words[i], err = parseArg(arg); err != nil {
			return nil, err
		}
		asItIs = arg == verbatim
	}
	return words, nil
}

// parseArg returns the word for an argument, which a shell has already split off.
//
// A shell has taken one pair of quotes away. So '"a b"' in a shell is the quoted word of a line,
// and 'a b' is a bare word with a space.
func parseArg(arg string) (Word, error) {
	text, literal, err := quoting.Parse(arg)
	if err != nil && strings.HasPrefix(arg, `"`) {
		err = fmt.Errorf("argument %s begins with a quote: %w; write -- before it to take it as it is", arg, err)
	}
	if err != nil && quoting.IsHex(arg) {
		err = errors.New(strings.ReplaceAll(err.Error(), strconv.Quote(arg), "-- before it"))
	}
	return Word{Text: text, Literal: literal, argument: true}, err
}

// SkipSpace returns the index of the first byte at or after i that separates no words.
func SkipSpace(s string, i int) int {
	for i < len(s) && isSpace(s[i]) {
		i++
	}
	return i
}

// WordEnd returns the length of the bare word with which s begins.
func WordEnd(s string) int {
	n := 0
	for n < len(s) && !isSpace(s[n]) {
		n++
	}
	return n
}

// isSpace reports whether c separates words. \r does, so that lines may end as on Windows.
func isSpace(c byte) bool { return c == ' ' || c == '\t' || c == '\r' || c == '\n' }

// bytes returns w as a key or a value.
func (w Word) bytes() []byte { return []byte(w.Text) }
