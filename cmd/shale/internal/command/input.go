package command

import (
	"context"
	"errors"
	"io"
	"os"
)

// IsCharDevice reports whether f is a terminal or another device, such as the null device.
func IsCharDevice(f *os.File) bool {
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}

// isNull reports whether f is the null device.
//
// Output to the null device is discarded, so there is no progress to be shown.
func isNull(f *os.File) bool {
	info, err := f.Stat()
	if err != nil {
		return false
	}
	null, err := os.Stat(os.DevNull)
	return err == nil && os.SameFile(info, null)
}

// input returns standard input if w stands for it, and nil otherwise.
//
// A "-" in quotes is the key or the file of that name. In a script on standard input there is no
// input left for a command, so a bare - is an error there.
func (s *Session) input(ctx context.Context, w Word) (io.Reader, error) {
	switch {
	case w.Text != "-" || w.Literal:
		return nil, nil
	case s.Mode == inBatch:
		return nil, errors.New(`a batch may run again, so - can't stand for standard input in it; write "-" for the word -`)
	case s.in == nil:
		return nil, errors.New(`the commands come from standard input, so - can't stand for it; write "-" for the word -`)
	}
	if f, ok := s.in.(*os.File); ok && isTerminal(f) {
		s.Notes.silence() // the user types there
	}
	return untilDone(ctx, s.in), nil
}
