package command

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"path/filepath"
	"testing"

	"github.com/shaledb/shale"
	"github.com/shaledb/shale/cmd/shale/internal/output"
)

// Next to a program that writes, changes --follow prints each change as soon as it finds it, until it is interrupted.
func TestChanges_BesideAWriter(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "db")
	db, err := shale.Open(dir, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	put := func(key string) {
		t.Helper()
		if err := db.Put([]byte(key), []byte("1")); err != nil {
			t.Fatal(err)
		}
	}
	put("before")
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	r, w := io.Pipe()
	defer r.Close()
	s := &Session{Ctx: ctx, Dir: dir, Printer: output.Printer{Out: bufio.NewWriter(w)}, Notes: &LockedWriter{W: &bytes.Buffer{}}}
	ended := make(chan error, 1)
	go func() {
		_, err := s.RunLine("changes --follow")
		ended <- errors.Join(err, s.Close())
	}()
	lines := bufio.NewReader(r)
	want := func(line string) {
		t.Helper()
		if got, err := lines.ReadString('\n'); err != nil || got != line+"\n" {
			t.Errorf("%q, %v; want %q", got, err, line)
		}
	}
	want(`{"seq":1,"last":1,"ops":[{"op":"put","key":"before","value":"1"}]}`)
	put("after")
	want(`{"seq":2,"last":2,"ops":[{"op":"put","key":"after","value":"1"}]}`)
	if err := db.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	put("later")
	want(`{"seq":3,"last":3,"ops":[{"op":"put","key":"later","value":"1"}]}`)
	cancel()
	if err := <-ended; err == nil {
		t.Error("an interrupted command has no error")
	}
}
