package command

import (
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/cheggaaa/pb/v3"

	"github.com/shaledb/shale/cmd/shale/internal/output"
)

// A progress shows on standard error how far a command has come, how fast, and how
// long the rest will take: on a terminal as a bar, else in a line now and then. It may be
// read from: then it counts the bytes of its input.
type progress struct {
	in          io.Reader       // nil: who uses it counts
	w           io.Writer       // nil: it shows nothing
	bar         *pb.ProgressBar // nil: it shows a line each time
	done, total int64           // bytes; total 0: nobody knows
	begin, last time.Time
}

// How often it is shown: on a terminal, and in a file or a pipe.
const (
	progressEvery = 200 * time.Millisecond
	progressLines = 30 * time.Second
)

// What a bar shows, with the size of the input and without.
const (
	barTemplate   pb.ProgressBarTemplate = `{{string . "done"}} {{bar . "│" "█" "█" " " "│"}} {{string . "left"}}`
	countTemplate pb.ProgressBarTemplate = `{{string . "done"}}`
)

func (s *Session) newProgress(in io.Reader, total int64) *progress {
	p := &progress{in: in, w: s.Notes, total: total, begin: time.Now()}
	if notes, ok := s.Notes.W.(*os.File); ok && isTerminal(notes) {
		p.bar = newBar(total, output.TerminalWidth(notes))
	}
	p.last = p.begin
	return p
}

// newBar returns a bar that fits into this many columns. It draws nothing by itself.
func newBar(total int64, columns int) *pb.ProgressBar {
	template := barTemplate
	if total == 0 {
		template = countTemplate
	}
	bar := template.New(int(total)).Set(pb.Static, true).Set(pb.Terminal, true)
	if columns > 0 {
		bar.SetWidth(columns - 1) // in the last column some terminals begin a new line
	}
	return bar.Start()
}

// newLineProgress is newProgress for what prints lines of standard input: it shows
// nothing where they are printed to a terminal.
func (s *Session) newLineProgress() *progress {
	total := int64(0)
	if in, ok := s.in.(*os.File); ok {
		if info, err := in.Stat(); err == nil && info.Mode().IsRegular() {
			total = info.Size()
		}
	}
	p := s.newProgress(nil, total)
	if p.bar == nil || isTerminal(os.Stdout) {
		p.w = nil
	}
	return p
}

// Read implements io.Reader.
func (p *progress) Read(b []byte) (int, error) {
	n, err := p.in.Read(b)
	p.done += int64(n)
	return n, err
}

// show shows what is done, now and then: so many things.
func (p *progress) show(n int, things string) {
	every := progressEvery
	if p.bar == nil {
		every = progressLines
	}
	if p.w == nil || time.Since(p.last) < every {
		return
	}
	p.last = time.Now()
	took := p.last.Sub(p.begin)
	if p.bar == nil {
		fmt.Fprintf(p.w, "shale: %s%s\n", speed(n, things, took), p.left(took))
		return
	}
	p.bar.SetCurrent(p.done).Set("done", speed(n, things, took)).Set("left", strings.TrimPrefix(p.left(took), ", "))
	fmt.Fprintf(p.w, "\r%s\x1b[K", p.bar.String())
}

func speed(n int, things string, took time.Duration) string {
	rate := float64(n) / max(took.Seconds(), 1e-9)
	return fmt.Sprintf("%s %s, %s a second", output.Number(n), things, output.Number(int(rate)))
}

// left says which part is done, and how long the rest takes at this speed.
func (p *progress) left(took time.Duration) string {
	if p.total <= 0 || p.done <= 0 {
		return ""
	}
	part := min(1, float64(p.done)/float64(p.total))
	left := time.Duration((1 - part) / part * float64(took)).Round(time.Second)
	return fmt.Sprintf(", %.0f %%, %v left", 100*part, left)
}

// clear makes room for what else is said.
func (p *progress) clear() {
	if p.w != nil && p.bar != nil && p.last != p.begin {
		fmt.Fprint(p.w, "\r\x1b[K")
	}
}

// isTerminal takes a device of characters for a terminal, but for the one that
// output is often thrown into.
func isTerminal(f *os.File) bool {
	return IsCharDevice(f) && !isNull(f)
}
