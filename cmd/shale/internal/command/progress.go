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

// A progress shows on standard error how much a command has done, how fast it is, and how long
// the rest will take. On a terminal it draws a bar; otherwise it prints a line from time to
// time. It is also a reader of the command's input, and counts the bytes.
type progress struct {
	in          io.Reader // nil: the user of the progress counts
	w           io.Writer
	bar         *pb.ProgressBar // nil: it shows a line each time
	done, total int64           // in bytes; total is 0 if it is unknown
	begin, last time.Time
}

// How often progress is shown on a terminal, and in a file or a pipe.
const (
	progressEvery = 200 * time.Millisecond
	progressLines = 30 * time.Second
)

// The texts of a bar, for inputs of known and of unknown size.
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

// newBar returns a bar that fits into this many columns. It draws only when it is told to.
func newBar(total int64, columns int) *pb.ProgressBar {
	template := barTemplate
	if total == 0 {
		template = countTemplate
	}
	bar := template.New(int(total)).Set(pb.Static, true).Set(pb.Terminal, true)
	if columns > 0 {
		bar.SetWidth(columns - 1) // some terminals begin a new line at the last column
	}
	return bar.Start()
}

// Read implements io.Reader.
func (p *progress) Read(b []byte) (int, error) {
	n, err := p.in.Read(b)
	p.done += int64(n)
	return n, err
}

// show shows that n things are done. It does so only from time to time.
func (p *progress) show(n int, things string) {
	every := progressEvery
	if p.bar == nil {
		every = progressLines
	}
	if time.Since(p.last) < every {
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

// left returns which part is done, and how long the rest will take at this speed.
func (p *progress) left(took time.Duration) string {
	if p.total <= 0 || p.done <= 0 {
		return ""
	}
	part := min(1, float64(p.done)/float64(p.total))
	left := time.Duration((1 - part) / part * float64(took)).Round(time.Second)
	return fmt.Sprintf(", %.0f %%, %v left", 100*part, left)
}

// clear removes the bar, so that other text can be printed.
func (p *progress) clear() {
	if p.bar != nil && p.last != p.begin {
		fmt.Fprint(p.w, "\r\x1b[K")
	}
}

// isTerminal reports whether f is a character device, which is taken for a terminal, and not the
// null device.
func isTerminal(f *os.File) bool {
	return IsCharDevice(f) && !isNull(f)
}
