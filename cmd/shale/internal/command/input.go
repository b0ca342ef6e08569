package command

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/shaledb/shale/cmd/shale/internal/output"
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

// inputName returns the name for messages of the file that w names.
func inputName(w Word) string {
	if w.Text == "-" && !w.Literal {
		return "standard input"
	}
	return output.Quote(w.Text)
}

// openInput opens the file that w names, or standard input. It returns the size in bytes too,
// or 0 if the input has none.
//
// The size is for the progress. A read of a pipe is one that Ctrl-C can interrupt; a read of a file
// ends by itself.
func (s *Session) openInput(ctx context.Context, w Word) (io.ReadCloser, int64, error) {
	in, err := s.input(ctx, w)
	if in != nil || err != nil {
		return io.NopCloser(in), 0, err
	}
	f, err := os.Open(w.Text)
	if err != nil {
		return nil, 0, err
	}
	info, err := f.Stat()
	switch {
	case err == nil && info.IsDir():
		err = fmt.Errorf("%s is a folder", output.Quote(w.Text))
	case err == nil && info.Mode().IsRegular():
		return f, info.Size(), nil
	case err == nil:
		return struct {
			io.Reader
			io.Closer
		}{untilDone(ctx, f), f}, 0, nil // reading a pipe may take for ever
	}
	_ = f.Close() // only opened
	return nil, 0, err
}
