//go:build unix

package shell

import (
	"bufio"
	"bytes"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"testing"

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
	dir := cmdtest.NewStore(t, 50_000)
	for _, c := range []struct{ line, until, want string }{
		{"serve --addr localhost:0", "is shown", ""},
		{"scan", "k1\t", "shale: scan: interrupted\n"},
	} {
		sent := false
		w := &watcher{}
		w.seen = func(all string) {
			if !sent && strings.Contains(all, c.until) {
				sent = true
				if err := syscall.Kill(os.Getpid(), syscall.SIGINT); err != nil {
					t.Error(err)
				}
				<-heard // the signal has reached all listeners
			}
		}
		s := &command.Session{Dir: dir, Mode: command.AtPrompt, Printer: output.Printer{Out: bufio.NewWriterSize(w, 64)}, Notes: &command.LockedWriter{W: w}}
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
