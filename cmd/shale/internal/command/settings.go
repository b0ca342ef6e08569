package command

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/shaledb/shale/cmd/shale/internal/output"
)

// setFor applies the options of one command to the session. It returns a function that restores
// the settings before.
func (s *Session) setFor(c *Command) (restore func()) {
	if c.mode == nil {
		return func() {}
	}
	before := s.Display
	s.Display = *c.mode
	return func() { s.Display = before }
}

// note prints a line about a command to standard error.
//
// The output comes first, so that the two are in order where both go to a terminal.
func (s *Session) note(text string, args ...any) {
	_ = s.Out.Flush() // the next write reports a failure
	fmt.Fprintf(s.Notes, text+"\n", args...)
}

// remark prints lines about a table to remarks.
//
// A remark belongs to the answer for a person, and would break the answer for a program.
func (s *Session) remark(text string, args ...any) {
	fmt.Fprint(s.remarks(), s.wrapped(fmt.Sprintf(text, args...)))
}

// wrapped returns text with its lines wrapped for a terminal.
func (s *Session) wrapped(text string) string {
	if s.Columns == nil || s.Columns() == 0 {
		return text
	}
	var all strings.Builder
	for line := range strings.Lines(text) {
		all.WriteString(output.Wrap(line, s.TextWidth()))
	}
	return all.String()
}

// remarks returns the writer for lines about a table. It is the output, or standard error if the
// output is for programs.
func (s *Session) remarks() io.Writer {
	switch s.Display {
	case output.ShowJSON, output.ShowJSONLines, output.ShowCSV:
		_ = s.Out.Flush() // the next write reports a failure
		return s.Notes
	}
	return s.Out
}

// displayOf returns the mode with this name. Its error continues a sentence that begins with the
// name.
func displayOf(name string) (output.Display, error) {
	if i := slices.Index(output.DisplayNames, name); i >= 0 {
		return output.Display(i), nil
	}
	if meant := didYouMean(name, output.DisplayNames); meant != "" {
		return 0, fmt.Errorf("is not a mode%s", meant)
	}
	return 0, fmt.Errorf("is not a mode; modes are %s", strings.Join(output.DisplayNames, ", "))
}
