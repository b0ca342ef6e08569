package remote

import (
	"context"
	"errors"

	"github.com/shaledb/shale/remote/internal/buckets"
	"github.com/shaledb/shale/remote/internal/chain"
	"github.com/shaledb/shale/remote/internal/collect"
)

// Collect is for another process than the store's writer. The writer's own collections are in
// collecting.go.

// Collected says what a collection has deleted: tables and sidecars (Tables), Segments, Steps, States, Pins that had
// expired, and the Bytes of all of them. Floor is the first step that is kept.
type Collected = collect.Deleted

// Collect deletes from a bucket what nobody needs any more, instead of the store's writer: that has no right
// to delete then, so that whoever has its machine can't delete the backup. The writer says what may go, with
// the floor that it raises each hour; this call needs no directory, claims nothing, and may be made at any
// time, next to the writer and readers.
//
// It deletes only tables that a step has named: the writer may be uploading the others. Those that it has uploaded and never
// named, because it had ended before, stay.
func Collect(ctx context.Context, b Bucket) (Collected, error) {
	b = buckets.Retrying(b)
	storeID, err := storeOf(ctx, b)
	for try := 1; err == nil; try++ {
		var done Collected
		done, err = collect.ByAnother(ctx, b, storeID)
		if changed := errors.Is(err, ErrFenced) || errors.Is(err, ErrSnapshotGone); !changed || try == chain.ChainTries {
			return done, err
		}
		err = nil // the writer has published a step meanwhile, or raised the floor
	}
	return Collected{}, err
}
