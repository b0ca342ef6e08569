// Package vfs is the file system as shale sees it, three times:
//
//   - Default is the operating system's.
//   - Mem is in memory. Mem.Crash gives the disk as a machine finds it after a
//     power cut, under a policy and a seed, so that tests can crash a store at
//     each of its operations. It is also the place of stores without a disk.
//   - FaultFS lies over another one and fails the operations it is told to.
//
// What callers may rely on, and Mem takes away whatever goes beyond it:
//
//  1. Bytes are durable when the file's Sync has returned without error.
//  2. A name (created, renamed, linked or removed) is durable when SyncDir of
//     its directory has returned, and not before. MkdirAll syncs by itself.
//  3. Of what is not durable a crash may leave any part: sectors of 512 bytes
//     in any order, sizes without their bytes, names without earlier ones.
//     A rename is done or not, never half.
//  4. After a failed Sync the data may be lost though a later one succeeds.
//  5. An open file outlives its name.
//
// For example: write 000012.tmp, Sync it, Rename it to CURRENT, crash. There
// is the CURRENT from before, with 000012.tmp beside it or without, or the new
// CURRENT with all its bytes. After SyncDir it is the new one.
//
// The package needs the standard library only and knows nothing of stores.
package vfs

import (
	"errors"
	"io"
	"time"
)

// FS is the file operations that a store needs. Names are paths in the form of
// package path/filepath. Implementations may be used by many goroutines at
// once.
type FS interface {
	// Create makes an empty file for reading and writing. A file that has the
	// name is emptied, under its other names and for its readers too.
	Create(name string) (File, error)
	// Open opens an existing file for reading.
	Open(name string) (File, error)
	// OpenReadWrite opens an existing file for reading and writing; Write
	// goes on at its end.
	OpenReadWrite(name string) (File, error)
	// Rename moves oldname to newname, replacing it in one step.
	Rename(oldname, newname string) error
	// Remove deletes a file or an empty directory.
	Remove(name string) error
	// Link gives the file oldname the second name newname, which must be free.
	Link(oldname, newname string) error
	// MkdirAll makes a directory and its parents, durably; an existing one is
	// no error.
	MkdirAll(dir string) error
	// List returns the names (not paths) in a directory, sorted.
	List(dir string) ([]string, error)
	// Stat describes a file or directory.
	Stat(name string) (FileInfo, error)
	// Lock takes the exclusive lock on the file name, creating it if needed,
	// until the closer is closed. It never waits. If someone else, in this
	// process or another, holds the lock, the error wraps ErrLocked and names
	// the owner's process id where it is known. The file itself stays.
	Lock(name string) (io.Closer, error)
	// SyncDir makes creations, renames and removals in dir durable.
	SyncDir(dir string) error
}

// A File is an open file. ReadAt may be called by many goroutines at once;
// Write, WriteAt and Truncate by one, beside readers and Sync.
type File interface {
	io.ReaderAt
	io.WriterAt
	// Write appends at the file's write position, which starts at 0 for
	// Create and at the end for OpenReadWrite. WriteAt does not move it.
	io.Writer
	// Sync makes the file's data durable, and as much of its metadata as is
	// needed to read the data back (fdatasync). A failed Sync is final: what
	// was not durable before may be lost, whatever a later Sync returns.
	Sync() error
	// Truncate changes the size.
	Truncate(size int64) error
	// Preallocate makes the file size bytes long with its blocks reserved, so
	// that writing within it can neither fill the disk nor change metadata.
	// New bytes read as zeros. ErrUnsupported: nothing was done.
	Preallocate(size int64) error
	// Size returns the length in bytes.
	Size() (int64, error)
	Close() error
}

// A Mapper is a File whose bytes can be written through memory. What was
// written through a Mapping is seen by ReadAt at once, made durable by the
// file's Sync, and survives the process, but not the machine, without it.
type Mapper interface {
	// Map maps the first size bytes for writing. They must exist and be
	// preallocated. The mapping outlives Close of the file. ErrUnsupported:
	// this file can't be mapped; use WriteAt.
	Map(size int64) (Mapping, error)
}

// A Mapping is a writable window on a file.
type Mapping interface {
	// WriteAt copies p to offset off. Where that is not possible because the
	// device fails or has no room, the error is the one that a write call gets
	// there (syscall.ENOSPC for a full disk). After an error nothing may be
	// written through the mapping any more.
	WriteAt(p []byte, off int64) (int, error)
	// Unmap ends the mapping. The file stays open.
	Unmap() error
}

// A SharedLocker is an FS that lets readers keep writers out. Those of this
// package are.
type SharedLocker interface {
	// LockShared takes the lock on the file name, which must exist, together
	// with others who share it, until the closer is closed: meanwhile Lock
	// fails. It writes nothing. If a Lock of someone else holds the file, the
	// error wraps ErrLocked as that of Lock does; ErrUnsupported: this file
	// system can't.
	LockShared(name string) (io.Closer, error)
}

// FileInfo describes a file.
type FileInfo struct {
	Size    int64
	IsDir   bool
	ModTime time.Time
}

var (
	// ErrLocked is wrapped by the error of a Lock that someone else holds.
	ErrLocked = errors.New("locked")
	// ErrUnsupported says that a file or file system lacks an ability that
	// callers can do without.
	ErrUnsupported = errors.New("not supported by this file system")
)
