package input

import (
	"bufio"
	"context"
	"errors"
	"io"
	"strings"
	"testing"
)

// What was found is flushed before each wait, and all of it is read.
func TestInterruptible_ReadsAll(t *testing.T) {
	const text = "one\ntwo\nthree\n"
	flushed := 0
	r := Interruptible(context.Background(), strings.NewReader(text), func() error { flushed++; return nil })
	all, err := io.ReadAll(r)
	if string(all) != text || err != nil || flushed < 2 {
		t.Errorf("read %q, %v, flushed %d times", all, err, flushed)
	}
	broken := errors.New("pipe closed")
	if _, err := Interruptible(context.Background(), strings.NewReader(text), func() error { return broken }).Read(make([]byte, 8)); !errors.Is(err, broken) {
		t.Errorf("with a flush that fails: %v", err)
	}
}

// A wait for input that never comes ends with the context.
func TestInterruptible_EndsWithTheContext(t *testing.T) {
	typed, w := io.Pipe()
	defer w.Close()
	ctx, cancel := context.WithCancel(context.Background())
	lines := bufio.NewScanner(Interruptible(ctx, typed, nil))
	go func() { _, _ = io.WriteString(w, "a line\n") }() // ends with the test at the latest
	if !lines.Scan() || lines.Text() != "a line" {
		t.Fatalf("%q, %v", lines.Text(), lines.Err())
	}
	cancel()
	if lines.Scan() || !errors.Is(lines.Err(), context.Canceled) {
		t.Errorf("after the end of the context: %q, %v", lines.Text(), lines.Err())
	}
}
