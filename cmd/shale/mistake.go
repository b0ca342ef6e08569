package main

import (
	"errors"
	"fmt"
	"strings"
)

// A mistake is an error that a part of a command line is to blame for.
type mistake struct {
	from, to int // bytes of the line
	column   int // characters before it, and one, where the message names it; else 0
	err      error
}

func (m *mistake) Error() string {
	if m.column > 0 {
		return fmt.Sprintf("column %d: %v", m.column, m.err)
	}
	return m.err.Error()
}

func (m *mistake) Unwrap() error { return m.err }

// blame makes a mistake of err if a word or an option of a is to blame: the one
// with which its message begins, as "--limit x is not a number" does.
func (s *session) blame(c *command, a arguments, err error) error {
	var known *mistake
	var sourced *sourceError
	if errors.As(err, &known) || errors.As(err, &sourced) {
		return err
	}
	text := strings.TrimPrefix(strings.TrimPrefix(err.Error(), c.name+": "), "unknown command ")
	for i, w := range a.given {
		if rest, ok := strings.CutPrefix(text, w.starts()); ok && (rest == "" || strings.ContainsAny(rest[:1], " :,;")) {
			if i == 0 {
				err = fmt.Errorf("%w%s", err, s.goesOn(c, w))
			}
			end := w
			if argument, ok := a.places[strings.TrimPrefix(w.starts(), "--")]; ok && w.starts() != quote(w.text) {
				end = argument
			}
			return &mistake{from: w.from, to: max(w.to, end.to), err: err}
		}
	}
	return err
}

// starts returns how a message about w begins.
func (w word) starts() string {
	name, _, _ := strings.Cut(w.text, "=")
	if strings.HasPrefix(w.text, "--") && !w.literal {
		return name
	}
	return quote(w.text)
}

// complainOf reports err, with a caret under the words of line that are to
// blame, if any are.
func (s *session) complainOf(line string, err error) status {
	var m *mistake
	if !errors.As(err, &m) {
		return s.complain(err)
	}
	if s.mode != prompt {
		st := s.complain(err)
		fmt.Fprintf(s.notes, "%s\n", pointAt("  shale ", line, m.from, m.to, s.width()))
		return st
	}
	// The line stands above, if it fitted and nothing was printed.
	printed := s.out.Buffered() > 0
	_ = s.out.Flush() // complain tells
	lead := s.promptText()
	shown := pointAt(lead, line, m.from, m.to, s.width())
	typed, caret, _ := strings.Cut(shown, "\n")
	if !printed && typed == strings.TrimRight(lead+line, " ") {
		shown = caret
	}
	fmt.Fprintf(s.notes, "%s\n", shown)
	return s.complain(m.err)
}

// A sourceError is that of a line of a file.
type sourceError struct {
	name string
	line int
	err  error
}

func (e *sourceError) Error() string { return fmt.Sprintf("%s:%d: %v", quote(e.name), e.line, e.err) }
func (e *sourceError) Unwrap() error { return e.err }

// promptText is what a prompt begins its line with.
func (s *session) promptText() string {
	if s.db != nil && !s.writable {
		return "shale (read-only)> "
	}
	return "shale> "
}
