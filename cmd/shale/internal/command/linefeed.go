package command

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"sync/atomic"

	"github.com/shaledb/shale/internal/base"
)

// A lineBatch is a number of lines that are handled together.
type lineBatch struct {
	data []byte   // lines, each with the \n at its end
	ends []uint32 // for each line, its end in data, after the \n
}

func (b *lineBatch) len() int { return len(b.ends) }

// line returns line i as it was read, with its \n.
func (b *lineBatch) line(i int) []byte {
	from := uint32(0)
	if i > 0 {
		from = b.ends[i-1]
	}
	return b.data[from:b.ends[i]]
}

// text returns line i without the \n or \r\n at its end.
func (b *lineBatch) text(i int) []byte {
	line := b.line(i)
	line = line[:len(line)-1]
	if n := len(line); n > 0 && line[n-1] == '\r' {
		line = line[:n-1]
	}
	return line
}

func (b *lineBatch) reset() { b.data, b.ends = b.data[:0], b.ends[:0] }

// add appends whole lines.
func (b *lineBatch) add(lines []byte) {
	at := len(b.data)
	b.data = append(b.data, lines...)
	for at < len(b.data) {
		at += bytes.IndexByte(b.data[at:], '\n') + 1
		b.ends = append(b.ends, uint32(at))
	}
}

// feedLimits are limits for the memory of a lineFeed.
type feedLimits struct {
	bytes, lines int  // largest batch; one read may exceed it
	line         int  // longest line, in bytes
	skip         bool // skip longer lines; otherwise they are an error
}

// batch returns an empty batch with all the memory that it may need. So it never grows, which
// would leave garbage. The system provides the memory only when it is used.
func (l feedLimits) batch() lineBatch {
	return lineBatch{data: make([]byte, 0, l.bytes+feedRead), ends: make([]uint32, 0, l.lines+feedRead)}
}

// A lineFeed reads lines ahead. A batch has the lines that came since the last batch was
// taken, up to the limits. So lines that come slowly are handled at once, and the lines of a
// file in large batches.
type lineFeed struct {
	limits feedLimits

	mu      sync.Mutex
	changed sync.Cond // with mu
	filling lineBatch
	err     error // why reading ended

	skipped atomic.Int64 // lines skipped
}

var errLongLine = errors.New("a line is longer")

// feedRead is the number of bytes of one read.
const feedRead = 64 << 10

// feedLines begins to read lines from r, and stops when ctx is done. If the last line has no
// \n, it adds one.
func feedLines(ctx context.Context, r io.Reader, limits feedLimits) *lineFeed {
	f := &lineFeed{limits: limits, filling: limits.batch()}
	f.changed.L = &f.mu
	context.AfterFunc(ctx, func() { f.end(ctx.Err()) })
	go func() { f.end(f.readAll(untilDone(ctx, r))) }()
	return f
}

// end tells next that no more lines come, and why. Only the first reason counts.
func (f *lineFeed) end(err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.err == nil {
		f.err = err
	}
	f.changed.Broadcast()
}

// readAll hands over all lines of r. It returns why it ended, which is never nil.
func (f *lineFeed) readAll(r io.Reader) error {
	buf := make([]byte, feedRead)
	var begun []byte  // a line whose end was not read yet
	skipping := false // whether this line is skipped
	for {
		n, err := r.Read(buf)
		rest := buf[:n]
		if i := bytes.IndexByte(rest, '\n'); skipping && i >= 0 {
			rest, skipping = rest[i+1:], false
		} else if skipping {
			rest = nil
		}
		if last := bytes.LastIndexByte(rest, '\n') + 1; last > 0 {
			if !f.hand(begun, rest[:last]) {
				return io.EOF // next returns the real reason
			}
			begun, rest = begun[:0], rest[last:]
		}
		begun = append(begun, rest...)
		if len(begun) > f.limits.line && f.limits.skip {
			begun, skipping = begun[:0], true
			f.skipped.Add(1)
		}
		if len(begun) > f.limits.line {
			return fmt.Errorf("%w than %s", errLongLine, base.FormatBytes(int64(f.limits.line)))
		}
		switch {
		case errors.Is(err, io.EOF) && len(begun) > 0:
			f.hand(begun, []byte("\n"))
			return err
		case err != nil:
			return err
		}
	}
}

// hand waits until the current batch has room, and adds begun and lines to it. begun is the
// beginning of the first line. It returns false if reading was stopped.
func (f *lineFeed) hand(begun, lines []byte) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	b := &f.filling
	for f.err == nil && b.len() > 0 && (len(b.data)+len(begun)+len(lines) > f.limits.bytes || b.len() >= f.limits.lines) {
		f.changed.Wait()
	}
	if f.err != nil {
		return false
	}
	if len(begun) > 0 {
		first := bytes.IndexByte(lines, '\n') + 1
		b.data = append(append(b.data, begun...), lines[:first]...)
		b.ends = append(b.ends, uint32(len(b.data)))
		lines = lines[first:]
	}
	b.add(lines)
	f.changed.Broadcast()
	return true
}

// next waits for lines and puts them into b. It reuses the memory of b for the next batch.
// After the last line it returns io.EOF. When ctx is done it returns the error of ctx, even if
// there are lines.
func (f *lineFeed) next(ctx context.Context, b *lineBatch) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	for f.err == nil && f.filling.len() == 0 {
		f.changed.Wait()
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	if f.filling.len() == 0 {
		return f.err
	}
	b.reset()
	*b, f.filling = f.filling, *b
	f.changed.Broadcast()
	return nil
}

// checkLines returns an error if c can't read lines from standard input.
func (s *Session) checkLines(c *Command) error {
	if s.in == nil {
		return fmt.Errorf("%s reads lines from standard input, but the commands come from there, too", c.Title)
	}
	return checkInput(s.in)
}

// A lineWriter writes whole lines, many at a time. So a process that is killed between two
// writes leaves no part of a line.
type lineWriter struct {
	out *bufio.Writer
	buf []byte
}

// lineWrite is the approximate number of bytes of one write.
const lineWrite = 64 << 10

func (w *lineWriter) add(line []byte) error {
	if w.buf = append(w.buf, line...); len(w.buf) < lineWrite {
		return nil
	}
	return w.flush()
}

// flush writes everything, with one system call unless out had buffered bytes.
func (w *lineWriter) flush() error {
	_, err := w.out.Write(w.buf)
	if w.buf = w.buf[:0]; err != nil {
		return err
	}
	return w.out.Flush()
}
