package benchmark

import (
	"fmt"
	"io"
	"os"
	"strings"
	"time"
)

// A Progress draws a bar on standard error if that is a terminal, else nothing.
type Progress struct {
	w     io.Writer
	what  string // stands before the bar
	total int
	shown time.Time
	begin time.Time
}

// NewProgress returns a bar that is full at total.
func NewProgress(what string, total int) *Progress {
	p := &Progress{what: what, total: total, begin: time.Now()}
	if info, err := os.Stderr.Stat(); err == nil && info.Mode()&os.ModeCharDevice != 0 {
		p.w = os.Stderr
	}
	return p
}

// At draws the bar for n of total, at most ten times a second.
func (p *Progress) At(n int) {
	if p.w == nil || time.Since(p.shown) < 100*time.Millisecond {
		return
	}
	p.shown = time.Now()
	const width = 30
	full := min(n*width/max(p.total, 1), width)
	passed := time.Since(p.begin)
	left := "" // the estimate needs two seconds
	if n > 0 && passed > 2*time.Second {
		left = ", " + (passed * time.Duration(max(p.total-n, 0)) / time.Duration(n)).Round(time.Second).String() + " left"
	}
	fmt.Fprintf(p.w, "\r%s [%s%s] %3d %%%s\x1b[K", p.what, strings.Repeat("█", full), strings.Repeat("░", width-full),
		n*100/max(p.total, 1), left)
}

// Done removes the bar.
func (p *Progress) Done() {
	if p.w != nil {
		fmt.Fprint(p.w, "\r\x1b[K")
	}
}
