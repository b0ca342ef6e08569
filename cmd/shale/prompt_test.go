package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/peterh/liner"
	"github.com/shaledb/shale"
)

// A typist is an editor without a terminal: it types lines, then Ctrl-D. The
// line ^C is a Ctrl-C at the prompt.
type typist struct {
	lines      []string
	transcript *bytes.Buffer
	history    []string
}

func (y *typist) Prompt(prompt string) (string, error) {
	y.transcript.WriteString(prompt)
	if len(y.lines) == 0 {
		return "", io.EOF
	}
	line := y.lines[0]
	y.lines = y.lines[1:]
	y.transcript.WriteString(line + "\n")
	if line == "^C" {
		return "", liner.ErrPromptAborted
	}
	return line, nil
}

func (y *typist) AppendHistory(line string) { y.history = append(y.history, line) }

// atPrompt types lines at a prompt of the store in dir and returns what would be
// seen, without the greeting.
func atPrompt(t *testing.T, dir string, lines ...string) string {
	t.Helper()
	var seen bytes.Buffer
	s := &session{dir: dir, mode: prompt, out: bufio.NewWriter(&seen), notes: &lockedWriter{w: &seen}}
	y := &typist{lines: lines, transcript: &seen}
	if st := s.promptLoop(y); st != found {
		t.Errorf("status %d, want 0", st)
	}
	if err := errors.Join(s.close(), s.out.Flush()); err != nil {
		t.Error(err)
	}
	for _, line := range y.history {
		if strings.TrimSpace(line) == "" || line == "^C" {
			t.Errorf("%q is in the history", line)
		}
	}
	return varying.ReplaceAllString(seen.String(), "<time>")
}

func wantTranscript(t *testing.T, got string, want ...string) {
	t.Helper()
	_, got, _ = strings.Cut(got, "Ctrl-D leaves.\n")
	if want := strings.Join(want, "\n"); got != want {
		t.Errorf("seen:\n%s\nwant:\n%s", got, want)
	}
}

func TestPrompt(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "db")
	got := atPrompt(t, dir, "get k", "put k v", "get k", "get x", "", "^C", "nonsense", "scan z", "flush", "quit", "get k")
	if !strings.HasPrefix(got, "shale: there is no store in ") {
		t.Errorf("the prompt of a missing store begins with %q", got)
	}
	wantTranscript(t, strings.ReplaceAll(got, dir, "db"),
		"shale> get k", "shale: there is no store in db; put and batch make one, -C names another",
		"shale> put k v",
		"shale> get k", "v",
		"shale> get x", "absent",
		"shale> ",
		"shale> ^C",
		"shale> nonsense",
		"       ^^^^^^^^",
		"shale: unknown command nonsense; help lists them",
		"shale> scan z", "none",
		"shale> flush", "flushed in <time>",
		"shale> quit", "")
	wantTranscript(t, atPrompt(t, dir, "get k"), "shale> get k", "v", "shale> ", "")
}

// Beside a program that has the store open a prompt reads, and writes once the
// program is gone.
func TestPromptBesideAWriter(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "db")
	db, err := shale.Open(dir, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if err := db.Put([]byte("k"), []byte("v")); err != nil {
		t.Fatal(err)
	}
	got := atPrompt(t, dir, "put k w", "get k")
	for _, part := range []string{
		"shale (read-only)> put k w\nshale: put writes", "process", "shale (read-only)> get k\nv\n",
	} {
		if !strings.Contains(got, part) {
			t.Errorf("the prompt beside a writer shows no %q:\n%s", part, got)
		}
	}
}

func TestHistory(t *testing.T) {
	name := filepath.Join(t.TempDir(), "folder", "history")
	for _, lines := range [][]string{{"get k", strings.Repeat("x", maxHistoryLine+1)}, {"get é"}} {
		h := openHistory(name, &liner.State{})
		if h == nil {
			t.Fatal("no history")
		}
		for _, line := range lines {
			h.append(line)
		}
		h.close()
	}
	if b, err := os.ReadFile(name); string(b) != "get k\nget é\n" || err != nil {
		t.Errorf("history = %q, %v", b, err)
	}
	if n := readHistory(name, &liner.State{}); n != 2 {
		t.Errorf("%d lines read, want 2", n)
	}
}

// A long file is cut to what the editor keeps.
func TestHistory_Cut(t *testing.T) {
	name := filepath.Join(t.TempDir(), "history")
	if err := os.WriteFile(name, bytes.Repeat([]byte("get k\n"), 3*liner.HistoryLimit), 0o600); err != nil {
		t.Fatal(err)
	}
	openHistory(name, &liner.State{}).close()
	if n := readHistory(name, &liner.State{}); n != liner.HistoryLimit {
		t.Errorf("%d lines, want %d", n, liner.HistoryLimit)
	}
}

func TestHistory_Nowhere(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"", filepath.Join(file, "history")} {
		h := openHistory(name, &liner.State{})
		h.append("get k")
		h.close()
	}
}

// Ctrl-C ends a command that waits for input.
func TestInterruptedInput(t *testing.T) {
	waiting, _ := io.Pipe()
	ctx, cancel := context.WithCancel(context.Background())
	go cancel()
	if _, err := io.ReadAll(untilDone(ctx, waiting)); !errors.Is(err, context.Canceled) {
		t.Errorf("%v, want %v", err, context.Canceled)
	}
}
