package tablefs

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"sync"
	"sync/atomic"

	"github.com/shaledb/shale/internal/base"
	"github.com/shaledb/shale/manifest"
	"github.com/shaledb/shale/remote/internal/bucket"
	"github.com/shaledb/shale/remote/internal/object"
	"github.com/shaledb/shale/vfs"
)

// A file system whose tables are objects. The store below a Reader opens and reads them like local
// files, and does not know that a read may be a request.

// A FS is a file system whose tables and sidecars are in a bucket, as far as the file system under it
// does not have them. All other files are those of the file system under it.
type FS struct {
	vfs.FS
	Tables *Tables
}

// LockShared implements vfs.SharedLocker.
// Locks are those of the file system under it: objects have none.
func (t *FS) LockShared(name string) (io.Closer, error) {
	if l, ok := t.FS.(vfs.SharedLocker); ok {
		return l.LockShared(name)
	}
	return nil, vfs.ErrUnsupported
}

// objectOf returns which object a file is. ok is false if it is none.
// The directory does not matter: a store has its tables in one.
func objectOf(name string) (_ object.Name, ok bool) {
	kind, num, ok := base.ParseFileName(filepath.Base(name))
	switch {
	case ok && kind == base.FileTable:
		return object.Name{Kind: object.KindTable, Num: uint64(num)}, true
	case ok && kind == base.FileFilter:
		return object.Name{Kind: object.KindFilter, Num: uint64(num)}, true
	}
	return object.Name{}, false
}

// ErrorName returns the name of the object that a file is, which is its name in errors, or "".
func (t *FS) ErrorName(name string) string {
	if o, ok := objectOf(name); ok {
		return o.String()
	}
	return ""
}

// Lost reports whether the store is to open the table without its object: see Tables.lost.
func (t *FS) Lost(name string) bool {
	o, ok := objectOf(name)
	return ok && t.Tables.isLost(o)
}

// Open opens the local file, or else the published object. The file system of a Reader is in memory
// and has no tables.
func (t *FS) Open(name string) (vfs.File, error) {
	o, ok := objectOf(name)
	if ok {
		if file, err := t.Tables.openAway(o); file != nil || err != nil {
			return file, err
		}
	}
	file, err := t.FS.Open(name)
	if ok && errors.Is(err, fs.ErrNotExist) {
		return t.Tables.open(name, o)
	}
	return file, err
}

// Stat describes the local file, or else the published object.
// Of an object it knows the size only, which is all that a store asks of its tables.
func (t *FS) Stat(name string) (vfs.FileInfo, error) {
	info, err := t.FS.Stat(name)
	if err == nil || !errors.Is(err, fs.ErrNotExist) {
		return info, err
	}
	if o, ok := objectOf(name); ok {
		if f, there := t.Tables.find(o); there {
			return vfs.FileInfo{Size: f.Size}, nil
		}
	}
	return info, err
}

// A Tables reads the tables and sidecars of a store from its bucket, by way of tails and a cache of
// pages. Any number of goroutines may use it.
//
// A read of a table takes these steps:
//
//  1. What is in the tail comes from there (tails).
//  2. What a sequential reader has fetched ahead comes from its stream (sequential.go), which leads on to the next table
//     (lead.go).
//  3. What the cache has comes from there (pageCache).
//  4. The rest is fetched: one GET a page, however many goroutines wait for it (fetch.go).
//
// A compaction, which says that it reads a table from front to back, has a stream of its own for it (pass.go).
type Tables struct {
	// Constant.
	ctx    context.Context // of all requests; it ends with close
	Cancel context.CancelFunc
	Tails  *tailCache
	pages  *pageCache
	bucket bucket.Bucket
	// missing is asked when an object is not there, and returns the error for the caller.
	Missing func(f File, err error) error

	background sync.WaitGroup // fetches that nobody waits for
	permits    chan struct{}  // one for each of them
	held       atomic.Int32   // pieces that passes have

	// known are the files that may be opened, by their numbers, and opened those that are. A file may be
	// open and no longer known, for as long as an iterator of an earlier version reads it.
	mu     sync.Mutex // protects the following fields
	known  map[uint64]File
	opened map[fileID]*tableState
	clock  int64 // counts reads of streams
	live   []*stream
	leads  []*lead
	ended  []endedRow
	lost   map[fileID]error // the tables that the store does without, and what is wrong with their objects

	order  atomic.Pointer[manifest.Version] // see Order
	Around atomic.Bool                      // learn does without all tables whose objects are damaged
}

// maxBackground is the number of fetches under way that nobody waits for, and of tails at the beginning.
const maxBackground = 64

// New returns a Tables that knows no files yet.
// It owns pages, and closes it.
func New(bucket bucket.Bucket, storeID uint64, local vfs.FS, dir string, pages *pageCache) *Tables {
	ctx, cancel := context.WithCancel(context.Background())
	b := &Tables{
		ctx: ctx, Cancel: cancel, bucket: bucket, pages: pages,
		Missing: func(_ File, err error) error { return err },
		permits: make(chan struct{}, maxBackground),
		known:   make(map[uint64]File), opened: make(map[fileID]*tableState), lost: make(map[fileID]error),
	}
	b.Tails = newTailCache(local, dir, storeID, b.get)
	return b
}

// Close ends all requests, and waits for those in the background. Requires: no file is open.
func (b *Tables) Close() error {
	b.Cancel()
	b.background.Wait()
	return b.pages.close()
}

// get fetches bytes of an object with one GET.
func (b *Tables) get(ctx context.Context, f File, p []byte, off int64) error {
	err := f.read(ctx, b.bucket, p, off)
	if errors.Is(err, ErrNoObject) {
		return b.Missing(f, err)
	}
	return err
}

// find returns the file with a name, if it is known.
func (b *Tables) find(o object.Name) (File, bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	f, there := b.known[o.Num]
	return f, there && f.Kind == o.Kind
}

// open opens a table or a sidecar. name is the name of the file, for the error.
func (b *Tables) open(name string, o object.Name) (vfs.File, error) {
	b.mu.Lock()
	f, there := b.known[o.Num]
	if !there || f.Kind != o.Kind {
		b.mu.Unlock()
		return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrNotExist}
	}
	return b.openAndUnlock(f)
}

// openAway is open if no local file has it, and else returns nil.
func (b *Tables) openAway(o object.Name) (file vfs.File, err error) {
	b.mu.Lock()
	f := b.known[o.Num]
	if !f.away || f.Kind != o.Kind {
		b.mu.Unlock()
		return nil, nil
	}
	return b.openAndUnlock(f)
}

// openAndUnlock opens f. Requires: b.mu is held, which it lets go.
func (b *Tables) openAndUnlock(f File) (vfs.File, error) {
	s := b.opened[f.fileID]
	if s == nil {
		s = &tableState{File: f, all: b}
		b.opened[f.fileID] = s
	}
	// The file counts as open before its tail is there, so that Know does not let the tail go
	// meanwhile.
	s.refs++
	b.mu.Unlock()
	t, local, err := b.Tails.getOpen(b.ctx, f)
	if err != nil {
		b.release(s)
		return nil, err
	}
	s.at.Store(t.at)
	file := &objectFile{tableState: s}
	if local != nil {
		file.tail.keep(&openTail{t, local})
	}
	return file, nil
}

// release ends the use of an open file. The last one lets the tail go if the newest version has no use
// for it.
func (b *Tables) release(s *tableState) {
	b.mu.Lock()
	s.refs--
	last := s.refs == 0
	gone := last && b.known[s.Num].fileID != s.fileID
	if last {
		delete(b.opened, s.fileID)
	}
	b.mu.Unlock()
	if last {
		b.dropStreams(s)
	}
	if gone {
		b.Tails.forget(s.fileID)
	}
}

// Refetch implements vfs.RemoteFile. It drops the tail too: it may begin with data, of which Learn checks no checksums.
func (f *objectFile) Refetch() error {
	b := f.all
	b.pages.forget(f.fileID)
	b.Tails.spoil(f.fileID)
	b.mu.Lock()
	b.dropLeads(func(l *lead) bool { return l.fileID == f.fileID })
	b.mu.Unlock()
	b.dropStreams(f.tableState)
	return nil
}

// A tableState is what all that have opened a table share.
type tableState struct {
	File
	all  *Tables
	refs int          // guarded by all.mu
	at   atomic.Int64 // where the tail begins

	mu      sync.Mutex // protects the following fields; not held during I/O
	flights []*flight
	runs    runs // of fetches that somebody waits for
	backs   runs // of others, which go back
	streams []*stream
	failure failure
}

// An objectFile is an open table or sidecar. It can only be read.
type objectFile struct {
	*tableState
	closed atomic.Bool
	tail   tailFile
}

var errReadOnlyObject = errors.New("objects of a bucket can't be changed")

// ReadAt implements vfs.File.
// Bytes of data blocks are not checked here. The store checks each block, reports one that is
// wrong, and the Reader then calls Forget.
func (f *objectFile) ReadAt(p []byte, off int64) (n int, err error) {
	if off < 0 {
		return 0, fmt.Errorf("remote: read %s at offset %d", f.Name(), off)
	}
	if f.closed.Load() {
		return 0, fs.ErrClosed
	}
	want := int(min(int64(len(p)), max(f.File.Size-off, 0)))
	if want < len(p) {
		err = io.EOF
	}
	p = p[:want]
	// A read may begin in the data blocks and end in the tail. Each round takes one of the two.
	for n < want {
		got, err := f.readPart(p[n:], off+int64(n))
		if err != nil {
			return n, bucket.NoEnd(err)
		}
		n += got
	}
	return n, err
}

// readPart fills the beginning of p, either from the data blocks up to the tail, or from the tail.
// The tail is asked for each time, because the local copy may have been found bad since the file
// was opened.
func (f *objectFile) readPart(p []byte, off int64) (int, error) {
	tails := f.all.Tails
	t, err := tails.get(f.all.ctx, f.File)
	if err != nil {
		return 0, err
	}
	if off >= t.at {
		if err := f.tail.readAt(tails, t, p, off); err == nil {
			return len(p), nil
		}
		// The local file is damaged. The tail is fetched, and asked again: this time it is good, or in
		// memory.
		if t, err = tails.get(f.all.ctx, f.File); err != nil {
			return 0, err
		}
		return len(p), f.tail.readAt(tails, t, p, off)
	}
	p = p[:min(int64(len(p)), t.at-off)]
	return len(p), f.readData(p, off)
}

// ReadNear implements vfs.RemoteFile. The tail is near, and what is read of it is checked.
func (f *objectFile) ReadNear(p []byte, off int64) error {
	switch {
	case off < f.at.Load():
		return vfs.ErrUnsupported
	case len(p) == 0:
		return nil
	case off+int64(len(p)) > f.File.Size:
		return io.ErrUnexpectedEOF
	}
	_, err := f.ReadAt(p, off)
	return err
}

// TryReadAt implements vfs.TryReader. Bytes that are in no cache would have to be fetched, which is a wait.
func (f *objectFile) TryReadAt(p []byte, off int64) error {
	if off+int64(len(p)) > f.File.Size {
		return io.ErrUnexpectedEOF
	}
	at := f.at.Load()
	if off < at {
		n := min(int64(len(p)), at-off)
		if lo, hi := f.fromCache(p[:n], off, off, off+n); lo < hi {
			return vfs.ErrWouldWait
		}
		p, off = p[n:], off+n
	}
	if len(p) == 0 {
		return nil
	}
	_, err := f.ReadAt(p, off)
	return err
}

// WillNeed implements vfs.TryReader.
// It is a hint: if the fetch fails, the read that comes makes its own.
func (f *objectFile) WillNeed(off, n int64) {
	off = max(off, 0)
	if to := min(off+n, f.at.Load()); off < to {
		f.prefetch(off, to)
	}
}

// Size implements vfs.File.
func (f *objectFile) Size() (int64, error) { return f.File.Size, nil }

// Close implements vfs.File.
func (f *objectFile) Close() error {
	if f.closed.Swap(true) {
		return fs.ErrClosed
	}
	err := f.tail.close() // before the tail may be removed
	f.all.release(f.tableState)
	return err
}

// The methods of vfs.File that write fail.

func (f *objectFile) Write([]byte) (int, error)          { return 0, f.refuse() }
func (f *objectFile) WriteAt([]byte, int64) (int, error) { return 0, f.refuse() }
func (f *objectFile) Truncate(int64) error               { return f.refuse() }
func (f *objectFile) Preallocate(int64) error            { return f.refuse() }

// Sync implements vfs.File. Objects of a bucket are durable.
func (f *objectFile) Sync() error { return nil }

// refuse returns the error of a call that would change the object.
// A read-only store makes none, so it shows a mistake in the store and not in the bucket.
func (f *objectFile) refuse() error { return fmt.Errorf("remote: %s: %w", f.Name(), errReadOnlyObject) }
