package remote

import (
	"context"
	"io"
	"iter"

	"github.com/shaledb/shale/remote/internal/bucket"
	"github.com/shaledb/shale/remote/internal/object"
)

// A Bucket holds objects: names with bytes. It is strongly consistent: once Put or Delete has
// returned without error, every later Stat, ReadAt and List of any process sees the change. An object
// is durable when its Put returns, and also when another Put fails because of it with [ErrExists].
//
// Names are as [CheckName] says; every method but List returns an error for any other name. A bucket
// need not have room for an object "a" next to an object "a/b". Sizes and offsets are in bytes.
//
// Each method returns an error that wraps that of ctx if ctx is done when it begins, and then has done nothing. A call
// ends soon after ctx is done; that is how callers end one that hangs (see [Progress]). Any error of Put and Delete
// other than the ones listed there leaves unknown whether the object was made or removed, because an answer may get
// lost. The caller may try again.
//
// Any number of goroutines may call the methods at the same time.
type Bucket interface {
	// Put makes an object of the first size bytes of body, whole or not at all. The caller states
	// their crc32c (Checksum), and the bucket itself checks it where it keeps the object: if the bytes
	// that have arrived do not match, the error wraps ErrChecksum and nothing is made.
	//
	// If absent is set and there is an object with this name, the error wraps ErrExists and that
	// object stays as it is. Of any number of such calls at the same time one succeeds, the others
	// get ErrExists. If absent is not set, the object replaces the one that was there, in one step.
	//
	// If body ends early, the error wraps io.ErrUnexpectedEOF and nothing is made. Put may read body
	// several times and from several goroutines, and does not use it after it has returned.
	Put(ctx context.Context, name string, body io.ReaderAt, size int64, crc32c uint32, absent bool) error

	// ReadAt reads bytes of an object into p, from offset off. If off is negative, it reads the last
	// len(p) bytes, or the whole object if that is shorter. As with io.ReaderAt, it returns how many
	// bytes it has read, and io.EOF itself if these are fewer than len(p) because the object ends. If
	// there is no such object, the error wraps fs.ErrNotExist.
	//
	// The bytes are not checked. The caller checks them against a checksum that it knows, of a block,
	// of a record, or of the whole object (Stat). Requires: p is not empty.
	ReadAt(ctx context.Context, name string, p []byte, off int64) (int, error)

	// Stat describes an object, with its checksum. If there is no such object, the error wraps
	// fs.ErrNotExist.
	Stat(ctx context.Context, name string) (Info, error)

	// List goes through the objects whose names begin with prefix and are greater than after, in
	// ascending order of the bytes of their names. prefix and after are any strings, and may be
	// empty. Objects that are made or deleted meanwhile may be left out or not. After an error, which
	// comes with an empty Info, it ends. The caller may stop at any time.
	List(ctx context.Context, prefix, after string) iter.Seq2[Info, error]

	// Delete removes an object. It is no error if there is none.
	Delete(ctx context.Context, name string) error
}

// An Info describes an object: its Name, its Size in bytes, and CRC32C, the checksum that Put was given, which only
// Stat knows. There is no time in it: nothing may be decided by a clock.
type Info = bucket.Info

var (
	// ErrExists is wrapped by the error of a Put that must create an object whose name is taken.
	// errors.Is(ErrExists, fs.ErrExist) holds.
	ErrExists = bucket.ErrExists

	// ErrChecksum is wrapped when the bytes of an object do not have the checksum that was stated
	// for them: by Put, which then makes nothing, and by ReadObject.
	ErrChecksum = bucket.ErrChecksum
)

// IdentityName is the name of the object that says which store a bucket has. It is the first that is made.
const IdentityName = object.IdentityName

// CheckName returns an error if name is not that of an object. Names have 1 to 512 bytes. They
// consist of one or more parts with slashes between them. A part has 1 to 200 bytes: lower-case
// letters, digits, '.', '-' and '_'. It does not begin or end with a '.'.
//
// So every name can be the path of a file on every system, and means the same file on systems that
// do not distinguish upper and lower case.
func CheckName(name string) error { return bucket.CheckName(name) }

// Checksum returns the crc32c of b: CRC-32 with the Castagnoli polynomial.
func Checksum(b []byte) uint32 { return bucket.Checksum(b) }

// PutObject makes an object of the bytes of data, with their checksum. absent and the error are
// those of [Bucket.Put].
func PutObject(ctx context.Context, b Bucket, name string, data []byte, absent bool) error {
	return bucket.PutObject(ctx, b, name, data, absent)
}

// ReadObject returns all bytes of an object, and checks them against the checksum that Put was
// given: if they differ, the error wraps [ErrChecksum]. It refuses an object of more than most bytes.
// If there is no such object, the error wraps fs.ErrNotExist. The result belongs to the caller.
func ReadObject(ctx context.Context, b Bucket, name string, most int64) ([]byte, error) {
	return bucket.ReadObject(ctx, b, name, most)
}
