package buckets

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/shaledb/shale/remote/internal/bucket"
	"github.com/shaledb/shale/vfs"
)

// A bucket in a directory: its calls. dir_file.go has the files of objects.

// A dirBucket keeps each object in a file whose path is the object's name. The file has the bytes
// of the object and a trailer (dir_file.go).
//
// Put writes and syncs a file in the directory unfinished. Then it gives the file its name, by a
// link, which fails if the name is taken, or by a rename, which replaces what is there. So there is
// never a name without all its bytes, and any number of processes may use the directory, as long
// as its file system makes links in one step.
type dirBucket struct {
	fs   vfs.FS
	root string
}

const (
	// unfinished is the directory of files that have no name of an object yet. It begins with a
	// '.', so it is no part of a name.
	unfinished = ".put"
	// unfinishedAge is how old a file there must be before NewDir removes it. Only a process that
	// ended in the middle of a Put leaves one. If the clock is wrong, a Put that is under way fails,
	// and nothing else happens.
	unfinishedAge = 24 * time.Hour
	// publishTries is how often Put makes the directory of an object again, because a Delete
	// has removed it when it was empty.
	publishTries = 100
)

// NewDir returns a bucket in a directory of fsys: see remote.NewDir.
func NewDir(fsys vfs.FS, dir string) (bucket.Bucket, error) {
	if fsys == nil {
		fsys = vfs.Default
	}
	root, err := vfs.Abs(fsys, dir) // the program may change its working directory
	if err != nil {
		return nil, fmt.Errorf("remote: make a bucket: %w", err)
	}
	b := &dirBucket{fs: fsys, root: filepath.Clean(root)}
	temps := filepath.Join(b.root, unfinished)
	if err := fsys.MkdirAll(temps); err != nil {
		return nil, fmt.Errorf("remote: make a bucket in %s: %w", dir, err)
	}
	if err := b.sweep(temps); err != nil {
		return nil, fmt.Errorf("remote: open the bucket in %s: %w", dir, err)
	}
	return b, nil
}

// Mark returns what NewDir has made in the directory of a bucket that dir is, or lies in; "": there is no such bucket. The name
// has no links. dir need not exist, and a directory that can't be looked into is no bucket of this program.
func Mark(fsys vfs.FS, dir string) (mark string, err error) {
	if dir, err = vfs.Abs(fsys, dir); err != nil {
		return "", err
	}
	for at := vfs.Resolve(fsys, dir); ; at = filepath.Dir(at) {
		mark := filepath.Join(at, unfinished)
		if info, err := fsys.Stat(mark); err == nil && info.IsDir {
			return mark, nil
		}
		if at == filepath.Dir(at) {
			return "", nil
		}
	}
}

// NewMem returns an empty bucket in memory, for tests. Nothing of it survives the process.
func NewMem() bucket.Bucket {
	b, _ := NewDir(settled{vfs.NewMem()}, "bucket") // a new file system in memory never fails
	return b
}

// A settled is a file system in memory that keeps no account of names that a crash could bring back: they pile up
// in unfinished, which no Put syncs.
type settled struct{ *vfs.Mem }

// Remove removes a file, and forgets its name at once.
func (s settled) Remove(name string) error {
	return errors.Join(s.Mem.Remove(name), s.SyncDir(filepath.Dir(name)))
}

// sweep removes files that processes have left behind in the middle of a Put.
func (b *dirBucket) sweep(temps string) error {
	names, err := b.fs.List(temps)
	for _, name := range names {
		path := filepath.Join(temps, name)
		info, serr := b.fs.Stat(path)
		if serr == nil && time.Since(info.ModTime) > unfinishedAge {
			serr = b.fs.Remove(path)
		}
		if !errors.Is(serr, fs.ErrNotExist) { // it may be finished meanwhile
			err = errors.Join(err, serr)
		}
	}
	return err
}

// path returns the path of an object's file. Requires: CheckName(name) == nil.
func (b *dirBucket) path(name string) string {
	return filepath.Join(b.root, filepath.FromSlash(name))
}

// Put writes a file without a name of an object, syncs it, and then gives it its name. If that fails at any step, there is no
// object, and the file goes.
func (b *dirBucket) Put(ctx context.Context, name string, body io.ReaderAt, size int64, crc32c uint32, absent bool) error {
	if err := bucket.CheckCall(ctx, name); err != nil {
		return bucket.CallError("put", name, err)
	}
	// The name is drawn, so no two calls of any process write the same file.
	temp := filepath.Join(b.root, unfinished, rand.Text())
	err := b.write(ctx, temp, body, size, crc32c)
	if err == nil {
		err = b.publish(temp, b.path(name), absent)
	}
	// A rename has taken it away already. If it stays, it is not listed, and swept in the end.
	_ = b.fs.Remove(temp)
	return bucket.CallError("put", name, err)
}

// publish gives the file temp the path of an object, durably.
func (b *dirBucket) publish(temp, path string, absent bool) error {
	dir := filepath.Dir(path)
	if info, err := b.fs.Stat(path); err == nil && info.IsDir {
		return errors.New("there are objects below this name: a directory can't have both")
	}
	var err error
	for range publishTries {
		if err = b.fs.MkdirAll(dir); err == nil {
			err = b.give(temp, path, absent)
		} else if errors.Is(err, fs.ErrExist) {
			err = fs.ErrNotExist // it was there, and a Delete has removed it since
		}
		if !errors.Is(err, fs.ErrNotExist) {
			break
		}
	}
	taken := errors.Is(err, fs.ErrExist)
	if err != nil && !taken {
		return err
	}
	// Another process may have made the directories and not synced them yet. If the name is taken,
	// the object that has it becomes durable here too, as Bucket promises.
	if err := b.syncUp(dir); err != nil {
		return err
	}
	if taken {
		return bucket.ErrExists
	}
	return nil
}

// give makes one attempt to give the file temp a path.
// A link fails if the name is taken, and a rename does not. All of "if it is absent" rests on this.
func (b *dirBucket) give(temp, path string, absent bool) error {
	if !absent {
		return b.fs.Rename(temp, path)
	}
	err := b.fs.Link(temp, path)
	if err != nil && !errors.Is(err, fs.ErrExist) && !errors.Is(err, fs.ErrNotExist) {
		err = fmt.Errorf("%w (a bucket needs a file system with hard links)", err)
	}
	return err
}

// syncUp makes the names in dir and in its parents durable, up to the bucket's own directory. It
// passes over directories that are gone: then the sync of a parent makes that durable.
// All parents are synced each time, because another process may have made any of them a moment ago.
func (b *dirBucket) syncUp(dir string) error {
	for {
		if err := b.fs.SyncDir(dir); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		if dir == b.root {
			return nil
		}
		dir = filepath.Dir(dir)
	}
}

// ReadAt opens the file for each call: a bucket has more objects than a process may have open files.
func (b *dirBucket) ReadAt(ctx context.Context, name string, p []byte, off int64) (n int, err error) {
	o, err := b.open(ctx, name)
	if err != nil {
		return 0, bucket.CallError("read", name, err)
	}
	defer o.file.Close() // only read: nothing to lose
	from, length := bucket.Window(o.size, off, len(p))
	n, err = o.file.ReadAt(p[:length], from)
	switch {
	case n < int(length):
		return n, bucket.CallError("read", name, bucket.EndedEarly(err))
	case n < len(p):
		return n, io.EOF
	}
	return n, nil
}

// Stat reads the trailer, which has the checksum.
func (b *dirBucket) Stat(ctx context.Context, name string) (bucket.Info, error) {
	o, err := b.open(ctx, name)
	if err != nil {
		return bucket.Info{}, bucket.CallError("stat", name, err)
	}
	return bucket.Info{Name: name, Size: o.size, CRC32C: o.sum}, bucket.CallError("stat", name, o.file.Close())
}

// Delete also removes the directories that become empty: each log has one. A Put at the same time may lose the directory that
// it has just made, and makes it again.
func (b *dirBucket) Delete(ctx context.Context, name string) error {
	if err := bucket.CheckCall(ctx, name); err != nil {
		return bucket.CallError("delete", name, err)
	}
	path := b.path(name)
	if info, err := b.fs.Stat(path); err == nil && info.IsDir {
		return nil // it has other objects; there is none with this name
	}
	err := b.fs.Remove(path)
	if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	if err == nil {
		err = b.syncUp(filepath.Dir(path))
	}
	for dir := filepath.Dir(path); err == nil && dir != b.root; dir = filepath.Dir(dir) {
		if b.fs.Remove(dir) != nil {
			break // it has other objects, or another Delete was faster
		}
	}
	return bucket.CallError("delete", name, err)
}

// List reads the directories as it goes, and none that has nothing to do with prefix.
func (b *dirBucket) List(ctx context.Context, prefix, after string) iter.Seq2[bucket.Info, error] {
	return func(yield func(bucket.Info, error) bool) {
		_, err := b.walk(ctx, "", prefix, after, func(i bucket.Info) bool { return yield(i, nil) })
		if err != nil {
			yield(bucket.Info{}, bucket.CallError("list", prefix, err))
		}
	}
}

// walk yields the objects in one directory of the bucket and below. dir is "" or ends with a
// slash. It reports whether the caller wants to go on.
// One directory is in memory at a time on each level, however many objects there are.
func (b *dirBucket) walk(ctx context.Context, dir, prefix, after string, yield func(bucket.Info) bool) (more bool, err error) {
	if err := ctx.Err(); err != nil {
		return false, err
	}
	found, err := b.entries(dir, prefix, after)
	if err != nil {
		return false, err
	}
	for _, e := range found {
		more := true
		if strings.HasSuffix(e.Name, "/") {
			more, err = b.walk(ctx, e.Name, prefix, after, yield)
		} else if err = ctx.Err(); err == nil {
			more = yield(e)
		}
		if err != nil || !more {
			return false, err
		}
	}
	return true, nil
}

// entries returns the objects and directories in one directory that List has to go through, in
// ascending order. The name of a directory has a slash at the end, so that it stands where the names
// in it belong.
func (b *dirBucket) entries(dir, prefix, after string) ([]bucket.Info, error) {
	names, err := b.fs.List(b.path(dir))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil // nothing was put there, or a Delete has removed it
	}
	if err != nil {
		return nil, err
	}
	var found []bucket.Info
	for _, name := range names {
		object := dir + name
		// A name may be that of an object and that of a directory with others. Which it is, only
		// the file system knows, and it is not asked about names that are neither.
		wanted := strings.HasPrefix(object, prefix) && object > after
		if !bucket.IsNamePart(name) || !wanted && !leadsTo(object+"/", prefix, after) {
			continue
		}
		info, err := b.fs.Stat(b.path(object))
		switch {
		case errors.Is(err, fs.ErrNotExist):
		case err != nil:
			return nil, err
		case info.IsDir && leadsTo(object+"/", prefix, after):
			found = append(found, bucket.Info{Name: object + "/"})
		case !info.IsDir && wanted:
			found = append(found, bucket.Info{Name: object, Size: max(0, info.Size-trailerSize)})
		}
	}
	slices.SortFunc(found, func(a, b bucket.Info) int { return strings.Compare(a.Name, b.Name) })
	return found, nil
}

// leadsTo reports whether names that begin with dir may be among those that List wants.
func leadsTo(dir, prefix, after string) bool {
	within := strings.HasPrefix(dir, prefix) || strings.HasPrefix(prefix, dir)
	return within && (dir > after || strings.HasPrefix(after, dir))
}
