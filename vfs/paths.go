package vfs

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
)

// A PathFS is an FS in which a name alone does not say which file it stands for:
// the working directory and links matter too. Default is one, and so is a
// faultfs.FS over Default. A type of your own that wraps Default should pass these methods on.
type PathFS interface {
	// Abs returns a name for the same place that does not depend on
	// the working directory of the process. The place need not exist.
	Abs(name string) (string, error)
	// Within reports whether name is the directory dir or lies below it. It
	// follows symbolic links and mounts, and it knows whether letter case
	// matters. name need not exist. If dir does not exist, nothing is in it.
	Within(name, dir string) (bool, error)
}

// Abs returns a name for the same place that does not depend on the working directory. If
// fsys is no [PathFS], names do not depend on it, and Abs returns name. Mem is an example.
func Abs(fsys FS, name string) (string, error) {
	if p, ok := fsys.(PathFS); ok {
		return p.Abs(name)
	}
	return name, nil
}

// A Resolver is an FS with symbolic links. Default is one, and so is a faultfs.FS over Default.
type Resolver interface {
	// Resolve returns a name for the same place that no symbolic link is a part of, as far as
	// the place exists. If it can't find one, it returns name.
	Resolve(name string) string
}

// Resolve returns a name for the same place on which links have no influence
// any more. If fsys is no Resolver, it has no links, and Resolve returns name.
func Resolve(fsys FS, name string) string {
	if r, ok := fsys.(Resolver); ok {
		return r.Resolve(name)
	}
	return name
}

// Within reports whether name is the directory dir or lies
// below it. If fsys is no [PathFS], it compares the names.
func Within(fsys FS, name, dir string) (bool, error) {
	if p, ok := fsys.(PathFS); ok {
		return p.Within(name, dir)
	}
	parts, in := split(name), split(dir)
	return len(parts) >= len(in) && slices.Equal(parts[:len(in)], in), nil
}

// Abs joins name with the working directory. The empty
// name is an error, as in all calls of the system.
func (osFS) Abs(name string) (string, error) {
	if name == "" {
		return "", &fs.PathError{Op: "abs", Path: name, Err: fs.ErrNotExist}
	}
	return filepath.Abs(name)
}

// Within compares dir with the existing parents of name, and with name itself,
// as files. So links, mounts, short names and letter case make no difference.
func (f osFS) Within(name, dir string) (bool, error) {
	want, err := os.Stat(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	at, err := f.Abs(name)
	if err != nil {
		return false, err
	}
	if at, err = realParent(at); err != nil {
		return false, err
	}
	for {
		info, err := os.Stat(at)
		if err != nil {
			return false, err
		}
		if os.SameFile(info, want) {
			return true, nil
		}
		parent := filepath.Dir(at)
		if parent == at {
			return false, nil
		}
		at = parent
	}
}

// Resolve resolves the links of the part that exists. It makes sure that the result leads to
// the same file, because the system does not resolve all volumes of Windows, and no path that
// is too long. A name can also be used as it is: links in it may then be switched.
func (osFS) Resolve(name string) string {
	path, err := filepath.Abs(name)
	if err != nil {
		return name
	}
	at := path
	for {
		real, err := filepath.EvalSymlinks(at)
		if err == nil {
			rest := path[len(at):]
			was, err := os.Stat(at)
			now, nerr := os.Stat(real)
			if err != nil || nerr != nil || !os.SameFile(was, now) {
				return name
			}
			return filepath.Join(real, rest)
		}
		parent := filepath.Dir(at)
		if !errors.Is(err, fs.ErrNotExist) || parent == at {
			return name
		}
		at = parent
	}
}

// realParent returns the longest part of an absolute
// path that exists, with all links resolved.
func realParent(path string) (string, error) {
	for {
		real, err := filepath.EvalSymlinks(path)
		parent := filepath.Dir(path)
		if !errors.Is(err, fs.ErrNotExist) || parent == path {
			return real, err
		}
		path = parent
	}
}
