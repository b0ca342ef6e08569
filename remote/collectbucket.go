package remote

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"time"

	"github.com/shaledb/shale/remote/internal/bucket"
	"github.com/shaledb/shale/remote/internal/buckets"
	"github.com/shaledb/shale/remote/internal/chain"
	"github.com/shaledb/shale/remote/internal/object"
	"github.com/shaledb/shale/remote/internal/tablefs"
)

// Collect deletes from a bucket what nobody needs any more, instead of the store's writer: that has no right to delete then, so
// that whoever has its machine can't delete the backup. The writer says what may go, with the floor that it raises
// each hour; this call needs no directory, claims nothing, and may be made at any time, next to the writer and readers.
//
// It deletes only tables that a step has named: the writer may be uploading the others. Those that it has uploaded and never
// named, because it had ended before, stay.
func Collect(ctx context.Context, b Bucket) (Collected, error) {
	b = buckets.Retrying(b)
	storeID, err := storeOf(ctx, b)
	for try := 1; err == nil; try++ {
		var done Collected
		done, err = collectFor(ctx, b, storeID)
		if changed := errors.Is(err, ErrFenced) || errors.Is(err, ErrSnapshotGone); !changed || try == chain.ChainTries {
			return done, err
		}
		err = nil // the writer has published a step meanwhile, or raised the floor
	}
	return Collected{}, err
}

// collectFor is one attempt of Collect. A table that was named, and that no step at the floor or above needs, is never named
// again. What names it below the floor is deleted behind it.
func collectFor(ctx context.Context, b Bucket, storeID uint64) (Collected, error) {
	c, err := chain.LoadChain(ctx, b, storeID, 0)
	if err != nil || c.State.Floor == 0 {
		return Collected{}, err
	}
	c.Epoch = c.Step.Epoch
	named := make(map[uint64]bool)
	for _, folder := range []string{object.StateFolder, object.StepFolder} {
		for info, err := range b.List(ctx, folder, "") {
			name, ok := ParseName(info.Name)
			if err == nil && ok && name.Num < c.State.Floor {
				err = addNamedBy(c, ctx, b, name, named)
			}
			if err != nil {
				return Collected{}, fmt.Errorf("remote: collection: %w", err)
			}
			if ok && name.Num >= c.State.Floor {
				break
			}
		}
	}
	spare, err := spareFiles(c, ctx, b, func(num uint64) bool { return !named[num] })
	if err != nil {
		return Collected{}, err
	}
	k, err := chooseGarbage(c, ctx, b, spare, nil)
	if err != nil {
		return Collected{}, err
	}
	return k.delete(ctx, time.Now())
}

// addNamedBy adds the tables and sidecars that a state or step names.
func addNamedBy(c *chain.Chain, ctx context.Context, b Bucket, name Name, named map[uint64]bool) error {
	if name.Kind == KindStep {
		step, err := chain.ReadStep(ctx, b, c.StoreID, name.Num)
		if err != nil {
			return bucket.IgnoreAbsence(err)
		}
		for _, num := range chain.NeedsOf(step).Files {
			named[num] = true
		}
		return nil
	}
	state, err := chain.ReadState(ctx, b, c.StoreID, name.Num)
	if err != nil {
		return bucket.IgnoreAbsence(err)
	}
	maps.Copy(named, tablefs.NumsOf(state.Tables.Version))
	return nil
}
