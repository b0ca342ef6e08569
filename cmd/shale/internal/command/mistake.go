package command

import (
	"errors"
	"fmt"
	"strings"

	"github.com/shaledb/shale/cmd/shale/internal/output"
)

// A Mistake is an error that is caused by a part of a command line.
type Mistake struct {
	from, to int // the part's place in the line, in bytes
	column   int // the part's column, counted from 1 in characters, if the message names it; otherwise 0
	err      error
}

func (m *Mistake) Error() string {
	if m.column > 0 {
		return fmt.Sprintf("column %d: %v", m.column, m.err)
	}
	return m.err.Error()
}

func (m *Mistake) Unwrap() error { return m.err }

// blame turns err into a Mistake if its message begins with a word or an option of c, such as
// "--limit x is not a number". That word caused the error.
func (s *Session) blame(c *Command, err error) error {
	var known *Mistake
	if errors.As(err, &known) {
		return err
	}
	text := strings.TrimPrefix(strings.TrimPrefix(err.Error(), c.Title+": "), "unknown command ")
	for i, w := range c.given {
		rest, ok := strings.CutPrefix(text, w.starts())
		if !ok || rest != "" && !strings.ContainsAny(rest[:1], " :,;") {
			continue
		}
		if i == 0 {
			err = fmt.Errorf("%w%s", err, s.goesOn(c, w))
		}
		from, to := w.from, w.to
		if f := c.optionOf(w); f != nil {
			from, to = c.placeOf(f.Name)
		}
		return &Mistake{from: from, to: to, err: err}
	}
	return err
}

// starts returns the beginnings of messages about w.
func (w Word) starts() string {
	name, _, _ := strings.Cut(w.Text, "=")
	if strings.HasPrefix(w.Text, "--") && !w.Literal {
		return name
	}
	return output.Quote(w.Text)
}

// ComplainOf prints err. If it is a Mistake, it prints line too, with carets below the words
// that caused it.
func (s *Session) ComplainOf(line string, err error) Status {
	var m *Mistake
	if !errors.As(err, &m) {
		return s.Complain(err)
	}
	if s.Mode != AtPrompt {
		st := s.Complain(err)
		fmt.Fprintf(s.Notes, "%s\n", output.PointAt("  shale ", line, m.from, m.to, s.Width()))
		return st
	}
	// At a prompt the line is right above, if it fits into the terminal and nothing was printed.
	printed := s.Out.Buffered() > 0
	_ = s.Out.Flush() // Complain reports a failure
	lead := s.PromptText()
	shown := output.PointAt(lead, line, m.from, m.to, s.Width())
	typed, caret, _ := strings.Cut(shown, "\n")
	if !printed && typed == strings.TrimRight(lead+line, " ") {
		shown = caret
	}
	fmt.Fprintf(s.Notes, "%s\n", shown)
	return s.Complain(m.err)
}

// PromptText returns the text in front of a line at a prompt.
func (s *Session) PromptText() string {
	if s.DB != nil && !s.writable {
		return "shale (read-only)> "
	}
	return "shale> "
}
