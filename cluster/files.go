package cluster

import (
	"errors"
	"io"
	"io/fs"
	"math"
	"path/filepath"
	"strings"

	"github.com/shaledb/shale/vfs"
)

// removeTree removes a directory with all that is in it, or a file. It is no error if it is absent.
//
// A crash in the midst of it leaves a part of the tree, so callers remove only what does not count
// any more: see removeAs.
func removeTree(fsys vfs.FS, name string) error {
	info, err := fsys.Stat(name)
	if err == nil && info.IsDir {
		var names []string
		if names, err = fsys.List(name); err != nil {
			return err
		}
		for _, n := range names {
			if err := removeTree(fsys, filepath.Join(name, n)); err != nil {
				return err
			}
		}
	}
	if err == nil {
		err = fsys.Remove(name)
	}
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// removeAs removes a directory or a file that counts by its name, in one step: what is left of it under the name temp, if
// that is interrupted, is swept by the next start.
//
// The rename is made durable before anything is removed. Otherwise a power cut could bring the old
// name back with a part of its files, and the next start would take that for damage.
func removeAs(fsys vfs.FS, name, temp string) error {
	if err := fsys.Rename(name, temp); err != nil {
		return err
	}
	if err := fsys.SyncDir(filepath.Dir(name)); err != nil {
		return err
	}
	return removeTree(fsys, temp)
}

// sweepTemps removes what is unfinished in a directory: the names that begin with prefix and end with tempSuffix.
func sweepTemps(fsys vfs.FS, dir, prefix string) error {
	names, err := fsys.List(dir)
	if err != nil {
		return err
	}
	for _, name := range names {
		if strings.HasPrefix(name, prefix) && strings.HasSuffix(name, tempSuffix) {
			if err := removeTree(fsys, filepath.Join(dir, name)); err != nil {
				return err
			}
		}
	}
	return nil
}

// readWhole reads a file.
func readWhole(fsys vfs.FS, name string) (data []byte, err error) {
	f, err := fsys.Open(name)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	return io.ReadAll(io.NewSectionReader(f, 0, math.MaxInt64))
}
