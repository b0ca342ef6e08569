package command

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/shaledb/shale"
	"github.com/shaledb/shale/cmd/shale/internal/cmdtest"
	"github.com/shaledb/shale/cmd/shale/internal/output"
)

// A typed is a session at a prompt.
type typed struct {
	*Session
	t   *testing.T
	out bytes.Buffer
}

func newTyped(t *testing.T, dir string) *typed {
	y := &typed{t: t}
	y.Session = &Session{Dir: dir, Mode: AtPrompt, Printer: output.Printer{Out: bufio.NewWriter(&y.out)}, Notes: &LockedWriter{W: &y.out}}
	t.Cleanup(func() {
		if err := y.Close(); err != nil {
			t.Error(err)
		}
	})
	return y
}

// lines runs lines, and returns what is printed.
func (y *typed) lines(lines ...string) string {
	y.t.Helper()
	y.out.Reset()
	for _, line := range lines {
		if _, err := y.RunLine(line); err != nil {
			y.t.Fatalf("%s: %v", line, err)
		}
	}
	if err := y.Out.Flush(); err != nil {
		y.t.Fatal(err)
	}
	return cmdtest.Masked(y.out.String())
}

// wantError runs a line, and checks that its error has all texts.
func (y *typed) wantError(line string, texts ...string) {
	y.t.Helper()
	_, err := y.RunLine(line)
	for _, text := range texts {
		if err == nil || !strings.Contains(err.Error(), text) {
			y.t.Errorf("%s: %v, want %q", line, err, text)
		}
	}
}

func put(t *testing.T, db *shale.DB, key, value string) {
	t.Helper()
	if err := db.Put([]byte(key), []byte(value)); err != nil {
		t.Fatal(err)
	}
}

// A conflict names the key, and ends the transaction. What Tab has completed is not read.
func TestCommit_Conflict(t *testing.T) {
	y := newTyped(t, cmdtest.NewStore(t, 3))
	y.lines("begin", "get k0", "put l w")
	put(t, y.DB, "k0", "other")
	y.wantError("commit", `"k0"`, "nothing was written", "begin again")
	y.wantError("commit", "no transaction is open")
	if got := y.lines("count l"); got != "0\n" {
		t.Errorf("%s keys are there after a conflict", got)
	}
	y.lines("begin", "put k9 v")
	if keys, _ := y.Complete([]Word{{Text: "get"}}, "k"); strings.Join(keys, " ") != "k0 k1 k2 k9" {
		t.Errorf("Tab offers %q", keys)
	}
	put(t, y.DB, "k1", "other")
	if got := y.lines("commit", "has k1 k9"); got != "1 change in <time>\nk1\tpresent\nk9\tpresent\n" {
		t.Errorf("seen: %s", got)
	}
}

// A batch that does not fit is refused as a whole, and the transaction goes on.
func TestTransaction_Full(t *testing.T) {
	y := newTyped(t, cmdtest.NewStore(t, 1))
	y.lines("begin", "put a 1")
	y.tx.bytes = shale.MaxBatchSize - 40
	y.wantError("del b c d e f g h i j k l m n", "536,870,912 bytes", "import")
	if got := y.lines("del k0", "commit", "scan"); got != "2 changes in <time>\na\t1\n" {
		t.Errorf("seen: %s", got)
	}
}

// A transaction that only reads goes on when the writer does, and when the folder has another store.
func TestTransaction_BesideAWriter(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "db")
	db, err := shale.Open(dir, nil)
	if err != nil {
		t.Fatal(err)
	}
	put(t, db, "k", "1")
	y := newTyped(t, dir)
	y.wantError("begin", "process", "begin --readonly")
	y.lines("begin --readonly")
	if got := y.PromptText(); got != "shale (read-only transaction)> " {
		t.Errorf("the prompt is %q", got)
	}
	put(t, db, "k", "2")
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	if got := y.lines("get k"); got != "1\n" {
		t.Errorf("get k = %s", got)
	}
	if err := os.Rename(dir, dir+" before"); err != nil {
		t.Fatal(err)
	}
	if _, notes, st := call("", "-C", dir, "put", "k", "other"); st != Found {
		t.Fatal(notes)
	}
	y.wantError("put k 3", "only reads")
	if got := y.lines("get k", "discard", "get k"); got != "1\n0 changes dropped\nother\n" {
		t.Errorf("seen: %s", got)
	}
}

// A script that loses a conflict runs again, and what it printed before is not seen.
func TestUpdate_RunsAgain(t *testing.T) {
	y := newTyped(t, cmdtest.NewStore(t, 1))
	y.lines("count")
	script := filepath.Join(t.TempDir(), "script")
	if err := os.WriteFile(script, []byte("get k0\n.mode hex\nget absent\nhelp quit\nput l w\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	tries := 0
	y.Columns = func() int { // help asks for it
		if tries++; tries < 3 {
			put(t, y.DB, "k0", strings.Repeat("w", tries))
		}
		return 0
	}
	want := "ww\nquit: leave; exit and Ctrl-D do the same\n1 change in <time>\nww\nw\n"
	if got := y.lines("batch "+script, "get k0", "get l"); got != want {
		t.Errorf("seen after %d tries:\n%s\nwant\n%s", tries, got, want)
	}
}

// Ctrl-C ends a batch, and nothing of it is written.
func TestUpdate_Interrupted(t *testing.T) {
	y := newTyped(t, cmdtest.NewStore(t, 1))
	y.lines("count")
	script := filepath.Join(t.TempDir(), "script")
	if err := os.WriteFile(script, []byte("put l w\nhelp quit\nput m w\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	c, words, err := y.prepare([]Word{{Text: "batch"}, {Text: script}})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	y.Columns = func() int { cancel(); return 0 }
	if _, err := y.do(ctx, c, words); !errors.Is(err, errInterrupted) || !strings.Contains(err.Error(), "line 3: interrupted; nothing is written") {
		t.Errorf("%v", err)
	}
	y.lines()
	if got := y.lines("count"); got != "1\n" {
		t.Errorf("count = %s, want 1", got)
	}
}
