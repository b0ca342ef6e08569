package vfs

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
)

// A PathFS is an FS whose names depend on more than their letters: on the working
// directory, or on links. Default is one, and FaultFS is one over Default. A type
// of your own that wraps Default should pass these methods on.
type PathFS interface {
	// Abs returns a name for the same place that does not depend on the
	// working directory of the process. The place need not exist.
	Abs(name string) (string, error)
	// Within reports whether name, which need not exist, is the directory dir
	// or lies below it, whatever symbolic links, mounts and letter case lead
	// there. If dir does not exist, nothing is in it.
	Within(name, dir string) (bool, error)
}

// Abs returns a name for the same place that does not depend on the working
// directory. The names of an FS that is no PathFS, such as Mem, do not depend on
// it: they stay as they are.
func Abs(fsys FS, name string) (string, error) {
	if p, ok := fsys.(PathFS); ok {
		return p.Abs(name)
	}
	return name, nil
}

// Within reports whether name is the directory dir or lies below it. For an FS
// that is no PathFS, the letters of the names decide.
func Within(fsys FS, name, dir string) (bool, error) {
	if p, ok := fsys.(PathFS); ok {
		return p.Within(name, dir)
	}
	parts, in := split(name), split(dir)
	return len(parts) >= len(in) && slices.Equal(parts[:len(in)], in), nil
}

// Abs depends on the working directory now, and its result not at all. The empty
// name leads nowhere, as in all calls of the system.
func (osFS) Abs(name string) (string, error) {
	if name == "" {
		return "", &fs.PathError{Op: "abs", Path: name, Err: fs.ErrNotExist}
	}
	return filepath.Abs(name)
}

// Within compares what exists of the path to name with dir, as files: so it
// sees through links, mounts, short names and letter case.
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

// realParent returns the path without links of as much of an absolute path as
// exists.
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
