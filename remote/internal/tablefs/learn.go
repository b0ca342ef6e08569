package tablefs

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"sync/atomic"

	"github.com/shaledb/shale/manifest"
	"github.com/shaledb/shale/remote/internal/object"
	"golang.org/x/sync/errgroup"
)

// Which files may be opened, how their tails come, and the tables that a store does without.

// Know makes the files of a version those that can be opened. The tails of others go, unless they are open.
func (b *Tables) Know(v *manifest.Version) {
	b.Order(v)
	next := make(map[uint64]File)
	for f := range FilesOf(v) {
		next[f.Num] = f
	}
	b.mu.Lock()
	var gone []fileID
	for num, f := range b.known {
		// A file that is open keeps its tail. The last release lets it go.
		if next[num].fileID != f.fileID && b.opened[f.fileID] == nil {
			gone = append(gone, f.fileID)
		}
	}
	b.known = next
	maps.DeleteFunc(b.lost, func(id fileID, _ error) bool { return next[id.Num].fileID != id })
	b.mu.Unlock()
	for _, id := range gone {
		b.Tails.forget(id)
	}
}

// Learn makes files known in addition to the others, and gets their tails, many at a time.
// After an error some files are known without their tails. They get them when they are opened, or
// by the next call.
func (b *Tables) Learn(ctx context.Context, files []File) error {
	b.add(files)
	return b.getTails(ctx, files)
}

// LearnFirst is Learn for files that are the only ones so far, that no local file has, and that are opened next. It fetches the
// tails that have no local file, so that many come at a time, and leaves the others to open. Local files of other tails are
// removed. It owns files. Requires: nobody uses b yet.
func (b *Tables) LearnFirst(ctx context.Context, files []File) error {
	b.known = make(map[uint64]File, len(files))
	b.Tails.expect(len(files))
	for i := range files {
		files[i].away = true
	}
	b.add(files)
	local := make(map[uint64]bool, len(files))
	if err := b.Tails.Sweep(func(o object.Name) bool {
		there := b.Has(o)
		if there {
			local[o.Num] = true
		}
		return there
	}); err != nil {
		return err
	}
	return b.getTails(ctx, slices.DeleteFunc(files, func(f File) bool { return local[f.Num] }))
}

func (b *Tables) add(files []File) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, f := range files {
		b.known[f.Num] = f
	}
}

// getTails gets the tails of files, many at a time. A goroutine for each file would grow a stack for each.
func (b *Tables) getTails(ctx context.Context, files []File) error {
	fetches, fetchCtx := errgroup.WithContext(ctx)
	var next atomic.Int64
	for range min(maxBackground, len(files)) {
		fetches.Go(func() error {
			for fetchCtx.Err() == nil {
				i := next.Add(1) - 1
				if i >= int64(len(files)) {
					break
				}
				f := files[i]
				_, err := b.Tails.get(fetchCtx, f)
				if object.IsDamage(err) && (f.Kind != object.KindTable || b.doWithout(f, err)) {
					err = nil // a store does without a damaged sidecar
				}
				if err != nil {
					return err
				}
			}
			return nil
		})
	}
	return cmp.Or(fetches.Wait(), ctx.Err())
}

// doWithout reports whether the store does without a table whose object is damaged, and notes what is wrong
// with it. It does so only if the Reader has found no state that is whole, or has begun with such a state
// before.
func (b *Tables) doWithout(f File, err error) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.Around.Load() || b.lost[f.fileID] != nil {
		b.lost[f.fileID] = err
		return true
	}
	return false
}

// isLost reports whether the store does without a table.
func (b *Tables) isLost(o object.Name) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.lost[b.known[o.Num].fileID] != nil
}

// Damage returns one of the tables that the store does without, and why. If there is none, err is nil.
func (b *Tables) Damage() (f File, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for id, err := range b.lost {
		return b.known[id.Num], err
	}
	return f, nil
}

// Mended looks whether one of the tables that the store does without is whole again, and reports that.
// It asks for one table a call, so a bucket with much damage costs a poll one request more.
func (b *Tables) Mended(ctx context.Context) bool {
	f, err := b.Damage()
	if err == nil {
		return false
	}
	if _, err = b.Tails.get(ctx, f); err == nil {
		b.mu.Lock()
		delete(b.lost, f.fileID)
		b.mu.Unlock()
	}
	return err == nil
}
