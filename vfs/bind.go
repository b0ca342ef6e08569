package vfs

import (
	"errors"
	"io"
)

// A path can come to mean another directory while a program uses it: the directory is
// renamed or removed, another one takes its place, a symbolic link is switched, or a volume
// is mounted over it. The owner of a lock that goes on by path then writes into a directory
// that is not the one that it has locked. Two calls prevent that. Held notices the change.
// Bind looks names up in the locked directory itself, so that a change that comes between a
// call of Held and the operation after it does no harm either.

// ErrMoved says that a name no longer stands for the file that was locked.
var ErrMoved = errors.New("the locked file is not there any more")

// A Holder is a lock that knows whether its name still stands for the locked file. The
// locks of all file systems of this package do. A type of your own that wraps locks
// should pass the method on.
type Holder interface {
	// Held returns nil if the name that was locked stands for the locked file. The error
	// wraps ErrMoved if it does not: the file, or a directory on the way to it, was
	// renamed, removed or replaced. Any other error means that Held could not find out.
	Held() error
}

// Held reports whether the name of a lock still stands for the locked
// file: see Holder. If lock is no Holder, it returns nil.
func Held(lock io.Closer) error {
	if h, ok := lock.(Holder); ok {
		return h.Held()
	}
	return nil
}

// A Binder is an FS that can hold on to the directory of a locked file. All file systems
// of this package are. A type that embeds one of them and has operations of its own must
// have a Bind of its own too, because the result does not call these operations.
type Binder interface {
	// Bind returns the file system for the owner of lock, which Lock has returned and which
	// is held. It takes names directly in the directory of the locked file for names in the
	// directory that was locked, whatever their path leads to by now. If that directory was
	// removed, there are no files in it, and none can be created. All other names, and
	// those of the directory's own subdirectories, are paths as before. With
	// ErrUnsupported, this is not possible here.
	Bind(lock io.Closer) (FS, error)
}

// Bind binds a file system to the directory of a
// lock. If fsys is no Binder, it returns [ErrUnsupported].
func Bind(fsys FS, lock io.Closer) (FS, error) {
	if b, ok := fsys.(Binder); ok {
		return b.Bind(lock)
	}
	return nil, ErrUnsupported
}
