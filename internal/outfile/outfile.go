// Package outfile opens the files that a user tells a command to write. All
// commands write their output files through it.
//
// It never writes over a file of a store, by whatever name it is called: a store
// that lost one cannot be opened. It follows symbolic links, keeps the permissions
// of a file that it replaces, and writes into pipes and devices as they are.
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

// A storeFileError says that a name means a file of a store.
type storeFileError struct {
	name string // as it was given
	dir  string // of the store
}

func (e *storeFileError) Error() string {
	return fmt.Sprintf("%s is a file of the store in %s; name another file", quoting.Quote(e.name), quoting.Quote(e.dir))
}

// Path returns the path of the file that name means, behind symbolic links, whether
// or not it is there. The error is a *storeFileError if it is a file of a store, or
// would be taken for one. A file that the standard output goes to is refused, too.
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
		return path, nil // it is not there; or to open it gives the error
	}
	for _, file := range files {
		// The file may have a second name, and names may differ in case only.
		if info, err := os.Stat(filepath.Join(dir, file)); err == nil && os.SameFile(info, target) {
			return path, refused
		}
	}
	return path, nil
}

// Folder returns an error if the new folder name would lie in the folder of a store.
func Folder(name string) error {
	path := follow(name)
	for dir := filepath.Dir(path); ; dir = filepath.Dir(dir) {
		if _, err := os.Stat(dir); err != nil && dir != filepath.Dir(dir) {
			continue // it is to be made, too
		}
		if _, isStore := storeFiles(dir); isStore {
			return fmt.Errorf("%s lies in the folder of the store in %s; name another folder", quoting.Quote(name), quoting.Quote(dir))
		}
		return nil
	}
}

// storeFiles returns the files in dir that have names as a store gives them, and
// tells whether there is a store, or what is left of one.
func storeFiles(dir string) (files []string, isStore bool) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, false // to open a file there gives the error that says more
	}
	for _, e := range entries {
		typ, _, ok := base.ParseFileName(e.Name())
		if !ok {
			continue
		}
		files = append(files, e.Name())
		// A folder without a store may have files such as 20260101.flt.
		isStore = isStore || typ != base.FileFilter && typ != base.FileTemp
	}
	return files, isStore
}

// maxLinks is how many symbolic links lead to a file at most.
const maxLinks = 40

// follow returns what name means, as far as links can be read.
func follow(name string) string {
	for range maxLinks {
		dir, file := filepath.Split(name) // which leaves .. behind a link to the system
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
			return name // no link
		case filepath.IsAbs(to):
			name = to
		default:
			name = dir + string(filepath.Separator) + to
		}
	}
	return name
}

// Open is os.OpenFile for a file that Path accepts.
func Open(name string, flag int, perm os.FileMode) (*os.File, error) {
	path, err := Path(name)
	if err != nil {
		return nil, err
	}
	if info, err := os.Stat(name); err == nil && !info.Mode().IsRegular() {
		path = name // links to pipes cannot be read
	}
	return os.OpenFile(path, flag, perm)
}

// Replace gives the file name new content, as a whole or not at all, durably: those
// who read it meanwhile see the old or the new. The file keeps its permissions. A
// pipe or a device cannot be replaced, and is written into.
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
		_ = fs.Remove(temp) // the error is the one to report
		return result, err
	}
	return result, fs.SyncDir(filepath.Dir(path))
}

// isStandard tells whether file is the standard output, or that of errors.
func isStandard(file os.FileInfo) bool {
	for _, f := range []*os.File{os.Stdout, os.Stderr} {
		if info, err := f.Stat(); err == nil && os.SameFile(info, file) {
			return true
		}
	}
	return false
}

// writeNew writes a new file, with the permissions of old if that is not nil.
func writeNew[T any](fs vfs.FS, name string, old os.FileInfo, write func(w io.Writer) (T, error)) (result T, err error) {
	f, err := fs.Create(name)
	if err != nil {
		return result, err
	}
	if old != nil {
		err = os.Chmod(name, old.Mode().Perm()) // before anything is in it
	}
	if err == nil {
		result, err = write(f)
	}
	if err == nil {
		err = f.Sync()
	}
	return result, errors.Join(err, f.Close())
}

// writeInto writes to a pipe or a device.
func writeInto[T any](name string, write func(w io.Writer) (T, error)) (result T, err error) {
	f, err := os.OpenFile(name, os.O_WRONLY, 0)
	if err != nil {
		return result, err
	}
	result, err = write(f)
	return result, errors.Join(err, f.Close())
}

// ReplaceBytes is Replace with content that is there already.
func ReplaceBytes(name string, content []byte) error {
	_, err := Replace(vfs.Default, name, func(w io.Writer) (int, error) { return w.Write(content) })
	return err
}
