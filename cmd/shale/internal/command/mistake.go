package command

import (
	"errors"
	"fmt"
	"strings"

	"github.com/shaledb/shale/cmd/shale/internal/output"
)

// A Mistake is an error that a part of a command line is to blame for.
type Mistake struct {
	from, to int // bytes of the line
	column   int // characters before it, and one, where the message names it; else 0
	err      error
}

func (m *Mistake) Error() string {
	if m.column > 0 {
		return fmt.Sprintf("column %d: %v", m.column, m.err)
	}
	return m.err.Error()
}

func (m *Mistake) Unwrap() error { return m.err }

// blame makes a mistake of err if a word or an option of c is to blame: the one
// with which its message begins, as "--limit x is not a number" does.
func (s *Session) blame(c *Command, err error) error {
	var known *Mistake
	var sourced *SourceError
	if errors.As(err, &known) || errors.As(err, &sourced) {
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

// starts returns how a message about w begins.
func (w Word) starts() string {
	name, _, _ := strings.Cut(w.Text, "=")
	if strings.HasPrefix(w.Text, "--") && !w.Literal {
		return name
	}
	return output.Quote(w.Text)
}

// ComplainOf reports err, with a caret under the words of line that are to
// blame, if any are.
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
	// The line stands above, if it fitted and nothing was printed.
	printed := s.Out.Buffered() > 0
	_ = s.Out.Flush() // complain tells
	lead := s.PromptText()
	shown := output.PointAt(lead, line, m.from, m.to, s.Width())
	typed, caret, _ := strings.Cut(shown, "\n")
	if !printed && typed == strings.TrimRight(lead+line, " ") {
		shown = caret
	}
	fmt.Fprintf(s.Notes, "%s\n", shown)
	return s.Complain(m.err)
}

// A SourceError is that of a line of a file.
type SourceError struct {
	Name string
	Line int
	Err  error
}

func (e *SourceError) Error() string {
	return fmt.Sprintf("%s:%d: %v", output.Quote(e.Name), e.Line, e.Err)
}
func (e *SourceError) Unwrap() error { return e.Err }

// PromptText is what a prompt begins its line with.
func (s *Session) PromptText() string {
	if s.DB != nil && !s.writable {
		return "shale (read-only)> "
	}
	return "shale> "
}
