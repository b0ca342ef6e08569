package chain

import (
	"cmp"
	"context"
	"slices"

	"golang.org/x/sync/errgroup"

	"github.com/shaledb/shale/remote/internal/bucket"
	"github.com/shaledb/shale/remote/internal/object"
	"github.com/shaledb/shale/remote/internal/tablefs"
)

// What the steps at the floor and above need is what a collection keeps. An owner remembers that of its own steps (Needs), so
// that a collection each hour reads few of them; another collector reads all.

// CallsAtOnce is how many objects a collection deletes, and how many steps it reads, at the same time.
// The owner ships and publishes meanwhile, so a collection does not take all that the bucket can
// do.
const CallsAtOnce = 16

// Each calls fn for the numbers below n, some of them at the same time, and returns the first error. After an error no
// call begins, and the context of the others is done. If c.AtOnce is 1, the caller's goroutine makes the calls.
func (c *Chain) Each(ctx context.Context, n int, fn func(ctx context.Context, i int) error) error {
	if c.AtOnce == 1 {
		for i := range n {
			if err := fn(ctx, i); err != nil {
				return err
			}
		}
		return nil
	}
	calls, callCtx := errgroup.WithContext(ctx)
	calls.SetLimit(CallsAtOnce)
	for i := 0; i < n && callCtx.Err() == nil; i++ {
		calls.Go(func() error { return fn(callCtx, i) })
	}
	return cmp.Or(calls.Wait(), ctx.Err())
}

// Advance applies the steps up to n, which it reads several at a time, and calls fn for what each needs, in
// their order. After an error it may have applied some.
func (c *Chain) Advance(ctx context.Context, b bucket.Bucket, n uint64, fn func(StepNeeds)) error {
	from := c.N() + 1
	// The steps are read in any order and applied in their own. The caller bounds how many are in
	// memory.
	steps := make([]*object.Step, n+1-from)
	err := c.Each(ctx, len(steps), func(ctx context.Context, i int) (err error) {
		steps[i], err = ReadStep(ctx, b, c.StoreID, from+uint64(i))
		return err
	})
	for _, step := range steps {
		if err == nil {
			err = c.Apply(step)
		}
		if err == nil {
			fn(NeedsOf(step))
		}
	}
	return err
}

// FirstLog returns the first of the logs that a step needs. Logs behind it are needed too: for restores to a later time,
// and for writers that look for the end of the list.
func FirstLog(extents []object.Extent) uint64 {
	if len(extents) == 0 {
		return 0
	}
	return extents[0].Log
}

// A StepNeeds is what a step needs that the step before it does not.
type StepNeeds struct {
	N        uint64
	Files    []uint64 // the tables and sidecars that it adds
	FirstLog uint64
}

// NeedsOf returns what a step needs.
func NeedsOf(step *object.Step) StepNeeds {
	// A step names tables only when they are new. Those that it keeps were counted with an earlier
	// step, or with the state at the floor.
	needs := StepNeeds{N: step.N, FirstLog: FirstLog(step.Extents)}
	if step.Edit == nil {
		return needs
	}
	for _, a := range step.Edit.Added {
		for f := range tablefs.FilesOfTable(a.Table) {
			needs.Files = append(needs.Files, f.Num)
		}
	}
	for _, s := range step.Edit.Sidecars {
		needs.Files = append(needs.Files, uint64(s.Sidecar.Num))
	}
	return needs
}

// keepNeeds notes what a step of this owner needs, and forgets the steps up to the floor, whose state says it.
func (c *Chain) keepNeeds(step *object.Step) {
	if len(c.Needs) > 0 && c.Needs[0].N <= c.State.Floor {
		c.Needs = slices.DeleteFunc(c.Needs, func(s StepNeeds) bool { return s.N <= c.State.Floor })
	}
	c.Needs = append(c.Needs, NeedsOf(step))
}
