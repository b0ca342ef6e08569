// Package vfs is the file system that shale uses. It has two implementations:
//
//   - Default is that of the operating system.
//   - Mem is in memory. Mem.Crash returns the disk as a machine finds it after
//     a power cut, chosen by a policy and a seed, so tests can crash a store
//     at each of its operations. It also serves stores that need no disk.
//
// Two packages lie over another file system: faultfs makes chosen operations
// fail, and crypt encrypts the files.
//
// Callers may rely on these rules, and on nothing else.
// Mem.Crash takes away whatever goes beyond them:
//
//  1. Bytes are durable when the file's Sync has returned without error.
//  2. A name that was created, renamed, linked or removed is durable when SyncDir
//     of its directory has returned, and not before. MkdirAll syncs by itself.
//  3. Of what is not durable, a crash may leave any part: sectors of
//     512 bytes in any order, sizes without their bytes, names without
//     earlier ones. A rename happens completely or not at all.
//  4. After a failed Sync the data may be lost, even if a later Sync succeeds.
//  5. An open file can be used after its name is removed.
//
// For example: write 000012.tmp, Sync it, Rename it to CURRENT, crash. After
// the crash there is either the old CURRENT, and perhaps 000012.tmp next to
// it, or the new CURRENT with all its bytes. After SyncDir it is the new one.
//
// The package needs only the standard library and knows nothing about stores.
package vfs

import (
	"errors"
	"io"
	"time"
)

// An FS has the file operations that a store needs. Names are paths in the form
// of package path/filepath. Many goroutines may use an FS at the same time.
type FS interface {
	// Create creates an empty file for reading and writing. If a file has this name
	// already, its contents are removed, also for its other names and its readers.
	Create(name string) (File, error)
	// Open opens an existing file for reading.
	Open(name string) (File, error)
	// OpenReadWrite opens an existing file for reading and writing. Write appends at its end.
	OpenReadWrite(name string) (File, error)
	// Rename moves oldname to newname. If newname exists, it is replaced in one step.
	Rename(oldname, newname string) error
	// Remove deletes a file or an empty directory.
	Remove(name string) error
	// Link gives the file oldname the second name newname, which must not exist.
	Link(oldname, newname string) error
	// MkdirAll creates a directory and its missing parents,
	// durably. It is no error if the directory exists.
	MkdirAll(dir string) error
	// List returns the names in a directory, sorted. They are not paths.
	List(dir string) ([]string, error)
	// Stat describes a file or directory.
	Stat(name string) (FileInfo, error)
	// Lock takes the exclusive lock on the file name, until the closer is closed.
	// It creates the file if needed, and the file stays. Lock never waits. If
	// another owner holds the lock, in this process or in another one, the error
	// wraps ErrLocked. It names the owner's process id if that is known.
	Lock(name string) (io.Closer, error)
	// SyncDir makes creations, renames and removals in dir durable.
	SyncDir(dir string) error
}

// A File is an open file. Many goroutines may call ReadAt at the same time. Only
// one may call Write, WriteAt and Truncate, at the same time as readers and Sync.
type File interface {
	io.ReaderAt
	io.WriterAt
	// Write writes at the file's write position, which begins at 0 after Create
	// and at the end after OpenReadWrite. WriteAt does not move the position.
	io.Writer
	// Sync makes the file's data durable, and the part of its metadata that
	// is needed to read the data (fdatasync). A failed Sync is final: what
	// was not durable before may be lost, whatever a later Sync returns.
	Sync() error
	// Truncate changes the size.
	Truncate(size int64) error
	// Preallocate makes the file size bytes long and reserves its blocks. A
	// write within them then needs no room on the disk and changes no metadata.
	// New bytes read as zeros. With ErrUnsupported, nothing was done.
	Preallocate(size int64) error
	// Size returns the length in bytes.
	Size() (int64, error)
	// Close closes the file. It makes nothing durable.
	Close() error
}

// A Mapper is a File whose bytes can be written through memory. ReadAt sees at
// once what was written through a Mapping. The file's Sync makes it durable.
// Without a Sync it survives the process, but not a crash of the machine.
type Mapper interface {
	// Map maps the first size bytes for writing. They must exist and be preallocated.
	// The mapping can be used after Close of the file. With ErrUnsupported, this file
	// can't be mapped, and the caller uses WriteAt of the file.
	Map(size int64) (Mapping, error)
}

// A Mapping is a part of a file that can be written through memory.
type Mapping interface {
	// WriteAt copies p to offset off. If the device fails or is full, the error
	// is the one that a write call gets there (syscall.ENOSPC for a full disk).
	// After an error, nothing may be written through the mapping any more.
	WriteAt(p []byte, off int64) (int, error)
	// Unmap ends the mapping. The file stays open.
	Unmap() error
}

// A SharedLocker is an FS with which readers can keep
// writers out. All file systems of this package and of faultfs are.
type SharedLocker interface {
	// LockShared takes a lock on the file name that others may share, until the closer
	// is closed. Meanwhile Lock fails. The file must exist, and LockShared does not
	// write to it. If another owner holds the file with Lock, the error wraps ErrLocked,
	// as that of Lock does. With ErrUnsupported, this file system has no shared locks.
	LockShared(name string) (io.Closer, error)
}

// A FileInfo describes a file or directory.
type FileInfo struct {
	Size    int64     // bytes
	IsDir   bool      // it is a directory
	ModTime time.Time // when the contents were changed last, as far as the file system says
}

var (
	// ErrLocked says that another owner holds the lock.
	ErrLocked = errors.New("locked")
	// ErrUnsupported says that a file or file system
	// lacks an operation that callers can do without.
	ErrUnsupported = errors.New("not supported by this file system")
)
