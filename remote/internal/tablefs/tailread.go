package tablefs

import (
	"cmp"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/shaledb/shale/remote/internal/bucket"
	"github.com/shaledb/shale/vfs"
)

// How bytes of a tail are read from its file: by chunks, and checked each time.

// errBadTail says that the file of a tail has other bytes than were written to it.
var errBadTail = errors.New("the local copy of the tail is damaged")

// open opens the file of a tail, which is not in memory.
func (t *tailCache) open(l *tail) (vfs.File, error) {
	file, err := t.fs.Open(t.path(l.file.fileID))
	if err != nil {
		return nil, l.damaged(err)
	}
	return file, nil
}

// damaged marks the tail as bad: it must be got again.
func (l *tail) damaged(err error) error {
	l.rotten.Store(true)
	l.bad.Store(true)
	return fmt.Errorf("%w: %w", errBadTail, err)
}

// chunkBuffers has memory for small reads.
var chunkBuffers = sync.Pool{New: func() any { return new([2 * tailChunk]byte) }}

// readAt fills p from an offset of the object, at or after the beginning of the tail, by way of the whole chunks around,
// whose checksums it checks. file is that of the tail. After errBadTail the tail must be got again.
func (l *tail) readAt(file vfs.File, p []byte, off int64) error {
	off -= l.at
	from := off / tailChunk * tailChunk
	to := min(chunks(off+int64(len(p)))*tailChunk, l.file.Size-l.at)
	buf := chunkBuffers.Get().(*[2 * tailChunk]byte)
	defer chunkBuffers.Put(buf)
	b := buf[:min(to-from, int64(len(buf)))]
	if int64(len(b)) < to-from {
		b = make([]byte, to-from)
	}
	if n, err := file.ReadAt(b, tailHeaderSize(l.file.Size-l.at)+from); n < len(b) {
		return l.damaged(err)
	}
	for at := int64(0); at < to-from; at += tailChunk {
		i := (from + at) / tailChunk
		if sum := bucket.Checksum(b[at:min(at+tailChunk, to-from)]); sum != l.sums[i] {
			return l.damaged(fmt.Errorf("chunk %d has checksum %08x, want %08x", i, sum, l.sums[i]))
		}
	}
	copy(p, b[off-from:])
	return nil
}

// A tailFile has the file of a table's tail open, for as long as the table is: a lookup may read only some bytes of it.
type tailFile struct {
	now atomic.Pointer[openTail] // nil: nothing was read so far

	mu  sync.Mutex // protects the following field; not held during reads
	all []vfs.File // what was opened; several if several goroutines were first, or if the tail was damaged and got again
}

// An openTail is a tail and its file.
type openTail struct {
	of   *tail
	file vfs.File
}

// readAt fills p from an offset of the object, at or after the beginning of tail l.
func (f *tailFile) readAt(t *tailCache, l *tail, p []byte, off int64) error {
	if l.memory != nil {
		copy(p, l.memory[off-l.at:])
		return nil
	}
	now := f.now.Load()
	if now == nil || now.of != l.copy {
		file, err := t.open(l)
		if err != nil {
			return err
		}
		now = f.keep(&openTail{l.copy, file})
	}
	return l.readAt(now.file, p, off)
}

// keep makes t what reads use, unless another goroutine was faster, and returns what they use.
func (f *tailFile) keep(t *openTail) *openTail {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.all = append(f.all, t.file)
	if now := f.now.Load(); now != nil && now.of == t.of {
		return now
	}
	f.now.Store(t)
	return t
}

// close closes what was opened. Requires: no read is under way.
func (f *tailFile) close() (err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, file := range f.all {
		err = cmp.Or(err, file.Close())
	}
	f.all = nil
	return err
}
