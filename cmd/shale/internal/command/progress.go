package command

import (
	"fmt"
	"io"
	"os"
	"time"

	"github.com/shaledb/shale/cmd/shale/internal/output"
)

// A progress shows on standard error how much a command has done, how fast it is, and how long
// the rest will take. It is also a reader of the command's input, and counts the bytes: from them
// it knows which part is done, because the number of entries is known only at the end.
//
// On a terminal it writes one line again and again. In a file or a pipe it adds a line from time to
// time, so that a log of a long import stays short.
type progress struct {
	in          io.Reader // nil: the user of the progress counts
	w           io.Writer
	terminal    bool
	done, total int64 // in bytes; total is 0 if it is unknown
	begin, last time.Time
}

// How often progress is shown on a terminal, and in a file or a pipe.
const (
	progressEvery = 200 * time.Millisecond
	progressLines = 30 * time.Second
)

// newProgress begins to measure. in is the input, and total its size in bytes, or 0.
func (s *Session) newProgress(in io.Reader, total int64) *progress {
	p := &progress{in: in, w: s.Notes, total: total, begin: time.Now()}
	p.last = p.begin
	notes, ok := s.Notes.W.(*os.File)
	p.terminal = ok && isTerminal(notes)
	return p
}

// Read implements io.Reader.
func (p *progress) Read(b []byte) (int, error) {
	n, err := p.in.Read(b)
	p.done += int64(n)
	return n, err
}

// show shows that n things are done. It does so only from time to time.
//
// For example:
//
//	1,204,000 entries, 310,000 a second, 24 %, 12s left
func (p *progress) show(n int, things string) {
	every := progressEvery
	if !p.terminal {
		every = progressLines
	}
	if time.Since(p.last) < every {
		return
	}
	p.last = time.Now()
	took := p.last.Sub(p.begin)
	rate := float64(n) / max(took.Seconds(), 1e-9)
	text := fmt.Sprintf("%s %s, %s a second%s", output.Number(n), things, output.Number(int(rate)), p.left(took))
	if p.terminal {
		fmt.Fprintf(p.w, "\r%s\x1b[K", text) // the sequence erases what an earlier, longer text has left
	} else {
		fmt.Fprintf(p.w, "shale: %s\n", text)
	}
}

// left returns which part is done, and how long the rest will take at this speed.
//
// It assumes that the rest is like what was read so far, which is true for most files.
func (p *progress) left(took time.Duration) string {
	if p.total <= 0 || p.done <= 0 {
		return ""
	}
	part := min(1, float64(p.done)/float64(p.total))
	left := time.Duration((1 - part) / part * float64(took)).Round(time.Second)
	return fmt.Sprintf(", %.0f %%, %v left", 100*part, left)
}

// clear removes the line from a terminal, so that other text can be printed.
func (p *progress) clear() {
	if p.terminal && p.last != p.begin {
		fmt.Fprint(p.w, "\r\x1b[K")
	}
}

// isTerminal reports whether f is a character device, which is taken for a terminal, and not the
// null device.
func isTerminal(f *os.File) bool {
	return IsCharDevice(f) && !isNull(f)
}
