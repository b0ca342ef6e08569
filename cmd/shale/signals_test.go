//go:build unix

package main

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/shaledb/shale/cmd/shale/internal/cmdtest"
	"github.com/shaledb/shale/cmd/shale/internal/command"
)

// endingSignals returns the signals with which a terminal, a service manager, a container
// and timeout(1) end a program. It leaves out those that the tests have been made to ignore,
// as nohup does: their children would ignore them too.
func endingSignals(t *testing.T) (heard []os.Signal) {
	t.Helper()
	for _, sig := range []os.Signal{syscall.SIGTERM, syscall.SIGHUP, os.Interrupt} {
		if signal.Ignored(sig) {
			t.Logf("%v is ignored here: its part is skipped", sig)
			continue
		}
		heard = append(heard, sig)
	}
	return heard
}

// started is a running child with its streams.
type started struct {
	*exec.Cmd
	in    io.WriteCloser
	out   *bufio.Reader
	notes bytes.Buffer
}

func start(t *testing.T, shell string, args ...string) *started {
	t.Helper()
	c := &started{Cmd: child(shell, args...)}
	var err error
	if c.in, err = c.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	out, err := c.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	c.out, c.Stderr = bufio.NewReader(out), &c.notes
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Process.Kill() }) // it has ended, if all is well
	return c
}

// end waits for the end of c. It returns what c printed since the last call, and its status, which
// is -1 if a signal killed it.
func (c *started) end(t *testing.T) (out string, st int) {
	t.Helper()
	rest, err := io.ReadAll(c.out)
	if err != nil {
		t.Fatal(err)
	}
	_ = c.Wait() // the state of the process has the result
	return string(rest), c.ProcessState.ExitCode()
}

func (c *started) send(t *testing.T, text string) {
	t.Helper()
	if _, err := io.WriteString(c.in, text); err != nil {
		t.Fatalf("%v; %s", err, &c.notes)
	}
}

func (c *started) wantLine(t *testing.T, want string) {
	t.Helper()
	if line, err := c.out.ReadString('\n'); line != want+"\n" || err != nil {
		t.Fatalf("it prints %q, %v; want %q", line, err, want)
	}
}

func (c *started) signal(t *testing.T, s os.Signal) {
	t.Helper()
	if err := c.Process.Signal(s); err != nil {
		t.Fatal(err)
	}
}

// An import that a signal ends says how far it has come.
func TestSignal_Import(t *testing.T) {
	for _, sig := range endingSignals(t) {
		dir := filepath.Join(t.TempDir(), "db")
		c := start(t, "", "-C", dir, "import", "-")
		const n = 100_000
		for i := range n { // more than a pipe holds: most of them have been read
			c.send(t, fmt.Sprintf("%09d\n", i))
		}
		c.signal(t, sig)
		_, st := c.end(t)
		_, text, _ := strings.Cut(c.notes.String(), "import: interrupted; ")
		var written int
		if _, err := fmt.Sscanf(strings.ReplaceAll(text, ",", ""), "%d entries", &written); err != nil || st != int(command.Interrupted) {
			t.Fatalf("%v: status %d, %q, %v", sig, st, &c.notes, err)
		}
		if got := len(cmdtest.Contents(t, dir)); got != written || written == 0 {
			t.Errorf("%v: %d entries, it says %d", sig, got, written)
		}
	}
}

// A signal that would end the program ends a script with its command; Ctrl-C does so too.
func TestSignal_Script(t *testing.T) {
	for _, sig := range endingSignals(t) {
		if sig == os.Interrupt {
			continue
		}
		dir := filepath.Join(t.TempDir(), "db")
		// serve ends by a signal without an error.
		c := start(t, "", "-C", dir, "-e", "put k v", "-e", "serve --addr localhost:0", "-e", "put l v")
		if line, err := c.out.ReadString('\n'); err != nil {
			t.Fatalf("it prints %q, %v", line, err)
		}
		c.signal(t, sig)
		if _, st := c.end(t); st != int(command.Interrupted) || c.notes.String() != "made a new store in "+dir+"\nshale: line 3: interrupted\n" {
			t.Errorf("%v: status %d, %s", sig, st, &c.notes)
		}
		if got := len(cmdtest.Contents(t, dir)); got != 1 {
			t.Errorf("%v: %d entries, want 1", sig, got)
		}
		// Between two lines.
		c = start(t, "", "-C", dir)
		c.send(t, "count\n")
		c.wantLine(t, "1")
		c.signal(t, sig)
		if out, st := c.end(t); st != int(command.Interrupted) || out != "" || c.notes.String() != "shale: line 2: interrupted\n" {
			t.Errorf("%v between lines: status %d, %q, %s", sig, st, out, &c.notes)
		}
	}
}

// Signals that nohup or a shell made the program ignore stay ignored.
func TestSignal_Ignored(t *testing.T) {
	for sig, name := range map[syscall.Signal]string{syscall.SIGHUP: "HUP", syscall.SIGINT: "INT"} {
		c := start(t, `trap "" `+name+`; exec "$0"`, "-C", filepath.Join(t.TempDir(), "db"))
		c.send(t, "put a v\ncount\n")
		c.wantLine(t, "1")
		c.signal(t, sig)
		c.send(t, "put b v\ncount\n")
		c.wantLine(t, "2")
		c.in.Close()
		if out, st := c.end(t); st != 0 || out != "" {
			t.Errorf("%s: status %d, %q, %s", name, st, out, &c.notes)
		}
	}
}
