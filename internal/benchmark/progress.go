package benchmark

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
	rate  bool // tell how many a second
}

func newProgress(what string, total int) *progress {
	p := &progress{what: what, total: total, begin: time.Now(), rate: true}
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
	const width = 30
	full := min(n*width/max(p.total, 1), width)
	passed := time.Since(p.begin)
	left := "" // known after a while
	if n > 0 && passed > 2*time.Second {
		left = ", " + (passed * time.Duration(max(p.total-n, 0)) / time.Duration(n)).Round(time.Second).String() + " left"
	}
	rate := ""
	if perSecond := float64(n) / max(passed.Seconds(), 1e-3); p.rate && perSecond >= 10 {
		rate = fmt.Sprintf(" %d/s", int(perSecond))
	}
	fmt.Fprintf(p.w, "\r%s [%s%s] %3d %%%s%s\x1b[K", p.what, strings.Repeat("█", full), strings.Repeat("░", width-full),
		n*100/max(p.total, 1), rate, left)
}

// done wipes the bar.
func (p *progress) done() {
	if p.w != nil {
		fmt.Fprint(p.w, "\r\x1b[K")
	}
}
