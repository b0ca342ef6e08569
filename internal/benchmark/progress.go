package benchmark

import (
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/shaledb/shale/internal/base"
)

// A Progress draws a bar on standard error if that is a terminal, else nothing.
type Progress struct {
	w     io.Writer
	what  string // stands before the bar
	total int    // 0: it is unknown, and there is no bar
	shown time.Time
	begin time.Time
}

// NewProgress shows a bar that is full at total.
func NewProgress(what string, total int) *Progress {
	p := &Progress{what: what, total: total, begin: time.Now()}
	if info, err := os.Stderr.Stat(); err == nil && info.Mode()&os.ModeCharDevice != 0 {
		p.w = os.Stderr
	}
	p.At(0) // the first step may take long
	return p
}

// At draws the bar for n of total, at most ten times a second.
func (p *Progress) At(n int) {
	if p.w == nil || time.Since(p.shown) < 100*time.Millisecond {
		return
	}
	p.shown = time.Now()
	if p.total == 0 {
		fmt.Fprintf(p.w, "\r%s\x1b[K", p.what)
		return
	}
	const width = 30
	full := min(n*width/max(p.total, 1), width)
	passed := time.Since(p.begin)
	left := "" // the estimate needs two seconds
	if n > 0 && passed > 2*time.Second {
		left = ", " + base.FormatDuration((passed * time.Duration(max(p.total-n, 0)) / time.Duration(n)).Round(time.Second)) + " left"
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
