package command

import (
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/shaledb/shale/cmd/shale/internal/output"
	"github.com/shaledb/shale/internal/base"
)

// A progress shows on standard error that a command is at work: each command that takes long has one.
// How far it has come it shows once the command has given it a measure.
//
// On a terminal it writes one line again and again, until the command prints something. In a file or
// a pipe it adds a line from time to time, so that a log of a long import stays short, and only if
// there is a measure: that the command has not ended yet is known from the log.
//
// For example:
//
//	import: 24 %, 12 s left, 1,204,000 entries, 310,000 entries/s
type progress struct {
	title   string
	notes   *LockedWriter
	width   func() int // of the terminal; nil: standard error is none
	begin   time.Time
	stop    chan struct{} // is closed by end
	stopped chan struct{} // is closed when nothing is written any more

	mu      sync.Mutex
	measure measure
}

// A measure says how far a command has come. The progress calls its functions on a goroutine of its own.
type measure struct {
	done   func() int64       // how much is done; nil: that is not known
	format func(int64) string // for example as 1,204,000 entries
	part   func() float64     // which part of all is done; nil, 0 or above 1: that is not known
}

// When progress begins to be shown on a terminal, how often there, and how often in a file or a pipe.
const (
	progressAfter = time.Second
	progressEvery = 200 * time.Millisecond
	progressLines = 30 * time.Second
)

// startProgress shows the progress of a command until the returned function is called. A command that
// another one runs, as batch does, is a part of that one, and has no progress of its own.
func (s *Session) startProgress(title string) (end func()) {
	if s.progress != nil || s.Notes == nil {
		return func() {}
	}
	p := &progress{title: title, notes: s.Notes, begin: time.Now(), stop: make(chan struct{}), stopped: make(chan struct{})}
	every := progressLines
	if f, ok := s.Notes.W.(*os.File); ok && isTerminal(f) {
		// A window may be resized meanwhile.
		p.width, every = func() int { return output.TerminalWidth(f) }, progressEvery
	}
	s.Notes.restart()
	s.progress = p
	go p.run(every)
	return func() {
		close(p.stop)
		<-p.stopped
		s.Notes.clear()
		s.progress = nil
	}
}

// measure tells the progress of the command how far it has come.
func (s *Session) measure(m measure) {
	if p := s.progress; p != nil {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.measure = m
	}
}

// partOf returns the part of a measure whose whole is known.
func partOf(done func() int64, total int64) func() float64 {
	return func() float64 { return float64(done()) / float64(max(total, 1)) }
}

// run shows p from time to time.
func (p *progress) run(every time.Duration) {
	defer close(p.stopped)
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		select {
		case <-p.stop:
			return
		case <-tick.C:
			p.show(time.Since(p.begin))
		}
	}
}

// show shows how far the command has come in the time that it took.
func (p *progress) show(took time.Duration) {
	p.mu.Lock()
	m := p.measure
	p.mu.Unlock()
	switch {
	case p.width != nil && took < progressAfter:
	case p.width != nil:
		p.notes.status(fit(m.parts(p.title, took), p.width()-1)) // a full line would move the cursor to the next one
	case m.done != nil:
		fmt.Fprintf(p.notes, "shale: %s\n", strings.Join(m.parts(p.title, took), ", "))
	}
}

// parts returns the line in parts, the most important first.
//
// What is left is estimated as if the rest were like what was done so far.
func (m measure) parts(title string, took time.Duration) []string {
	first := title + ": " + base.FormatDuration(took.Round(time.Second))
	if m.done == nil {
		return []string{first}
	}
	n := m.done()
	rate := m.format(int64(float64(n)/max(took.Seconds(), 1e-9))) + "/s"
	if m.part != nil {
		if part := m.part(); part > 0 && part <= 1 { // above 1 the whole was larger than expected
			left := time.Duration((1 - part) / part * float64(took)).Round(time.Second)
			return []string{fmt.Sprintf("%s: %.0f %%", title, 100*part), base.FormatDuration(left) + " left", m.format(n), rate}
		}
	}
	return []string{first, m.format(n), rate}
}

// fit joins as many parts as a line of this width has room for. So no number is cut.
func fit(parts []string, width int) string {
	line := parts[0]
	for _, part := range parts[1:] {
		if width > 0 && len(line)+len(", ")+len(part) > width {
			break
		}
		line += ", " + part
	}
	return line
}

// isTerminal reports whether f is a character device, which is taken for a terminal, and not the
// null device.
func isTerminal(f *os.File) bool {
	return IsCharDevice(f) && !isNull(f)
}

// A LockedWriter is a writer for several goroutines. Commands, their progress and the background work
// of the store print their messages to the same place.
//
// On a terminal it may show a status, which is a line that the next message or status replaces. W is
// constant.
type LockedWriter struct {
	mu      sync.Mutex
	W       io.Writer
	shown   bool // a status is on the terminal
	printed bool // a status would stand in the midst of what the command has printed, or of what the user types
}

// Write implements io.Writer.
func (w *LockedWriter) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.clearLocked()
	return w.W.Write(p)
}

// status shows a line, unless the command has printed something.
func (w *LockedWriter) status(text string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.printed {
		w.shown = true
		fmt.Fprintf(w.W, "\r%s\x1b[K", text) // the sequence erases what an earlier, longer text has left
	}
}

// clear removes the status, and restart allows one again, for the next command.
func (w *LockedWriter) clear() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.clearLocked()
}

func (w *LockedWriter) clearLocked() {
	if w.shown {
		fmt.Fprint(w.W, "\r\x1b[K")
	}
	w.shown = false
}

func (w *LockedWriter) restart() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.printed = false
}

// silence removes the status, and lets the command show none any more.
func (w *LockedWriter) silence() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.clearLocked()
	w.printed = true
}

// An answer is the standard output of a session. The first write of a command ends its status, since both
// may be on one terminal.
type answer struct {
	w     io.Writer
	notes *LockedWriter
}

// Write implements io.Writer. The lock is not held while it writes, which may take as long as the
// reader wants: messages of the store go on meanwhile.
func (a answer) Write(p []byte) (int, error) {
	a.notes.silence()
	return a.w.Write(p)
}
