package command

import (
	"context"
	"errors"
	"fmt"

	"github.com/shaledb/shale"
	"github.com/shaledb/shale/cmd/shale/internal/output"
	"github.com/shaledb/shale/internal/base"
	"github.com/shaledb/shale/internal/quoting"
)

// A terminal gets at most the beginning of a value that is larger than this: 20 MB would take all else off the screen.
const largeValue = 64 << 10

// tooLarge reports whether only the beginning of a value is printed, which in the modes hex and raw, and for programs, is
// never so.
func (s *Session) tooLarge(value []byte) bool {
	return s.toScreen && s.Display == output.ShowText && len(value) > largeValue
}

// beginning returns the beginning of a large value as a word.
func beginning(value []byte) string { return quoting.Short(value, 300) }

// getCommand prints a value. It is the one command whose output depends on where it goes: a person
// wants a word that can be copied back into a command, and a program that reads a pipe wants the
// bytes. A script prints words in both cases, a line for each value.
func getCommand() *Command {
	c := newCommand("get KEY", Reads, "print the value of a key", `
Prints the value as a word, in quotes if it needs them. Into a file or a pipe, a single command prints its bytes
as they are and a newline; with --mode raw no newline follows. A terminal gets only
the beginning of a large value, but all of it in the modes hex and raw. At the prompt a second line says when the value
expires, if it does. Status 1 if the key is absent.`)
	c.keys = 1
	return c.does(func(_ context.Context, s *Session, words []Word) (Status, error) {
		value, err := s.reader().Get(words[0].bytes())
		gone := errors.Is(err, shale.ErrNotFound)
		switch {
		case err != nil && !gone:
			return Failed, err
		case !s.AsText():
			l := s.List("key", "value")
			if !gone {
				err = l.Row(output.ByteCell(words[0].bytes()), output.ByteCell(value))
			} else {
				err = nil
			}
			return foundIf(!gone), errors.Join(err, l.End())
		case gone:
			s.Say("absent")
			return Absent, nil
		}
		// A value that goes to another program ends with a newline, which text tools expect and
		// $(...) takes off. For exact bytes there is --mode raw.
		toProgram, format := s.Mode == oneShot && !s.toScreen, s.Display.Format()
		if toProgram && format == output.AsWords {
			format = output.AsBytes
		}
		if s.tooLarge(value) {
			fmt.Fprintln(s.Out, beginning(value))
			s.note("shale: the value has %s; this is its beginning. --mode raw prints all of it, and a file or a pipe gets it all", base.FormatBytes(int64(len(value))))
			return Found, nil
		}
		line := output.AppendWord(nil, value, format)
		if !toProgram || s.Display != output.ShowRaw {
			line = append(line, '\n')
		}
		if err = s.Write(line); err == nil && s.Mode == AtPrompt {
			if at, err := s.reader().ExpiresAt(words[0].bytes()); err == nil && !at.IsZero() {
				expires, in := expiryWords(at)
				s.Say("expires at %s, in %s", expires, in)
			}
		}
		return Found, err
	})
}
