package program

import (
	"bytes"
	"strings"
	"testing"
	"time"
)

// TestDisplay_Bar draws a bar on a terminal, from time to time, that fits into its width.
func TestDisplay_Bar(t *testing.T) {
	var out bytes.Buffer
	now := time.Unix(1000, 0)
	d := &display{w: &out, terminal: true, begin: now, last: now, now: func() time.Time { return now }, width: func() int { return 80 }}
	d.bytes(1<<20, 100<<20)
	if out.Len() > 0 {
		t.Errorf("it draws at once: %q", &out)
	}
	now = now.Add(time.Second)
	d.bytes(50<<20, 100<<20)
	d.bytes(51<<20, 100<<20)
	d.clear()
	text := out.String()
	if strings.Count(text, "\r") != 2 || !strings.Contains(text, "50.0 MiB of 100.0 MiB, 50.0 MiB/s") || !strings.Contains(text, "50 %, 1s left") || !strings.HasSuffix(text, "\r\x1b[K") {
		t.Errorf("%q", text)
	}
	if n := len([]rune(strings.Split(strings.Trim(text, "\r"), "\x1b")[0])); n > 79 {
		t.Errorf("%d columns: %q", n, text)
	}
	if !strings.Contains(text, "█") {
		t.Errorf("no bar: %q", text)
	}
}

// TestDisplay_Lines prints whole lines where there is no terminal, and long ones are cut on a terminal.
func TestDisplay_Lines(t *testing.T) {
	var out bytes.Buffer
	now := time.Unix(1000, 0)
	d := &display{w: &out, begin: now, last: now, now: func() time.Time { return now }, width: func() int { return 20 }}
	now = now.Add(31 * time.Second)
	d.bytes(0, 100)
	d.clear()
	if got := out.String(); got != "shale-remote: 0 B of 100 B, 0 B/s\n" {
		t.Errorf("%q", got)
	}
	out.Reset()
	d.terminal = true
	d.line(strings.Repeat("x", 50))
	if got := out.String(); got != "\r"+strings.Repeat("x", 18)+"…\x1b[K" {
		t.Errorf("%q", got)
	}
}

func TestPlural(t *testing.T) {
	if plural(1, "step") != "1 step" || plural(uint64(1200), "step") != "1,200 steps" {
		t.Error("wrong plurals")
	}
}
