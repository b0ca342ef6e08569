package resp

import (
	"bytes"
	"fmt"
	"strconv"
	"strings"
)

// Limits of the protocol, as in Redis.
const (
	MaxArgs   = 1 << 20  // words of a command
	maxFirst  = 10       // words of one before the password
	MaxInline = 64 << 10 // bytes of a command that is a line
	maxDigits = 20
)

// TooMuch is the error for what does not fit into a Budget.
const TooMuch = "ERR the commands and replies of all clients together need more memory than --max-buffers allows: try again later"

// A protocolError is what ends a connection, in the words of Redis.
type protocolError string

func (e protocolError) Error() string { return string(e) }

const (
	errMultibulk = protocolError("ERR Protocol error: invalid multibulk length")
	errBulk      = protocolError("ERR Protocol error: invalid bulk length")
	errInline    = protocolError("ERR Protocol error: too big inline request")
	errQuotes    = protocolError("ERR Protocol error: unbalanced quotes in request")
	errWeb       = protocolError("ERR Protocol error: this is a request of HTTP, and no command")
	errMemory    = protocolError(TooMuch)
	errSlow      = protocolError("ERR the rest of the command took too long")
)

// A Command is what a client has sent.
type Command struct {
	Args [][]byte // its words, of which there is at least one
	Size int      // bytes of it as it came
}

// A reader finds commands in what a client sends. It remembers how far it has looked into one that is not whole yet, so that
// a client that sends single bytes costs no more than others.
type reader struct {
	most     int64 // bytes of the words of one command
	stranger bool  // the client has not said its password

	buf   []byte // what has come and was not given out yet
	at    int    // up to where buf was looked at
	left  int    // words of the command that are still to come
	size  int    // bytes of the word to come; -1: its head comes first
	used  int64  // bytes of its words so far
	ends  []int  // where each word begins and ends
	words [][]byte
}

// next finds the command with which buf begins, at which is where it ends. ok is false if it is not whole.
func (r *reader) next() (c Command, ok bool, err error) {
	if r.left == 0 {
		if len(r.buf) == 0 {
			return c, false, nil
		}
		if r.buf[0] != '*' {
			return r.line()
		}
		most := int64(MaxArgs)
		if r.stranger {
			most = maxFirst
		}
		n, ok, err := r.head(most, errMultibulk)
		if !ok || err != nil {
			return c, false, err
		}
		if r.left = int(n); n <= 0 { // which Redis passes over
			r.left = 0
			return c, true, nil
		}
		r.size, r.used, r.ends = -1, 0, r.ends[:0]
	}
	for r.left > 0 {
		if r.size < 0 {
			if r.at == len(r.buf) {
				return c, false, nil
			}
			if r.buf[r.at] != '$' {
				return c, false, protocolError(fmt.Sprintf("ERR Protocol error: expected '$', got %q", rune(r.buf[r.at])))
			}
			n, ok, err := r.head(r.most-r.used, errBulk)
			if !ok || err != nil {
				return c, false, err
			}
			if n < 0 {
				return c, false, errBulk
			}
			r.size = int(n)
			r.used += n
		}
		end := r.at + r.size
		if len(r.buf) < end+2 {
			return c, false, nil
		}
		if r.buf[end] != '\r' || r.buf[end+1] != '\n' {
			return c, false, errBulk
		}
		r.ends = append(r.ends, r.at, end)
		r.at, r.size = end+2, -1
		r.left--
	}
	begin := len(r.words)
	for i := 0; i < len(r.ends); i += 2 {
		r.words = append(r.words, r.buf[r.ends[i]:r.ends[i+1]:r.ends[i+1]])
	}
	return Command{r.words[begin:len(r.words):len(r.words)], r.at}, true, nil
}

// head reads a line that has a byte and a number, which is at most most.
func (r *reader) head(most int64, wrong protocolError) (n int64, ok bool, err error) {
	line := r.buf[r.at+1:]
	end := bytes.IndexByte(line[:min(len(line), maxDigits+2)], '\n')
	switch {
	case end < 0 && len(line) < maxDigits+2:
		return 0, false, nil
	case end < 2 || line[end-1] != '\r':
		return 0, false, wrong
	}
	digits := line[:end-1]
	negative := digits[0] == '-' && len(digits) > 1
	if negative {
		digits = digits[1:]
	}
	for _, d := range digits {
		if d < '0' || d > '9' || n > 1<<50 {
			return 0, false, wrong
		}
		n = 10*n + int64(d-'0')
	}
	if n > most && !negative {
		if r.stranger {
			wrong = protocolError(strings.Replace(string(wrong), "invalid", "unauthenticated", 1))
		}
		return 0, false, wrong
	}
	if negative {
		n = -n
	}
	r.at += 1 + end + 1
	return n, true, nil
}

// line reads a command that is a line, for people with telnet.
//
// It also ends a request of HTTP. A page of any web site can make a browser on this machine send one here, whose body would be
// commands in lines.
func (r *reader) line() (c Command, ok bool, err error) {
	end := bytes.IndexByte(r.buf[r.at:], '\n')
	if end < 0 {
		r.at = len(r.buf)
	} else {
		r.at += end + 1
	}
	switch {
	case r.at > MaxInline:
		return c, false, errInline
	case end < 0:
		return c, false, nil
	}
	text := bytes.TrimSuffix(r.buf[:r.at-1], []byte{'\r'})
	for _, word := range []string{"post ", "host:"} {
		if len(text) >= len(word) && bytes.EqualFold(text[:len(word)], []byte(word)) {
			return c, false, errWeb
		}
	}
	words, ok := splitLine(text)
	if !ok {
		return c, false, errQuotes
	}
	return Command{words, r.at}, true, nil
}

// splitLine returns the words of a line, in quotes or without, as Redis does.
func splitLine(line []byte) (words [][]byte, ok bool) {
	for {
		line = bytes.TrimLeft(line, " \t\n\v\f\r\x00")
		if len(line) == 0 {
			return words, true
		}
		word, quote := []byte{}, byte(0)
		i := 0
		for ; i < len(line) && (quote != 0 || !isSpace(line[i])); i++ {
			switch b := line[i]; {
			case quote == 0 && (b == '"' || b == '\''):
				quote = b
			case b == '\\' && quote == '"' && i+1 < len(line):
				var n int
				b, n = escaped(line[i+1:])
				i += n
				word = append(word, b)
			case b == '\\' && quote == '\'' && i+1 < len(line) && line[i+1] == '\'':
				i++
				word = append(word, '\'')
			case quote != 0 && b == quote:
				if quote = 0; i+1 < len(line) && !isSpace(line[i+1]) {
					return nil, false
				}
			default:
				word = append(word, b)
			}
		}
		if quote != 0 {
			return nil, false
		}
		words, line = append(words, word), line[i:]
	}
}

func isSpace(b byte) bool { return b == ' ' || b >= '\t' && b <= '\r' || b == 0 }

// escaped returns the byte that stands behind a backslash, and how many bytes that takes.
func escaped(text []byte) (b byte, n int) {
	if text[0] == 'x' && len(text) > 2 {
		if v, err := strconv.ParseUint(string(text[1:3]), 16, 8); err == nil {
			return byte(v), 3
		}
	}
	if i := bytes.IndexByte([]byte("nrtba"), text[0]); i >= 0 {
		return "\n\r\t\b\a"[i], 1
	}
	return text[0], 1
}
