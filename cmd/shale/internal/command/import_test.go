package command

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/shaledb/shale/cmd/shale/internal/cmdtest"
	"github.com/shaledb/shale/cmd/shale/internal/output"
)

// However often an import ends in the middle, it can go on where it says.
func TestImportGoesOn(t *testing.T) {
	dir := t.TempDir()
	file, db := filepath.Join(dir, "file.tsv"), filepath.Join(dir, "db")
	const n = 5000
	lines := make([]string, n)
	for i := range lines {
		lines[i] = fmt.Sprintf("k%05d\t%d", i, i)
	}
	bad := []int{0, 1, 999, 1000, 2500, 2501, n - 1}
	for _, i := range bad {
		lines[i] = "no tab"
	}
	write := func() {
		if err := os.WriteFile(file, []byte(strings.Join(lines, "\n")), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write()
	from := 1
	for _, i := range bad {
		_, notes, st := call("", "-C", db, "import", file, "--from-line", fmt.Sprint(from))
		if want := fmt.Sprintf("line %d: ", i+1); st != Failed || !strings.Contains(notes, want) {
			t.Fatalf("status %d, %q; want 2 and %q", st, notes, want)
		}
		if _, says, ok := strings.Cut(notes, "--from-line "); ok {
			_, _ = fmt.Sscan(says, &from)
		} else if !strings.Contains(notes, "nothing was written") {
			t.Fatalf("it does not say how to go on: %q", notes)
		}
		if from != i+1 && i > 1 && i != 1000 && i != 2501 {
			t.Errorf("line %d is wrong, and --from-line is %d", i+1, from)
		}
		lines[i] = fmt.Sprintf("k%05d\t%d", i, i)
		write()
	}
	if out, notes, st := call("", "-C", db, "import", file, "--from-line", fmt.Sprint(from)); st != Found || !strings.HasPrefix(out, "1 entry written") {
		t.Errorf("status %d, %q, %q", st, out, notes)
	}
	if got := len(cmdtest.Contents(t, db)); got != n {
		t.Errorf("%d entries, want %d", got, n)
	}
}

// If standard error is no terminal, a line from time to time shows the progress of an import.
func TestProgressLines(t *testing.T) {
	var notes bytes.Buffer
	s := &Session{Printer: output.Printer{Out: bufio.NewWriter(io.Discard)}, Notes: &LockedWriter{W: &notes}}
	p := s.newProgress(strings.NewReader(""), 0)
	p.show(1, "entries")
	if notes.Len() > 0 {
		t.Errorf("at once it shows %q", &notes)
	}
	p.begin, p.last = p.begin.Add(-progressLines), p.last.Add(-progressLines)
	p.show(3000, "entries")
	p.show(3001, "entries")
	p.clear()
	if got := notes.String(); !strings.HasPrefix(got, "shale: 3,000 entries, ") || strings.Count(got, "\n") != 1 || strings.Contains(got, "\x1b") {
		t.Errorf("it shows %q", got)
	}
}

// On a terminal one line is written again and again, and removed at the end. It fits into 60 columns.
func TestProgressOnATerminal(t *testing.T) {
	for total, want := range map[int64]string{
		1000: "\r5,000,000 entries, 2,500,000 a second, 25 %, 6s left\x1b[K",
		0:    "\r5,000,000 entries, 2,500,000 a second\x1b[K", // the size is unknown
	} {
		var notes bytes.Buffer
		p := &progress{w: &notes, terminal: true, total: total, done: 250, begin: time.Now().Add(-2 * time.Second)}
		p.show(5_000_000, "entries")
		p.show(5_000_001, "entries")
		got := regexp.MustCompile(`2,[0-9,]+ a second`).ReplaceAllString(notes.String(), "2,500,000 a second")
		if got != want || len(got) > 60+4 {
			t.Errorf("it shows %q, want %q", got, want)
		}
		if p.clear(); !strings.HasSuffix(notes.String(), "\r\x1b[K") {
			t.Errorf("it is not cleared: %q", notes.String())
		}
	}
}
