package shale

import (
	"errors"
	"fmt"
	"io/fs"

	"github.com/shaledb/shale/internal/base"
	"github.com/shaledb/shale/vfs"
)

// This file has the errors that programs may ask for.

// Errors of reads.
var (
	// ErrNotFound is returned by Get, AppendValue and ViewValue for a key
	// that is not there. errors.Is(ErrNotFound, fs.ErrNotExist) holds.
	ErrNotFound error = notFound{}
)

// Errors of writes.
var (
	// ErrReadOnly is wrapped by the error of every write to a store that was
	// opened read-only, or that an error has made so: then the cause is wrapped
	// too, and Err returns it. If the cause is a lack of room (syscall.ENOSPC),
	// or that the next log can't be created or a memtable not be flushed, the
	// store takes writes again by itself once the cause is gone; EventReadOnly
	// and EventResumed report both. After any other error of the log, such as
	// a failed sync, it takes Resume or another Open. A write to a transaction
	// or a Sub that only reads gives ErrReadOnly in every store.
	ErrReadOnly = base.ErrReadOnly

	// ErrKeyTooLarge is wrapped when a key has more than MaxKeySize bytes.
	ErrKeyTooLarge = errors.New("shale: key too large")

	// ErrBatchNotWritable is wrapped when Write gets a batch that is nil or came
	// from DecodeBatch. Nothing is written.
	ErrBatchNotWritable = errors.New("shale: batch is not writable")

	// ErrIngested is wrapped by the error of an Ingest whose keys are in the store all the same,
	// durable and visible, and stay there: ShippingOptions.Gate has refused the ingestion, or
	// could not be asked. So what is missing is not the ingestion but its acknowledgement.
	ErrIngested = errors.New("shale: ingested, but not acknowledged")

	// ErrIngestInDoubt is wrapped by the error of an Ingest that could not write the manifest.
	// The keys are not visible. Only another Open shows whether they are there.
	ErrIngestInDoubt = errors.New("shale: ingestion in doubt")

	// ErrNotAscending is wrapped when Ingest meets a key that is not above the
	// one before it.
	ErrNotAscending = errors.New("shale: keys do not ascend")

	// ErrValueTooLarge is wrapped when a value has more than MaxValueSize
	// bytes, or a batch would grow beyond MaxBatchSize.
	ErrValueTooLarge = errors.New("shale: value too large")
)

// Errors of Open and of the store's life.
var (
	// ErrClosed is returned by every call on a store, snapshot or iterator
	// after Close.
	ErrClosed = base.ErrClosed

	// ErrLocked is wrapped by the error of Open when the store is open for
	// writing elsewhere. The message names the owner's process id.
	ErrLocked = vfs.ErrLocked

	// ErrMoved is wrapped by the error of Err, of writes and of Close once the
	// store has found that its directory was renamed, removed or replaced while
	// it was open, for instance by a backup that was restored. It takes no
	// writes and changes no file any more, also if the directory comes back.
	// Reads go on as far as the files are there. Close the store and open the
	// one that is there now. Writes that were acknowledged as synced before the
	// change are in the directory that was open, wherever it is now. Later
	// writes may be missing.
	ErrMoved = vfs.ErrMoved

	// ErrFormatTooNew is wrapped when a file was written by a newer version
	// of shale. The file was left as it is.
	ErrFormatTooNew = base.ErrFormatTooNew

	// ErrElsewhere is wrapped by the error of Open when a table is not in the
	// directory, and the store keeps tables elsewhere too, such as in a bucket.
	// The message says where. Nothing is damaged: open the store with the
	// package that has put them there. A Checkpoint of such a store, which
	// would have to copy them, wraps it too.
	ErrElsewhere = base.ErrElsewhere

	// ErrChangesGone is wrapped by the error of Changes when the logs do not
	// reach back to the number that was asked for, or have a gap. The message
	// names the first number there is. Begin again with a Snapshot or a
	// Checkpoint; Options.KeepLog keeps logs for longer.
	ErrChangesGone = errors.New("shale: changes are gone")

	// ErrReplaced is wrapped by the error of Advance when the directory holds
	// another store than the one that was opened, or a state of it that does not
	// come after what the handle shows, because a backup was restored there. The
	// handle shows what it has shown before. Close it, and open the store again.
	// A read wraps it, too, if it has to open a table again and finds another one;
	// and Changes, if it is asked for changes after a number that was not given out yet, or
	// if the writer has taken back what a read-only handle has shown.
	ErrReplaced = base.ErrReplaced
)

// A CorruptionError reports bytes on disk that are not what shale wrote, with
// the file, the offset and the cause. Ask for it with errors.As. It concerns
// one place: other reads go on.
type CorruptionError = base.CorruptionError

// notFound has no fields, so that ErrNotFound costs nothing to return.
type notFound struct{}

func (notFound) Error() string        { return "shale: not found" }
func (notFound) Is(target error) bool { return target == fs.ErrNotExist }

// callError adds to an error the call that it comes from. If the store was closed
// meanwhile, it returns ErrClosed itself. A store that is read-only is open: an ErrClosed
// in its reason is the program's, from ShippingOptions.Gate.
func callError(call string, err error) error {
	if errors.Is(err, ErrClosed) && !errors.Is(err, ErrReadOnly) {
		return ErrClosed
	}
	return fmt.Errorf("shale: %s: %w", call, err)
}
