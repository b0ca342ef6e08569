package tablefs

import (
	"cmp"
	"context"
	"errors"
	"io"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/shaledb/shale/remote/internal/object"
	"github.com/shaledb/shale/vfs"
)

// The cache of tails, which a reader fills before it opens a table. With a directory it outlives
// the process: the files are copies that are checked when they are read, and a bad one is as good
// as none.

// A tailCache keeps the tail of each table that a reader has, and every sidecar as a whole: all that a
// lookup of an absent key asks. They are never evicted. With a directory each has a file there, which the
// next reader finds; without one they are in memory.
type tailCache struct {
	// Constant.
	fs      vfs.FS // nil: in memory
	dir     string
	storeID uint64
	fetch   fetchFunc // from the bucket

	mu  sync.Mutex // protects the following fields; not held during I/O
	all map[fileID]*tail
	sum int64 // of tail.counted of these
}

// A fetchFunc fills p with bytes of an object from an offset, or with the last ones if that is negative.
type fetchFunc func(ctx context.Context, f File, p []byte, off int64) error

// A tail holds the last bytes of an object, from an offset on. One goroutine fetches it; the others wait until it has.
type tail struct {
	file File
	got  sync.WaitGroup // waits until the following fields are set

	err    error
	at     int64
	memory []byte   // nil: it is in a file
	sums   []uint32 // of the chunks in the file
	copy   *tail    // the one whose file it is: this one, or one before it with the same bytes
	bad    atomic.Bool
	rotten atomic.Bool // the file is damaged

	counted int64 // its length, when it is there; guarded by tailCache.mu
}

// newTailCache returns a cache without tails. fsys is nil if they are to be in memory.
func newTailCache(fsys vfs.FS, dir string, storeID uint64, fetch fetchFunc) *tailCache {
	return &tailCache{fs: fsys, dir: filepath.Clean(dir), storeID: storeID, fetch: fetch, all: make(map[fileID]*tail)}
}

// expect makes room for n tails. Requires: there are none so far.
func (t *tailCache) expect(n int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.all = make(map[fileID]*tail, n)
}

// path returns the name of the file with a tail. Like the object it is in a folder with the low byte of its
// number, so that no folder grows large.
func (t *tailCache) path(id fileID) string {
	return t.dir + string(filepath.Separator) + filepath.FromSlash(id.Name())
}

// get returns the tail of f: from memory, or else from the local file, or else from the
// bucket. One goroutine gets it, however many ask for it at the same time. After an error the next get tries again.
func (t *tailCache) get(ctx context.Context, f File) (*tail, error) {
	l, file, err := t.getOpen(ctx, f)
	if file != nil {
		_ = file.Close() // it was only read
	}
	return l, err
}

// getOpen is get, and leaves the local file open for the caller if the tail has just come from there.
func (t *tailCache) getOpen(ctx context.Context, f File) (_ *tail, file vfs.File, _ error) {
	t.mu.Lock()
	old := t.all[f.fileID]
	if old != nil && !old.bad.Load() {
		t.mu.Unlock()
		old.got.Wait()
		return old, nil, old.err
	}
	l := newTail(f)
	l.got.Add(1)
	t.putLocked(l)
	t.mu.Unlock()
	if old == nil { // the local file of a bad one is bad
		file = t.load(l)
	}
	if file == nil {
		l.err = t.download(ctx, l, old)
	}
	t.mu.Lock()
	switch {
	case t.all[f.fileID] != l: // it was let go meanwhile
	case l.err != nil:
		// The failure is gone from the map before the waiters wake: all of them get it, and the
		// next call tries again.
		t.removeLocked(f.fileID)
	default:
		t.countLocked(l)
	}
	t.mu.Unlock()
	l.got.Done()
	return l, file, l.err
}

func newTail(f File) *tail {
	l := &tail{file: f}
	l.copy = l
	return l
}

// begins returns where the tail of a file begins, if it is there. It does not wait.
func (t *tailCache) begins(id fileID) (at int64, ok bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	l := t.all[id]
	if l == nil || l.counted == 0 {
		return 0, false
	}
	return l.at, true
}

// putLocked makes l the tail of its file.
func (t *tailCache) putLocked(l *tail) {
	t.removeLocked(l.file.fileID)
	t.all[l.file.fileID] = l
}

// removeLocked takes a tail out, if it is there.
func (t *tailCache) removeLocked(id fileID) {
	if l := t.all[id]; l != nil {
		t.sum -= l.counted
		delete(t.all, id)
	}
}

// countLocked counts a tail that is there.
func (t *tailCache) countLocked(l *tail) {
	l.counted = l.file.Size - l.at
	t.sum += l.counted
}

// adopt takes the tail from src, which has the whole file, checks it, and returns where it begins. Requires: nobody has got
// the tail before.
func (t *tailCache) adopt(f File, src io.ReaderAt) (at int64, err error) {
	l, w := newTail(f), &wanted{end: f.Size, least: f.Size}
	err = fill(context.Background(), f, t.storeID, w, func(_ context.Context, _ File, p []byte, off int64) error {
		if off < 0 {
			off = f.Size - int64(len(p))
		}
		n, err := src.ReadAt(p, off)
		if n == len(p) {
			return nil
		}
		return cmp.Or(err, io.ErrUnexpectedEOF)
	})
	if err != nil {
		return 0, err
	}
	t.keep(l, w, nil)
	t.mu.Lock()
	defer t.mu.Unlock()
	t.putLocked(l)
	t.countLocked(l)
	return l.at, nil
}

// bytes returns how long all tails are together that are there.
func (t *tailCache) bytes() int64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.sum
}

// load takes the tail from the local file, and returns that open, or nil if there is none that can be used.
func (t *tailCache) load(l *tail) vfs.File {
	if t.fs == nil {
		return nil
	}
	file, err := t.fs.Open(t.path(l.file.fileID))
	if err != nil {
		return nil
	}
	if !t.loadFrom(file, l) {
		_ = file.Close()
		return nil
	}
	return file
}

// loadFrom does the work of load.
func (t *tailCache) loadFrom(file vfs.File, l *tail) bool {
	size, err := file.Size()
	if err != nil {
		return false
	}
	// The header is longer the longer the tail is, and the tail is in the file too.
	buf := chunkBuffers.Get().(*[2 * tailChunk]byte)
	defer chunkBuffers.Put(buf)
	most := min(size, tailHeaderSize(size))
	head := buf[:min(most, int64(len(buf)))]
	if int64(len(head)) < most {
		head = make([]byte, most)
	}
	if n, err := file.ReadAt(head, 0); n < len(head) && err != nil {
		return false
	}
	h, err := decodeTailHeader(head)
	// The file must have the tail of this very object, and be as long as its header says. The
	// chunks themselves are checked when they are read.
	if err != nil || h.fileID != l.file.fileID || h.storeID != t.storeID || h.size != l.file.Size ||
		size != tailHeaderSize(h.size-h.at)+h.size-h.at {
		return false
	}
	l.at, l.sums = h.at, h.sums
	return true
}

// maxTries is how often an object is fetched again whose bytes do not check: they may have changed on the
// way.
const maxTries = 3

// download gets the tail from the bucket, checks it, and keeps it. old is the one in whose place it comes, or nil.
func (t *tailCache) download(ctx context.Context, l, old *tail) (err error) {
	for range maxTries {
		// Each try begins without the bytes of the one before, because nobody knows which of them
		// were wrong.
		w := &wanted{end: l.file.Size, least: l.file.Size}
		if err = fill(ctx, l.file, t.storeID, w, t.fetch); err == nil {
			t.keep(l, w, old)
			return nil
		}
		if !object.IsDamage(err) || errors.Is(err, ErrNoObject) {
			break
		}
	}
	return err
}

// beforeFilter is more than what an index, which a check reads first, has between it and the filter in most tables.
const beforeFilter = 64 << 10

// fill fetches into w all that a check of the file reads. The first GET brings as much as the manifest lets us guess.
// Only if that is too little, as with very small blocks, there is a second one.
func fill(ctx context.Context, f File, storeID uint64, w *wanted, fetch fetchFunc) error {
	for from := f.Size - f.tailGuess(); ; from = max(w.least-f.filter-beforeFilter, 0) {
		missing := make([]byte, w.end-from-int64(len(w.b)))
		off := from
		if len(w.b) == 0 {
			off = -1 // the last bytes: an object of another size then has another footer
		}
		if err := fetch(ctx, f, missing, off); err != nil {
			return err
		}
		w.b = append(missing, w.b...)
		err := f.Check(w, storeID)
		if w.least >= w.end-int64(len(w.b)) {
			return f.Damaged(err)
		}
	}
}

// keep makes the tail of what was fetched, from the first byte that a check has read. A table without a filter keeps
// all, because the partitions of its index may lie before that byte. If the file
// can't be written, the tail is in memory: the disk may be full, and readers can do without it. If old has the same bytes in a file
// that is good, that is the file: so a program that reads a damaged block again and again opens no file each time.
func (t *tailCache) keep(l *tail, w *wanted, old *tail) {
	if l.at = w.end - int64(len(w.b)); l.file.filter > 0 && w.least > l.at {
		w.b, l.at = w.b[w.least-l.at:], w.least
	}
	if old != nil && old.sums != nil && !old.rotten.Load() && old.at == l.at && slices.Equal(old.sums, chunkSums(w.b)) {
		l.sums, l.copy = old.sums, old.copy
		return
	}
	if t.fs == nil || t.write(l.file, l.at, w.b) != nil {
		l.memory = slices.Clone(w.b)
	} else {
		l.sums = chunkSums(w.b)
	}
}

// write writes the file of a tail. It is not synced: what a crash leaves of it is checked.
func (t *tailCache) write(f File, at int64, b []byte) error {
	path := t.path(f.fileID)
	if err := t.fs.MkdirAll(filepath.Dir(path)); err != nil {
		return err
	}
	file, err := t.fs.Create(path)
	if err != nil {
		return err
	}
	_, err = file.Write(appendTail(nil, t.storeID, f, at, b))
	return errors.Join(err, file.Close())
}

// forget removes a tail that nobody needs any more.
// Nobody has the object open then: Know and release see to that.
func (t *tailCache) forget(id fileID) {
	t.mu.Lock()
	t.removeLocked(id)
	t.mu.Unlock()
	if t.fs != nil { // there may be a file that nobody has asked for
		_ = t.fs.Remove(t.path(id)) // if it stays, sweep removes it
	}
}

// spoil makes the next get fetch a tail again. A tail may begin with data blocks, which are not checked when it is fetched,
// and in the midst of a block: then the offset of the block does not tell which part of it is damaged.
func (t *tailCache) spoil(id fileID) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if l := t.all[id]; l != nil && l.counted > 0 { // else it is just being fetched
		l.bad.Store(true)
	}
}

// Sweep removes the files of tails of all objects that needed says no to. It is for the beginning: an earlier
// reader of the directory has left them.
func (t *tailCache) Sweep(needed func(object.Name) bool) error {
	if t.fs == nil {
		return nil
	}
	top := filepath.Join(t.dir, filepath.FromSlash(object.TableFolder))
	folders, err := t.fs.List(top)
	if err != nil {
		return nil // there is none yet
	}
	for _, folder := range folders {
		if len(folder) != 2 {
			continue // not ours
		}
		prefix := object.TableFolder + folder + "/"
		names, err := t.fs.List(filepath.Join(top, folder))
		if err != nil {
			return err
		}
		for _, name := range names {
			if o, ours := object.ParseName(prefix + name); ours && !needed(o) {
				if err := t.fs.Remove(filepath.Join(top, folder, name)); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// A wanted is the end of an object as far as it was fetched. It notes the first byte that was asked for.
type wanted struct {
	b     []byte
	end   int64 // size of the object; b ends there
	least int64 // the lowest offset that was read
}

// errBefore is the error of a read of bytes that were not fetched.
// The check that gets it fails, and fill sees from least how much more it has to fetch.
var errBefore = errors.New("not fetched")

// ReadAt reads from the bytes that were fetched.
func (w *wanted) ReadAt(p []byte, off int64) (int, error) {
	w.least = min(w.least, max(off, 0))
	at := w.end - int64(len(w.b))
	if off < at {
		return 0, errBefore
	}
	if off >= w.end {
		return 0, io.EOF
	}
	n := copy(p, w.b[off-at:])
	if n < len(p) {
		return n, io.EOF
	}
	return n, nil
}
