//go:build unix

package shell

import (
	"bufio"
	"bytes"
	"context"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"testing"

	"github.com/shaledb/shale"
	"github.com/shaledb/shale/cmd/shale/internal/cmdtest"
	"github.com/shaledb/shale/cmd/shale/internal/command"
	"github.com/shaledb/shale/cmd/shale/internal/output"
)

// A watcher is a writer that calls seen with what is written.
type watcher struct {
	bytes.Buffer
	seen func(all string)
}

func (w *watcher) Write(p []byte) (int, error) {
	n, err := w.Buffer.Write(p)
	w.seen(w.String())
	return n, err
}

// Ctrl-C ends the running command, and the prompt goes on.
func TestPromptInterrupted(t *testing.T) {
	heard := make(chan os.Signal, 100) // so that a signal too many does not end the test
	signal.Notify(heard, os.Interrupt)
	defer signal.Stop(heard)
	dir := cmdtest.NewStore(t, 2000)
	for _, c := range []struct{ line, until, want string }{
		{".watch 1ms get k1", "v\nv\nv\n", ""},
		{".watch 1ms count", "2000\n2000\n", ""},
		{".watch 5m get k1", "v\n", ""},
		{"scan", "k1\t", "shale: scan: interrupted\n"},
	} {
		sent := false
		w := &watcher{}
		w.seen = func(all string) {
			clean := clocks.ReplaceAllString(all, "")
			if !sent && strings.Contains(clean, c.until) {
				sent = true
				if err := syscall.Kill(os.Getpid(), syscall.SIGINT); err != nil {
					t.Error(err)
				}
				<-heard // the signal has reached all listeners
			}
		}
		s := &command.Session{Dir: dir, Mode: command.AtPrompt, More: Commands(), Printer: output.Printer{Out: bufio.NewWriterSize(w, 64)}, Notes: &command.LockedWriter{W: w}}
		y := &typist{lines: []string{c.line, "has k2"}, transcript: &bytes.Buffer{}}
		if st := promptLoop(s, y); st != command.Found {
			t.Errorf("%s: status %d", c.line, st)
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
		got := w.String()
		if !sent || !strings.Contains(got, "k2") || strings.Count(got, "shale: ") != strings.Count(c.want, "shale: ") ||
			!strings.Contains(got, c.want) || len(got) > 1<<20 {
			t.Errorf("%s: interrupted %t, seen %d bytes, the last %q; want %q", c.line, sent, len(got), got[max(0, len(got)-100):], c.want)
		}
	}
}

// A watch that only reads shows what another program writes.
func TestWatchBesideAWriter(t *testing.T) {
	if testing.Short() {
		t.Skip("opening a log of a writer takes a second under the race detector")
	}
	dir := cmdtest.NewStore(t, 1)
	db, err := shale.Open(dir, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	rounds := 0
	w := &watcher{}
	w.seen = func(all string) {
		rounds++
		if strings.HasSuffix(all, "new\n") || rounds > 1000 {
			cancel()
		}
		if rounds == 1 {
			if err := db.Put([]byte("k0"), []byte("new")); err != nil {
				t.Error(err)
			}
		}
	}
	s := &command.Session{Dir: dir, More: Commands(), Printer: output.Printer{Out: bufio.NewWriter(w)}, Notes: &command.LockedWriter{W: w}}
	words, err := command.ParseLine(".watch 1ms get k0")
	if err != nil {
		t.Fatal(err)
	}
	if st, err := s.RunIn(ctx, words); st != command.Found || err != nil {
		t.Errorf("status %d, %v", st, err)
	}
	if got := w.String(); !strings.HasPrefix(got, "v\n") || !strings.HasSuffix(got, "new\n") {
		t.Errorf("seen %q", got)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}
