package command

import (
	"fmt"
	"io"
	"os"
	"time"

	"github.com/shaledb/shale/cmd/shale/internal/output"
)

// A progress shows on standard error how far a command has come, how fast, and how
// long the rest will take: on a terminal in one line, else in a line now and then. It may be read from: then it
// counts the bytes of its input.
type progress struct {
	in          io.Reader // nil: who uses it counts
	w           io.Writer // nil: it shows nothing
	lines       bool      // it shows a line each time, and does not write over it
	done, total int64     // bytes; total 0: nobody knows
	begin, last time.Time
}

// How often it is shown: on a terminal, and in a file or a pipe.
const (
	progressEvery = 200 * time.Millisecond
	progressLines = 30 * time.Second
)

func (s *Session) newProgress(in io.Reader, total int64) *progress {
	p := &progress{in: in, w: s.Notes, lines: true, total: total, begin: time.Now()}
	if notes, ok := s.Notes.W.(*os.File); ok && isTerminal(notes) {
		p.lines = false
	}
	p.last = p.begin
	return p
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
	if p.lines || isTerminal(os.Stdout) {
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
	if p.lines {
		every = progressLines
	}
	if p.w == nil || time.Since(p.last) < every {
		return
	}
	p.last = time.Now()
	if p.lines {
		fmt.Fprintf(p.w, "shale: %s\n", p.text(n, things, p.last.Sub(p.begin)))
		return
	}
	fmt.Fprintf(p.w, "\r%s\x1b[K", p.text(n, things, p.last.Sub(p.begin)))
}

func (p *progress) text(n int, things string, took time.Duration) string {
	rate := float64(n) / max(took.Seconds(), 1e-9)
	text := fmt.Sprintf("%s %s, %s a second", output.Number(n), things, output.Number(int(rate)))
	if p.total > 0 && p.done > 0 {
		part := min(1, float64(p.done)/float64(p.total))
		left := time.Duration((1 - part) / part * float64(took)).Round(time.Second)
		text += fmt.Sprintf(", %.0f %%, %v left", 100*part, left)
	}
	return text
}

// clear makes room for what else is said.
func (p *progress) clear() {
	if p.w != nil && !p.lines && p.last != p.begin {
		fmt.Fprint(p.w, "\r\x1b[K")
	}
}

// isTerminal takes a device of characters for a terminal, but for the one that
// output is often thrown into.
func isTerminal(f *os.File) bool {
	return IsCharDevice(f) && !isNull(f)
}
