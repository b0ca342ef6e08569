package remote

import (
	"context"
	"slices"

	"golang.org/x/sync/errgroup"

	"github.com/shaledb/shale/remote/internal/tablefs"
)

// deletesAtOnce is how many objects a collection deletes, and how many steps it reads, at the same time.
const deletesAtOnce = 16

// each calls fn for the numbers below n, some of them at the same time, and returns the first error. After an error, the
// context of the calls is done. If c.atOnce is 1, the caller's goroutine makes the calls.
func (c *chain) each(ctx context.Context, n int, fn func(ctx context.Context, i int) error) error {
	if c.atOnce == 1 {
		for i := range n {
			if err := fn(ctx, i); err != nil {
				return err
			}
		}
		return nil
	}
	calls, ctx := errgroup.WithContext(ctx)
	calls.SetLimit(deletesAtOnce)
	for i := range n {
		calls.Go(func() error { return fn(ctx, i) })
	}
	return calls.Wait()
}

// advance applies the steps up to n, which it reads several at a time, and calls fn for what each needs.
func (c *chain) advance(ctx context.Context, b Bucket, n uint64, fn func(stepNeeds)) error {
	from := c.n() + 1
	steps := make([]*Step, n+1-from)
	err := c.each(ctx, len(steps), func(ctx context.Context, i int) (err error) {
		steps[i], err = readStep(ctx, b, c.storeID, from+uint64(i))
		return err
	})
	for _, step := range steps {
		if err == nil {
			err = c.apply(step)
		}
		if err == nil {
			fn(needsOf(step))
		}
	}
	return err
}

// firstLog returns the first of the logs that a step needs. Logs behind it are needed too: for restores to a later time,
// and for writers that look for the end of the list.
func firstLog(extents []Extent) uint64 {
	if len(extents) == 0 {
		return 0
	}
	return extents[0].Log
}

// A stepNeeds is what a step needs that the step before it does not.
type stepNeeds struct {
	n        uint64
	files    []uint64 // the tables and sidecars that it adds
	firstLog uint64
}

// needsOf returns what a step needs.
func needsOf(step *Step) stepNeeds {
	needs := stepNeeds{n: step.N, firstLog: firstLog(step.Extents)}
	if step.Edit == nil {
		return needs
	}
	for _, a := range step.Edit.Added {
		for f := range tablefs.FilesOfTable(a.Table) {
			needs.files = append(needs.files, f.Num)
		}
	}
	for _, s := range step.Edit.Sidecars {
		needs.files = append(needs.files, uint64(s.Sidecar.Num))
	}
	return needs
}

// keepNeeds notes what a step of this owner needs, and forgets the steps that the state at the floor stands for.
func (c *chain) keepNeeds(step *Step) {
	if len(c.needs) > 0 && c.needs[0].n <= c.state.Floor {
		c.needs = slices.DeleteFunc(c.needs, func(s stepNeeds) bool { return s.n <= c.state.Floor })
	}
	c.needs = append(c.needs, needsOf(step))
}
