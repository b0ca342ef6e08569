package main

import (
	"fmt"
	"io"
	"os"
	"time"
)

// A lineProgress shows how far a command has come with its input, on standard
// error, if that is a terminal and standard output is none.
type lineProgress struct {
	w           io.Writer // nil: it shows nothing
	done, total int64     // bytes; total is 0 if nobody knows
	begin, last time.Time
}

func (s *session) newLineProgress() *lineProgress {
	p := &lineProgress{begin: time.Now()}
	if notes, ok := s.notes.w.(*os.File); ok && isTerminal(notes) && !isTerminal(os.Stdout) {
		p.w, p.last = s.notes, p.begin
	}
	if in, ok := s.in.(*os.File); ok {
		if info, err := in.Stat(); err == nil && info.Mode().IsRegular() {
			p.total = info.Size()
		}
	}
	return p
}

// update counts bytes that are done, and shows that now and then.
func (p *lineProgress) update(bytes, lines int) {
	p.done += int64(bytes)
	if p.w == nil || time.Since(p.last) < 200*time.Millisecond {
		return
	}
	p.last = time.Now()
	took := p.last.Sub(p.begin).Seconds()
	text := fmt.Sprintf("%s, %s/s", plural(lines, "line"), number(int(float64(lines)/took)))
	if p.total > 0 {
		left := max(0, took*float64(p.total-p.done)/float64(p.done))
		text = fmt.Sprintf("%3.0f %%, %s, %.0f s left", min(100, 100*float64(p.done)/float64(p.total)), text, left)
	}
	fmt.Fprintf(p.w, "\r%s\x1b[K", text)
}

// clear makes room for what else is said.
func (p *lineProgress) clear() {
	if p.w != nil && p.last != p.begin {
		fmt.Fprint(p.w, "\r\x1b[K")
	}
}

// isTerminal takes a device of characters for a terminal, but for the one that
// output is often thrown into.
func isTerminal(f *os.File) bool {
	if !isCharDevice(f) {
		return false
	}
	info, err := f.Stat()
	if err != nil {
		return false
	}
	null, err := os.Stat(os.DevNull)
	return err != nil || !os.SameFile(info, null)
}
