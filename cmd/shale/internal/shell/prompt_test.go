package shell

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"
	"github.com/peterh/liner"

	"github.com/shaledb/shale/cmd/shale/internal/cmdtest"
	"github.com/shaledb/shale/cmd/shale/internal/command"
	"github.com/shaledb/shale/cmd/shale/internal/output"
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
	return typed(t, dir, nil, lines...)
}

// typed is atPrompt on a terminal of this many columns.
func typed(t *testing.T, dir string, columns func() int, lines ...string) string {
	t.Helper()
	var seen bytes.Buffer
	s := &command.Session{Dir: dir, Mode: command.AtPrompt, Printer: output.Printer{Columns: columns, Out: bufio.NewWriter(&seen)}, Notes: &command.LockedWriter{W: &seen}}
	y := &typist{lines: lines, transcript: &seen}
	if st := promptLoop(s, y); st != command.Found {
		t.Errorf("status %d, want 0", st)
	}
	if err := errors.Join(s.Close(), s.Out.Flush()); err != nil {
		t.Error(err)
	}
	for _, line := range y.history {
		if strings.TrimSpace(line) == "" || line == "^C" {
			t.Errorf("%q is in the history", line)
		}
	}
	return cmdtest.Masked(seen.String())
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
		"shale> get k", "shale: there is no store in db; put, batch and import make one",
		"shale> put k v", "made a new store in db",
		"shale> get k", "v",
		"shale> get x", "absent",
		"shale> ",
		"shale> ^C",
		"shale> nonsense",
		"shale: unknown command nonsense; help lists the commands",
		"shale> scan z", "none",
		"shale> flush", "flushed in <time>",
		"shale> quit", "")
	wantTranscript(t, atPrompt(t, dir, "get k"), "shale> get k", "v", "shale> ", "")
}

// A prompt that waits for a line ends when the program must end.
func TestPromptEnds(t *testing.T) {
	dir := cmdtest.NewStore(t, 1)
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	s := &command.Session{Ctx: ctx, Dir: dir, Mode: command.AtPrompt, Printer: output.Printer{Out: bufio.NewWriter(io.Discard)}, Notes: &command.LockedWriter{W: io.Discard}}
	if st := promptLoop(s, waitingEditor(cancel)); st != command.Found {
		t.Errorf("status %d, want 0", st)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}

// A waitingEditor waits for a line that never comes. It calls the function when it begins to wait.
type waitingEditor func()

func (w waitingEditor) Prompt(string) (string, error) { w(); select {} }
func (w waitingEditor) AppendHistory(string)          {}

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

// A long history file is cut to the lines that the editor keeps.
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

// The files have sessions: the lines typed at a prompt, with ^C for Ctrl-C, and what the user sees.
func TestPrompts(t *testing.T) {
	datadriven.Walk(t, "testdata/prompts", func(t *testing.T, path string) {
		path, err := filepath.Abs(path)
		if err != nil {
			t.Fatal(err)
		}
		t.Chdir(t.TempDir())
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			if d.Cmd == "file" {
				if err := os.WriteFile(d.CmdArgs[0].String(), []byte(d.Input+"\n"), 0o600); err != nil {
					t.Fatal(err)
				}
				return ""
			}
			columns := 80
			if d.HasArg("columns") {
				d.ScanArgs(t, "columns", &columns)
			}
			seen := typed(t, "db", func() int { return columns }, strings.Split(d.Input, "\n")...)
			_, seen, _ = strings.Cut(seen, "Ctrl-D leaves.\n")
			return strings.TrimRight(trailing.ReplaceAllString(seen, ""), "\n") + "\n"
		})
	})
}

var trailing = regexp.MustCompile(`(?m)[ \t]+$`)

func TestHistoryFile(t *testing.T) {
	home := t.TempDir()
	for _, c := range []struct {
		env  map[string]string
		want string
	}{
		{map[string]string{"SHALE_HISTORY": "here", "XDG_STATE_HOME": home, "HOME": home}, "here"},
		{map[string]string{"XDG_STATE_HOME": filepath.Join(home, "state"), "HOME": home}, filepath.Join(home, "state", "shale", "history")},
	} {
		if got := historyFile(command.Environment{Getenv: func(name string) string { return c.env[name] }}); got != c.want {
			t.Errorf("%v: %q, want %q", c.env, got, c.want)
		}
	}
	if runtime.GOOS == "windows" || runtime.GOOS == "darwin" {
		return
	}
	env := map[string]string{"XDG_STATE_HOME": "relative", "HOME": home}
	getenv := func(name string) string { return env[name] }
	if got, want := historyFile(command.Environment{Getenv: getenv}), filepath.Join(home, ".local", "state", "shale", "history"); got != want {
		t.Errorf("%q, want %q", got, want)
	}
	delete(env, "HOME")
	if got := historyFile(command.Environment{Getenv: getenv}); got != "" {
		t.Errorf("%q without a home, want none", got)
	}
}

// Only the user may read the history. The mode of a device is not changed.
func TestHistory_Private(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("no permission bits")
	}
	name := filepath.Join(t.TempDir(), "shale", "history")
	mode := func() os.FileMode {
		info, err := os.Stat(name)
		if err != nil {
			t.Fatal(err)
		}
		return info.Mode().Perm()
	}
	openHistory(name, &liner.State{}).close()
	if mode() != 0o600 {
		t.Errorf("a new file has mode %o", mode())
	}
	if err := os.Chmod(name, 0o644); err != nil {
		t.Fatal(err)
	}
	openHistory(name, &liner.State{}).close()
	if mode() != 0o600 {
		t.Errorf("a file that others could read still has mode %o", mode())
	}
}

// A prompt gives advice about damage once, however many commands find it.
func TestPrompt_DamageToldOnce(t *testing.T) {
	dir := cmdtest.NewStore(t, 1)
	atPrompt(t, dir, "flush")
	tables, err := filepath.Glob(filepath.Join(dir, "*.sst"))
	if err != nil || len(tables) != 1 {
		t.Fatal(tables, err)
	}
	cmdtest.Flip(t, tables[0], 3)
	got := atPrompt(t, dir, "get k0", "scan")
	if strings.Count(got, "checksum mismatch") != 2 || strings.Count(got, "Keep a copy") != 1 {
		t.Errorf("a prompt says\n%s", got)
	}
}

// The history is never written to a file of a store, whatever its name is.
func TestHistory_NeverAStore(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("symbolic links need a privilege")
	}
	dir := cmdtest.NewStore(t, 1)
	atPrompt(t, dir, "flush")
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	names := []string{filepath.Join(dir, "MANIFEST-999999")} // which is not there
	for _, e := range entries {
		names = append(names, filepath.Join(dir, e.Name()))
	}
	links := t.TempDir()
	for _, name := range names {
		before, _ := os.ReadFile(name) // of the one that is not there: nothing
		link := filepath.Join(links, filepath.Base(name))
		if err := os.Symlink(name, link); err != nil {
			t.Fatal(err)
		}
		for _, target := range []string{name, link} {
			if h := openHistory(target, &liner.State{}); h != nil {
				t.Errorf("%s is taken for the history", target)
				h.close()
			}
		}
		if after, _ := os.ReadFile(name); !bytes.Equal(before, after) {
			t.Errorf("%s has changed", filepath.Base(name))
		}
	}
}
