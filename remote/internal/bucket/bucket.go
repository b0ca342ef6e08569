// Package bucket is the interface between the packages of remote and an object store, with what every Bucket and
// every caller of one needs: names, checksums, whole objects. It knows nothing of stores.
package bucket

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"strings"
)

// A Bucket is a remote.Bucket, whose comments say what its methods promise.
type Bucket interface {
	Put(ctx context.Context, name string, body io.ReaderAt, size int64, crc32c uint32, absent bool) error
	ReadAt(ctx context.Context, name string, p []byte, off int64) (int, error)
	Stat(ctx context.Context, name string) (Info, error)
	List(ctx context.Context, prefix, after string) iter.Seq2[Info, error]
	Delete(ctx context.Context, name string) error
}

// An Info describes an object. There is no time in it: nothing may be decided by a clock.
type Info struct {
	Name string
	Size int64 // bytes
	// CRC32C is the checksum that Put was given. Only Stat knows it; List leaves 0, because the
	// lists of object stores do not have it.
	CRC32C uint32
}

// Errors of a Bucket: see remote.
var (
	ErrExists   = fmt.Errorf("object exists: %w", fs.ErrExist)
	ErrChecksum = errors.New("wrong checksum")
)

// maxName and MaxNamePart are the largest lengths of a name, and of its parts between slashes, in
// bytes. Object stores allow 1,024 bytes, of which a prefix takes some, and file systems 255 for
// each part.
const (
	maxName     = 512
	MaxNamePart = 200
)

// CheckName returns an error if name is not that of an object: see remote.CheckName.
func CheckName(name string) error {
	if len(name) > maxName {
		return fmt.Errorf("object name of %d bytes, at most %d are allowed", len(name), maxName)
	}
	for part := range strings.SplitSeq(name, "/") {
		if !IsNamePart(part) {
			return fmt.Errorf("%q is not the name of an object: the part %q must have 1 to %d lower-case letters, digits, '.', '-' or '_', and no '.' at either end",
				name, part, MaxNamePart)
		}
	}
	return nil
}

// IsNamePart reports whether s may stand between two slashes of a name.
func IsNamePart(s string) bool {
	if s == "" || len(s) > MaxNamePart || s[0] == '.' || s[len(s)-1] == '.' {
		return false
	}
	for _, c := range []byte(s) {
		if !(c >= 'a' && c <= 'z' || c >= '0' && c <= '9' || c == '.' || c == '-' || c == '_') {
			return false
		}
	}
	return true
}

// CheckCall returns the error with which a call of a bucket that is about the object name ends before
// it does anything, or nil.
func CheckCall(ctx context.Context, name string) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	return CheckName(name)
}

// CallError adds the call and the object to an error. It returns nil for nil.
func CallError(call, name string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("remote: %s %q: %w", call, name, err)
}

// Window returns the part of an object of the given size that ReadAt reads into n bytes at off, as
// Bucket says: where it begins and its length. With a length below n the object ends within it.
func Window(size, off int64, n int) (from, length int64) {
	if off < 0 {
		off = max(0, size-int64(n))
	}
	return off, max(0, min(int64(n), size-off))
}
