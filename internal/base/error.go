package base

import (
	"errors"
	"fmt"
	"io/fs"
)

// ErrClosed says that the store was closed. See shale.ErrClosed.
var ErrClosed = errors.New("shale: closed")

// ErrReadOnly says that the store takes no writes. See shale.ErrReadOnly.
var ErrReadOnly = errors.New("shale: store is read-only")

// ErrFormatTooNew says that a file was written by a newer version of shale,
// in a format that this program does not know. The file was not changed.
var ErrFormatTooNew = errors.New("written by a newer version of shale")

// ErrReplaced says that a directory holds another store now, or an older state. See shale.ErrReplaced.
var ErrReplaced = errors.New("the directory holds another store now, or an older state of it: open it again")

// A CorruptionError says that bytes on disk are not what shale wrote. It is about one
// place of one file. Other files, and often other places of the file, can still be read.
type CorruptionError struct {
	File   string // name within the store's directory
	Offset int64  // in bytes from the start of the file; -1 if no single place is at fault
	Part   string // what should have been there: "data block", "log record", ...
	Err    error  // what was wrong with it
}

// Corruption returns a *CorruptionError. Offset -1
// means that no single place of the file is at fault.
// Like FileNum.String it is not inlined.
//
//go:noinline
func Corruption(file string, offset int64, part string, err error) error {
	return &CorruptionError{File: file, Offset: offset, Part: part, Err: err}
}

// Error returns a text with the file, the offset and the part.
func (e *CorruptionError) Error() string {
	if e.Offset < 0 {
		return fmt.Sprintf("corrupt %s: %s: %v", e.File, e.Part, e.Err)
	}
	return fmt.Sprintf("corrupt %s at offset %d: %s: %v", e.File, e.Offset, e.Part, e.Err)
}

// Unwrap returns the cause.
func (e *CorruptionError) Unwrap() error { return e.Err }

// ErrElsewhere says that a table is not in the directory of its store, and that the store keeps tables
// elsewhere too.
var ErrElsewhere = errors.New("shale: the store has tables that are not in its directory")

// MissingIsDamage turns an error that wraps fs.ErrNotExist into a *CorruptionError
// for the file name. It is used for files that must exist, because the manifest or
// another file names them. Other errors are returned unchanged.
func MissingIsDamage(err error, name string) error {
	if errors.Is(err, fs.ErrNotExist) {
		return Corruption(name, -1, "file named by the manifest", err)
	}
	return err
}

// Lasts reports whether err says something about the bytes of a file: they are damaged, or of a newer
// format. Any other error of a read is the device's, or the process's, and another read may succeed.
func Lasts(err error) bool {
	var damage *CorruptionError
	return errors.As(err, &damage) || errors.Is(err, ErrFormatTooNew)
}

// ReadOnly returns an error which says that the store is read-only
// because of cause. errors.Is finds both ErrReadOnly and cause in it.
func ReadOnly(cause error) error {
	if cause == nil {
		return ErrReadOnly
	}
	return fmt.Errorf("%w: %w", ErrReadOnly, cause)
}
