package main

import (
	"fmt"
	"io"
	"os"
	"time"
)

// A byteProgress is a reader that shows on standard error, if that is a terminal,
// how far it has come, how fast, and how long the rest will take.
type byteProgress struct {
	in          io.Reader
	w           io.Writer // nil: it shows nothing
	done, total int64     // total 0: nobody knows
	begin, last time.Time
}

// progressEvery is how often it is shown.
const progressEvery = 200 * time.Millisecond

func (s *session) newByteProgress(in io.Reader, total int64) *byteProgress {
	p := &byteProgress{in: in, total: total, begin: time.Now()}
	if notes, ok := s.notes.w.(*os.File); ok && isCharDevice(notes) {
		p.w, p.last = s.notes, p.begin
	}
	return p
}

// Read implements io.Reader.
func (p *byteProgress) Read(b []byte) (int, error) {
	n, err := p.in.Read(b)
	p.done += int64(n)
	return n, err
}

// show shows what is done, now and then: so many things.
func (p *byteProgress) show(n int, things string) {
	if p.w == nil || time.Since(p.last) < progressEvery {
		return
	}
	p.last = time.Now()
	fmt.Fprintf(p.w, "\r%s\x1b[K", p.text(n, things, p.last.Sub(p.begin)))
}

func (p *byteProgress) text(n int, things string, took time.Duration) string {
	rate := float64(n) / max(took.Seconds(), 1e-9)
	text := fmt.Sprintf("%s %s, %s a second", number(n), things, number(int(rate)))
	if p.total > 0 && p.done > 0 {
		part := min(1, float64(p.done)/float64(p.total))
		left := time.Duration((1 - part) / part * float64(took)).Round(time.Second)
		text += fmt.Sprintf(", %.0f %%, %v left", 100*part, left)
	}
	return text
}

// clear makes room for what else is said.
func (p *byteProgress) clear() {
	if p.w != nil && p.last != p.begin {
		fmt.Fprint(p.w, "\r\x1b[K")
	}
}
