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
func (a arguments) blame(c *command, err error) error {
	var known *mistake
	var sourced *sourceError
	if errors.As(err, &known) || errors.As(err, &sourced) {
		return err
	}
	text := strings.TrimPrefix(strings.TrimPrefix(err.Error(), c.name+": "), "unknown command ")
	for i, w := range a.given {
		if rest, ok := strings.CutPrefix(text, w.starts()); ok && (rest == "" || strings.ContainsAny(rest[:1], " :,;")) {
			if i == 0 {
				err = fmt.Errorf("%w%s", err, c.goesOn(w))
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

// maxShown is how many columns of a line a complaint shows where the width
// of the terminal is not known.
const maxShown = 100

// pointAt returns line behind lead, and below it a caret under what m blames.
// Of a line that does not fit into width columns it is a part.
func (m *mistake) pointAt(lead, line string, width int) string {
	if width <= 0 {
		width = maxShown
	}
	line = strings.Map(func(r rune) rune {
		if r == '\t' || r == '\r' || r == '\n' {
			return ' '
		}
		return r
	}, line)
	to := min(m.to, len(line))
	from := min(m.from, to)
	before, blamed, after := seen(line[:from]), seen(line[from:to]), seen(line[to:])
	room := max(width-columns(lead)-1, 20)
	before = cutLeft(before, room/2)
	room -= columns(before)
	if columns(blamed) > room {
		blamed, after = cut(blamed, max(room, 1)), ""
	}
	after = cut(after, max(room-columns(blamed), 1))
	indent := strings.Repeat(" ", columns(lead+before))
	return strings.TrimRight(lead+before+blamed+after, " ") + "\n" + indent + strings.Repeat("^", max(columns(blamed), 1))
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
		fmt.Fprintf(s.notes, "%s\n", m.pointAt("  shale ", line, s.width()))
		return st
	}
	// The line stands above, if it fitted and nothing was printed.
	printed := s.out.Buffered() > 0
	_ = s.out.Flush() // complain tells
	lead := s.promptText()
	shown := m.pointAt(lead, line, s.width())
	typed, caret, _ := strings.Cut(shown, "\n")
	if !printed && typed == strings.TrimRight(lead+line, " ") {
		shown = caret
	}
	fmt.Fprintf(s.notes, "%s\n", shown)
	return s.complain(m.err)
}
