package remote

import (
	"context"

	"github.com/shaledb/shale/remote/internal/buckets"
	"github.com/shaledb/shale/vfs"
)

// NewDir returns a bucket in a directory of fsys, which is made if it is missing; its parent is
// synced then. nil stands for vfs.Default. The file system must have hard links.
//
// An object takes a few syncs: of its file, and of the directories on the way to it. A directory
// without objects is removed, except for dir itself. Files that are not objects of the bucket must
// not be put there.
func NewDir(fsys vfs.FS, dir string) (Bucket, error) { return buckets.NewDir(fsys, dir) }

// NewMem returns an empty bucket in memory, for tests. Nothing of it survives the process.
func NewMem() Bucket { return buckets.NewMem() }

// Retrying returns a bucket that passes its calls to b. It repeats a call that fails with an error that may pass, after
// 50 ms, then twice as long each time up to 5 s, for 30 s in all. A call that hangs is ended by its context and
// repeated, too: after 5 s, then twice as long each time, and a second more for each 256 KiB. If b calls
// Progress, this time begins again there. The error of a call that hangs wraps os.ErrDeadlineExceeded. An error with a
// method Permanent() bool that returns true is returned at once. A Put that creates an object and whose answer was
// lost succeeds if the object has its bytes. Stores and readers wrap their buckets themselves.
func Retrying(b Bucket) Bucket { return buckets.Retrying(b) }

// Progress says that a call of a Bucket, which has this context, has moved bytes and does not hang. A Bucket calls it
// when a call begins, and for each piece of an object, until the call ends. Without it an attempt has the time that
// Retrying states for its size, however fast the bytes move.
func Progress(ctx context.Context) { buckets.Progress(ctx) }

// Errors of Probe. Each names a promise that a store relies on and the bucket does not keep.
var (
	// ErrIgnoresConditions says that Put with absent replaced an object. Two writers could then both
	// take themselves for the owner of a store.
	ErrIgnoresConditions = buckets.ErrIgnoresConditions

	// ErrIgnoresChecksums says that Put made an object of bytes that do not have the checksum
	// stated for them. Damage on the way would then be found only when the object is needed.
	ErrIgnoresChecksums = buckets.ErrIgnoresChecksums

	// ErrInconsistent says that a call did not see what another call had done, or returned other
	// bytes than asked for.
	ErrInconsistent = buckets.ErrInconsistent
)

// Probe finds out whether a bucket keeps those promises of Bucket that servers are known to break.
// It makes three objects with random names that begin with "probe/", tries the calls on them, and
// deletes them. That takes some forty requests. If the bucket is not fit for a store, the error wraps
// [ErrIgnoresConditions], [ErrIgnoresChecksums] or [ErrInconsistent]. With any other error the bucket
// could not be used at all.
//
// Credentials need not have the right to delete. Without it the three objects always have the same names, and
// stay; then races are tried only the first time.
//
// It does not try large objects, or whether objects are durable: buckettest.Run does more.
func Probe(ctx context.Context, b Bucket) error { return buckets.Probe(ctx, b, true) }
