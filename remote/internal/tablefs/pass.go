package tablefs

import (
	"context"

	"github.com/shaledb/shale/remote/internal/bucket"
	"github.com/shaledb/shale/vfs"
)

// How a compaction reads a table: it says so, and has a stream of its own.

// maxHeld bounds the memory of all passes: while they have this many pieces, 128 MiB, a pass fetches none ahead. With the
// piece that it reads and the one before, each has 8 MiB more at most.
const maxHeld = 32

// A pass is a vfs.Stream: a table that one goroutine reads from front to back. It has three pieces at most, of which two are
// ahead of the reader, or one is before it: a window that the reader takes may end within a block, with which the
// next one begins. What it fetches does not go through the cache of pages, where it would replace what is asked often.
type pass struct {
	table  *tableState // only what is constant in it: the table may be closed
	end    int64       // where the reader ends
	pieces []*flight   // neighbours, in the order of the file
	ctx    context.Context
	cancel context.CancelFunc
}

// Stream implements vfs.RemoteFile.
func (f *objectFile) Stream(end int64) vfs.Stream {
	if f.at.Load() == 0 {
		return nil // all of the table is in its tail
	}
	return &pass{table: f.tableState, end: end}
}

// ReadAt implements vfs.Stream.
func (p *pass) ReadAt(b []byte, off int64) (n int, err error) {
	p.end = max(p.end, off+int64(len(b)))
	for n < len(b) {
		at := off + int64(n)
		f := p.pieceAt(at)
		<-f.done
		if f.err != nil {
			return n, bucket.NoEnd(f.err)
		}
		n += copy(b[n:], f.b[at-f.from:])
	}
	return n, nil
}

// pieceAt returns the piece that has an offset. It lets go of those that are not needed any more, and fetches what is to
// come.
func (p *pass) pieceAt(off int64) *flight {
	if n := len(p.pieces); n > 0 && (off < p.pieces[0].from || off > p.pieces[n-1].to) {
		_ = p.Close() // the reader has gone elsewhere
	}
	for len(p.pieces) > 1 && off >= p.pieces[0].to+pieceSize/2 {
		p.drop(1)
	}
	next := off // where the next piece begins
	if n := len(p.pieces); n > 0 {
		next = p.pieces[n-1].to
	}
	for next < p.end && (next <= off || len(p.pieces) <= ahead && p.table.all.held.Load() < maxHeld) {
		p.fetch(next)
		next = p.pieces[len(p.pieces)-1].to
	}
	i := 0
	for off >= p.pieces[i].to {
		i++
	}
	return p.pieces[i]
}

// fetch begins to fetch the piece at an offset.
func (p *pass) fetch(from int64) {
	s := p.table
	if p.cancel == nil {
		p.ctx, p.cancel = context.WithCancel(s.all.ctx)
	}
	f := newPiece(from, p.end, false)
	p.pieces = append(p.pieces, f)
	s.all.held.Add(1)
	s.all.load(p.ctx, s.File, f)
}

// drop lets go of the first n pieces.
func (p *pass) drop(n int) {
	p.table.all.held.Add(int32(-n))
	p.pieces = append(p.pieces[:0], p.pieces[n:]...)
}

// Close implements vfs.Stream.
func (p *pass) Close() error {
	if p.cancel != nil {
		p.cancel()
		p.cancel = nil
		p.drop(len(p.pieces))
	}
	return nil
}
