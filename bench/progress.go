package main

import (
	"fmt"
	"io"
	"os"
	"strings"
	"time"
)

// A progress is a bar on a terminal; elsewhere it prints nothing.
type progress struct {
	w     io.Writer
	what  string
	total int
	shown time.Time
	begin time.Time
}

func newProgress(what string, total int) *progress {
	p := &progress{what: what, total: total, begin: time.Now()}
	if info, err := os.Stderr.Stat(); err == nil && info.Mode()&os.ModeCharDevice != 0 {
		p.w = os.Stderr
	}
	return p
}

// at draws the bar, ten times a second at most.
func (p *progress) at(n int) {
	if p.w == nil || time.Since(p.shown) < 100*time.Millisecond {
		return
	}
	p.shown = time.Now()
	const width = 40
	full := n * width / max(p.total, 1)
	fmt.Fprintf(p.w, "\r%s [%s%s] %3d %% %d/s ", p.what, strings.Repeat("█", full), strings.Repeat("░", width-full),
		n*100/max(p.total, 1), int(float64(n)/max(time.Since(p.begin).Seconds(), 1e-3)))
}

// done wipes the bar.
func (p *progress) done() {
	if p.w != nil {
		fmt.Fprintf(p.w, "\r%s\r", strings.Repeat(" ", 100))
	}
}
