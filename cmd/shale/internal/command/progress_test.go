package command

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/shaledb/shale/internal/base"
)

// imported is the measure of an import of which a quarter is done.
var imported = measure{
	done: func() int64 { return 5_000_000 }, format: entries, part: func() float64 { return 0.25 },
}

// If standard error is no terminal, a line from time to time shows how far a command has come, if it knows.
func TestProgressLines(t *testing.T) {
	var notes bytes.Buffer
	p := &progress{title: "import", notes: &LockedWriter{W: &notes}}
	p.show(progressLines)
	if notes.Len() > 0 {
		t.Errorf("without a measure it shows %q", &notes)
	}
	p.measure = imported
	p.show(2 * time.Second)
	if got := notes.String(); got != "shale: import: 25 %, 6 s left, 5,000,000 entries, 2,500,000 entries/s\n" {
		t.Errorf("it shows %q", got)
	}
}

// On a terminal one line is written again and again, and removed before anything else. It is as wide as the
// terminal is then, and no number is cut.
func TestProgressOnATerminal(t *testing.T) {
	var notes bytes.Buffer
	columns := 100
	p := &progress{title: "import", notes: &LockedWriter{W: &notes}, width: func() int { return columns }}
	p.show(progressAfter - 1)
	for _, c := range []struct {
		columns int
		measure measure
		want    string
	}{
		{100, measure{}, "import: 2 s"},
		{100, imported, "import: 25 %, 6 s left, 5,000,000 entries, 2,500,000 entries/s"},
		{60, imported, "import: 25 %, 6 s left, 5,000,000 entries"},
		{40, imported, "import: 25 %, 6 s left"},
		{0, imported, "import: 25 %, 6 s left, 5,000,000 entries, 2,500,000 entries/s"}, // the width is unknown
		{80, measure{done: func() int64 { return 3 << 20 }, format: base.FormatBytes, part: func() float64 { return 0 }}, "import: 2 s, 3.0 MiB, 1.5 MiB/s"},
	} {
		columns, p.measure = c.columns, c.measure
		notes.Reset()
		p.show(2 * time.Second)
		if got := notes.String(); got != "\r"+c.want+"\x1b[K" {
			t.Errorf("%d columns: it shows %q, want %q", c.columns, got, c.want)
		}
	}
	notes.Reset()
	fmt.Fprintln(p.notes, "a message")
	if got := notes.String(); got != "\r\x1b[Ka message\n" {
		t.Errorf("a message is %q", got)
	}
}

// What a command prints takes the place of its progress.
func TestProgressEndsWithTheAnswer(t *testing.T) {
	var screen bytes.Buffer
	notes := &LockedWriter{W: &screen}
	p := &progress{title: "scan", notes: notes, width: func() int { return 80 }}
	p.show(2 * time.Second)
	fmt.Fprintln(answer{&screen, notes}, "k")
	p.show(3 * time.Second)
	if got := screen.String(); got != "\rscan: 2 s\x1b[K\r\x1b[Kk\n" {
		t.Errorf("on the screen is %q", got)
	}
	notes.restart() // the next command
	if p.show(2 * time.Second); !strings.HasSuffix(screen.String(), "scan: 2 s\x1b[K") {
		t.Errorf("on the screen is %q", &screen)
	}
}
