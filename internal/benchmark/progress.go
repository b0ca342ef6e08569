package benchmark

import (
	"fmt"
	"io"
	"os"
	"strings"
	"time"
)

// A Progress is a bar on a terminal; elsewhere it prints nothing.
type Progress struct {
	w     io.Writer
	What  string
	total int
	shown time.Time
	begin time.Time
	Rate  bool // tell how many a second
}

func NewProgress(what string, total int) *Progress {
	p := &Progress{What: what, total: total, begin: time.Now(), Rate: true}
	if info, err := os.Stderr.Stat(); err == nil && info.Mode()&os.ModeCharDevice != 0 {
		p.w = os.Stderr
	}
	return p
}

// At draws the bar, ten times a second at most.
func (p *Progress) At(n int) {
	if p.w == nil || time.Since(p.shown) < 100*time.Millisecond {
		return
	}
	p.shown = time.Now()
	const width = 30
	full := min(n*width/max(p.total, 1), width)
	passed := time.Since(p.begin)
	left := "" // known after a while
	if n > 0 && passed > 2*time.Second {
		left = ", " + (passed * time.Duration(max(p.total-n, 0)) / time.Duration(n)).Round(time.Second).String() + " left"
	}
	rate := ""
	if perSecond := float64(n) / max(passed.Seconds(), 1e-3); p.Rate && perSecond >= 10 {
		rate = fmt.Sprintf(" %d/s", int(perSecond))
	}
	fmt.Fprintf(p.w, "\r%s [%s%s] %3d %%%s%s\x1b[K", p.What, strings.Repeat("█", full), strings.Repeat("░", width-full),
		n*100/max(p.total, 1), rate, left)
}

// Done wipes the bar.
func (p *Progress) Done() {
	if p.w != nil {
		fmt.Fprint(p.w, "\r\x1b[K")
	}
}
