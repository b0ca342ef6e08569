// Package outfile opens the files that a user names as the output of a command. All
// commands write their output files through it.
//
// It never overwrites a file of a store, whatever name the file is called by. A
// store that has lost a file cannot be opened. The package follows symbolic links,
// keeps the permissions of a file that it replaces, and writes into pipes and
// devices without replacing them.
package outfile

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/shaledb/shale/internal/base"
	"github.com/shaledb/shale/internal/quoting"
	"github.com/shaledb/shale/vfs"
)

// A storeFileError says that a name stands for a file of a store.
type storeFileError struct {
	name string // as the user wrote it
	dir  string // folder of the store
}

func (e *storeFileError) Error() string {
	return fmt.Sprintf("%s is a file of the store in %s; name another file", quoting.Quote(e.name), quoting.Quote(e.dir))
}

// Path returns the path of the file that name stands for, after symbolic links. The
// file need not exist. The error is a *storeFileError if it is a file of a store, or
// has a name by which a store would take it for its own. It is another error if the
// standard output goes to that file.
func Path(name string) (string, error) {
	path := follow(name)
	if info, err := os.Stat(name); err == nil && info.Mode().IsRegular() && isStandard(info) {
		return path, fmt.Errorf("%s is where this command prints to; name another file", quoting.Quote(name))
	}
	dir := filepath.Dir(path)
	files, isStore := storeFiles(dir)
	if !isStore {
		return path, nil
	}
	refused := &storeFileError{name, dir}
	if _, _, ok := base.ParseFileName(filepath.Base(path)); ok {
		return path, refused
	}
	target, err := os.Stat(path)
	if err != nil {
		return path, nil // it does not exist, or opening it returns the error
	}
	for _, file := range files {
		// A file may have a second name, and on some systems names may differ in case only.
		if info, err := os.Stat(filepath.Join(dir, file)); err == nil && os.SameFile(info, target) {
			return path, refused
		}
	}
	return path, nil
}

// Folder returns an error if the new folder name would lie in the folder of a store, at any
// depth of folders that do not exist yet.
func Folder(name string) error {
	path := follow(name)
	for dir := filepath.Dir(path); ; dir = filepath.Dir(dir) {
		if _, err := os.Stat(dir); err != nil && dir != filepath.Dir(dir) {
			continue // it does not exist yet either
		}
		if _, isStore := storeFiles(dir); isStore {
			return fmt.Errorf("%s lies in the folder of the store in %s; name another folder", quoting.Quote(name), quoting.Quote(dir))
		}
		return nil
	}
}

// storeFiles returns the names in dir that a store gives to files. isStore reports that dir
// has a store, or the rest of one.
func storeFiles(dir string) (files []string, isStore bool) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, false // opening a file there returns a better error
	}
	for _, e := range entries {
		typ, _, ok := base.ParseFileName(e.Name())
		if !ok {
			continue
		}
		files = append(files, e.Name())
		// A folder without a store may have filter files of other programs, such
		// as 20260101.flt.
		isStore = isStore || typ != base.FileFilter && typ != base.FileTemp
	}
	return files, isStore
}

// maxLinks is the largest number of symbolic links on the way to a file.
const maxLinks = 40

// follow returns the name of the file at the end of symbolic links, as far as they can be
// read. The file at the end need not exist, which filepath.EvalSymlinks requires.
func follow(name string) string {
	for range maxLinks {
		dir, file := filepath.Split(name) // does not shorten a .. after a link, as Clean would
		if dir == "" {
			dir = "."
		}
		dir, err := filepath.EvalSymlinks(dir)
		if err != nil || file == "" {
			return name
		}
		name = filepath.Join(dir, file)
		to, err := os.Readlink(name)
		switch {
		case err != nil:
			return name // not a link
		case filepath.IsAbs(to):
			name = to
		default:
			name = dir + string(filepath.Separator) + to
		}
	}
	return name
}

// Open is os.OpenFile for the file that name stands for, if Path accepts it.
func Open(name string, flag int, perm os.FileMode) (*os.File, error) {
	path, err := Path(name)
	if err != nil {
		return nil, err
	}
	if info, err := os.Stat(name); err == nil && !info.Mode().IsRegular() {
		path = name // a link to a pipe, such as /dev/fd/3, leads to no path
	}
	return os.OpenFile(path, flag, perm)
}

// Replace gives the file name new content, which write writes. It does so durably, and as a
// whole or not at all: a reader sees the old content or the new. The steps are: write a
// temporary file, sync it, rename it, sync the folder. The file keeps its permissions. A
// pipe or a device cannot be replaced; it is written into.
func Replace[T any](fs vfs.FS, name string, write func(w io.Writer) (T, error)) (result T, err error) {
	path, err := Path(name)
	if err != nil {
		return result, err
	}
	old, err := os.Stat(name)
	if err != nil {
		old = nil
	} else if !old.Mode().IsRegular() {
		return writeInto(name, write)
	}
	temp := fmt.Sprintf("%s.%d.tmp", path, os.Getpid())
	if result, err = writeNew(fs, temp, old, write); err == nil {
		err = fs.Rename(temp, path)
	}
	if err != nil {
		_ = fs.Remove(temp) // err is the error to report
		return result, err
	}
	return result, fs.SyncDir(filepath.Dir(path))
}

// isStandard reports whether file is the standard output or the standard error.
func isStandard(file os.FileInfo) bool {
	for _, f := range []*os.File{os.Stdout, os.Stderr} {
		if info, err := f.Stat(); err == nil && os.SameFile(info, file) {
			return true
		}
	}
	return false
}

// writeNew writes and syncs a new file. It gets the permissions of old, if that is not nil.
func writeNew[T any](fs vfs.FS, name string, old os.FileInfo, write func(w io.Writer) (T, error)) (result T, err error) {
	f, err := fs.Create(name)
	if err != nil {
		return result, err
	}
	if old != nil {
		err = os.Chmod(name, old.Mode().Perm()) // before the content is there for others to read
	}
	if err == nil {
		result, err = write(f)
	}
	if err == nil {
		err = f.Sync()
	}
	return result, errors.Join(err, f.Close())
}

// writeInto writes into a pipe or a device.
func writeInto[T any](name string, write func(w io.Writer) (T, error)) (result T, err error) {
	f, err := os.OpenFile(name, os.O_WRONLY, 0)
	if err != nil {
		return result, err
	}
	result, err = write(f)
	return result, errors.Join(err, f.Close())
}

// ReplaceBytes is Replace with content that is in memory.
func ReplaceBytes(name string, content []byte) error {
	_, err := Replace(vfs.Default, name, func(w io.Writer) (int, error) { return w.Write(content) })
	return err
}
