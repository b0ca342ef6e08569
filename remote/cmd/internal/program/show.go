package program

import (
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/cheggaaa/pb/v3"
	"github.com/cheggaaa/pb/v3/termutil"
	"github.com/dustin/go-humanize"
	"github.com/dustin/go-humanize/english"

	"github.com/shaledb/shale/internal/base"
)

// How a command shows people how far it is, on standard error, and how it writes numbers and times
// for them.

// How often something is shown on a terminal, and in a file or a pipe.
const (
	showEvery  = 200 * time.Millisecond
	linesEvery = 30 * time.Second
)

// barTemplate is the text of a bar.
const barTemplate pb.ProgressBarTemplate = `{{string . "done"}} {{bar . "│" "█" "█" " " "│"}} {{string . "left"}}`

// A display shows on standard error how far a command has come. On a terminal it draws one line again and again;
// otherwise it prints a line from time to time.
type display struct {
	w           io.Writer
	terminal    bool
	begin, last time.Time
	drawn       bool
	now         func() time.Time
	width       func() int // of the terminal
}

// newDisplay returns a display of the command, which has shown nothing yet.
func (c *call) newDisplay() *display {
	width := func() int {
		n, err := termutil.TerminalWidth()
		if err != nil || n < 20 {
			return 80
		}
		return n
	}
	return &display{w: c.env.Err, terminal: c.env.Terminal, begin: time.Now(), last: time.Now(), now: time.Now, width: width}
}

// due reports whether something is to be shown again.
// A caller asks before it makes the text, which may take a lock of the store.
func (d *display) due() bool {
	every := linesEvery
	if d.terminal {
		every = showEvery
	}
	return d.now().Sub(d.last) >= every
}

// line shows a text.
func (d *display) line(text string) {
	d.last = d.now()
	if !d.terminal {
		fmt.Fprintf(d.w, "shale-remote: %s\n", text)
		return
	}
	if most := d.width() - 1; len([]rune(text)) > most { // some terminals begin a new line at the last column
		text = string([]rune(text)[:most-1]) + "…"
	}
	// The cursor goes to the first column, and what is left of a longer line before is cleared.
	fmt.Fprintf(d.w, "\r%s\x1b[K", text)
	d.drawn = true
}

// bytes shows that a part of some bytes is done: a bar, with the speed and the time that the rest will take.
func (d *display) bytes(done, total int64) {
	if !d.due() {
		return
	}
	took := d.now().Sub(d.begin)
	rate := float64(done) / max(took.Seconds(), 1e-9)
	text := fmt.Sprintf("%s of %s, %s/s", base.FormatBytes(done), base.FormatBytes(total), base.FormatBytes(int64(rate)))
	left := ""
	if done > 0 && total > 0 {
		rest := time.Duration(float64(total-done) / rate * float64(time.Second)).Round(time.Second)
		left = fmt.Sprintf("%.0f %%, %v left", 100*float64(done)/float64(total), rest)
	}
	if !d.terminal {
		d.line(strings.TrimSuffix(text+", "+left, ", "))
		return
	}
	bar := barTemplate.New(0).Set(pb.Static, true).Set(pb.Terminal, true).SetWidth(d.width() - 1)
	bar.SetTotal(total).SetCurrent(done).Set("done", text).Set("left", left)
	d.line(strings.TrimRight(bar.Start().String(), " "))
}

// clear removes what was drawn, so that other text can be printed.
func (d *display) clear() {
	if d.drawn {
		fmt.Fprint(d.w, "\r\x1b[K")
		d.drawn = false
	}
}

// plural returns a number with a noun.
func plural[N ~int | ~int64 | ~uint64](n N, noun string) string {
	return humanize.Comma(int64(n)) + " " + english.PluralWord(int(n), noun, "")
}

// clock returns a time for people, in their zone and exact to a second.
func clock(t time.Time) string { return t.Local().Format("2006-01-02 15:04:05 MST") }

// ago returns how long ago something was, exact enough for people.
func ago(d time.Duration) string {
	switch {
	case d < 10*time.Second:
		return d.Round(100 * time.Millisecond).String()
	case d < time.Hour:
		return d.Round(time.Second).String()
	}
	return d.Round(time.Minute).String()
}
