package remote

import (
	"errors"
	"fmt"
	"iter"

	"github.com/shaledb/shale"
	"github.com/shaledb/shale/internal/base"
	"github.com/shaledb/shale/remote/internal/localdir"
	"github.com/shaledb/shale/vfs"
	"github.com/shaledb/shale/wal"
)

// What a directory has and its bucket lacks. It is the only place where writes still are that a
// fenced writer had acknowledged and not shipped.

// An Unshipped is a batch that a directory has and its bucket lacks.
type Unshipped struct {
	Seq uint64 // the number of its first operation
	// Batch is for reading, until the next step of the loop: copy its Ops into a batch of your own to
	// write them to another store. If Batch.Ingested says so, it stands for keys that were ingested, which
	// are in a table of the directory.
	Batch *shale.Batch
}

// Salvage lists what the writer of a directory had not shipped, in the order of writing. It is for
// directories that were fenced: the store goes on elsewhere without these writes, and the
// program may have use for them. It changes nothing. nil stands for vfs.Default.
//
// If the writer has noticed that it was fenced, the list is exact. If its process or its machine had
// ended before, the list may begin with writes that are in the bucket. The store in the directory
// can still be opened by package shale, to read; if it was opened to write since, it may have let go of
// logs, and the list has less.
//
// After an error, which comes with an empty Unshipped, the list ends.
func Salvage(fsys vfs.FS, dir string) iter.Seq2[Unshipped, error] {
	setDefault(&fsys, vfs.Default)
	return func(yield func(Unshipped, error) bool) {
		err := salvage(fsys, dir, func(u Unshipped) bool { return yield(u, nil) })
		if err != nil && !errors.Is(err, errStopped) {
			yield(Unshipped{}, fmt.Errorf("remote: salvage %s: %w", dir, err))
		}
	}
}

// errStopped says that the caller of Salvage has ended its loop.
var errStopped = errors.New("the loop has ended")

// salvage passes on the batches of the logs whose numbers are above the last one that was shipped.
func salvage(fsys vfs.FS, dir string, yield func(Unshipped) bool) error {
	logs, err := localdir.LogNumbers(fsys, dir)
	if err != nil {
		return err
	}
	n, err := localdir.ReadRecord(fsys, dir)
	if err != nil {
		return err
	}
	if n == nil {
		return errors.New("the directory has no notes about a bucket: it was never kept in one, so there is nothing that a bucket lacks")
	}
	for _, num := range logs {
		_, err := wal.Read(fsys, dir, num, n.StoreID, wal.ReadOptions{Known: -1}, func(payload []byte) error {
			seq, b, err := shale.DecodeBatch(payload)
			switch {
			case err != nil:
				return base.Corruption(base.LogName(num), -1, "batch", err)
			case b.Len() == 0 || seq <= n.LastSeq:
				return nil // the bucket has it
			case !yield(Unshipped{Seq: seq, Batch: b}):
				return errStopped
			}
			return nil
		})
		if err != nil && !errors.Is(err, wal.ErrNeverUsed) {
			return err
		}
	}
	return nil
}
