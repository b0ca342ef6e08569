package command

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"path/filepath"
	"strings"
	"testing"
	"time"

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

// A lateWriter takes nothing for a while, as a pipe whose reader is at work.
type lateWriter struct {
	bytes.Buffer
	paused bool
}

func (w *lateWriter) Write(p []byte) (int, error) {
	if !w.paused {
		w.paused = true
		time.Sleep(time.Second)
	}
	return w.Buffer.Write(p)
}

// However long the reader of the output takes, changes prints all there is. An operation has all that Put, PutTTL and
// the others were given.
func TestChanges_SlowPipe(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "db")
	db, err := shale.Open(dir, &shale.Options{Durability: shale.SyncManual})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	const n = 2000
	for range n {
		if err := db.Put([]byte("key"), []byte(strings.Repeat("v", 100))); err != nil {
			t.Fatal(err)
		}
	}
	if err := db.Write(t.Context(), expiring(t, time.UnixMilli(1<<42))); err != nil {
		t.Fatal(err)
	}
	out := new(lateWriter)
	s := &Session{Ctx: t.Context(), Dir: dir, Printer: output.Printer{Out: bufio.NewWriter(out)}, Notes: &LockedWriter{W: &bytes.Buffer{}}}
	if _, err := s.RunLine("changes"); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(s.Out.Flush(), s.Close()); err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	if want := `{"seq":2001,"last":2001,"ops":[{"op":"put","key":"ttl","value":"1","expires_ms":4398046511104}]}`; len(lines) != n+1 || lines[len(lines)-1] != want {
		t.Errorf("%d lines, the last is %s; want %d, and %s", len(lines), lines[len(lines)-1], n+1, want)
	}
}

// expiring returns a batch with a value that is over at a time.
func expiring(t *testing.T, at time.Time) *shale.Batch {
	b := new(shale.Batch)
	if err := b.Add(shale.Op{Kind: shale.OpPut, Key: []byte("ttl"), Value: []byte("1"), ExpiresAt: at}); err != nil {
		t.Fatal(err)
	}
	return b
}
