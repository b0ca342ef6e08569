package command

import (
	"context"
	"errors"
	"io"
	"os"
)

func IsCharDevice(f *os.File) bool {
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}

var errClosedInput = errors.New("standard input is closed, so there is nothing to read; use < FILE or a pipe")

// checkInput returns an error if in was closed when the program began. The Go runtime then
// opens the null device in its place, for reading and writing. A shell with < /dev/null opens
// it only for reading, so the two cases differ. For standard output there is no such
// difference: Python and Node open the null device for reading and writing when they discard
// output.
func checkInput(in io.Reader) error {
	f, ok := in.(*os.File)
	if !ok || !IsCharDevice(f) || !isNull(f) {
		return nil
	}
	if _, err := f.Write([]byte{0}); err != nil {
		return nil
	}
	return errClosedInput
}

// isNull reports whether f is the null device.
func isNull(f *os.File) bool {
	info, err := f.Stat()
	if err != nil {
		return false
	}
	null, err := os.Stat(os.DevNull)
	return err == nil && os.SameFile(info, null)
}

// input returns standard input if w stands for it, and nil otherwise.
func (s *Session) input(ctx context.Context, w Word) (io.Reader, error) {
	switch {
	case w.Text != "-" || w.Literal:
		return nil, nil
	case s.in == nil:
		return nil, errors.New(`the commands come from standard input, so - can't stand for it; write "-" for the word -`)
	}
	return untilDone(ctx, s.in), checkInput(s.in)
}
