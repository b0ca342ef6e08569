package remote

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"sync/atomic"

	"github.com/shaledb/shale"
	"github.com/shaledb/shale/internal/base"
	"github.com/shaledb/shale/manifest"
)

// fetch brings the tables and sidecars, several at the same time.
func (r *restore) fetch(ctx context.Context) error {
	tables := slices.Collect(r.moment.state.Tables.Version.Tables())
	total := int64(0)
	for _, t := range tables {
		total += t.Size
		if t.Sidecar != nil {
			total += t.Sidecar.Size
		}
	}
	r.arrive(0, total)
	var kept atomic.Int64
	err := together(ctx, r.opts.Fetches, len(tables), func(ctx context.Context, i int) error {
		t := tables[i]
		there, err := r.fetchOne(ctx, t, total)
		if err == nil && t.Sidecar != nil {
			err = r.fetchSidecar(ctx, t, total)
		}
		kept.Add(there)
		return err
	})
	r.done.Tables, r.done.Kept, r.done.Missing = len(tables), kept.Load(), r.missing
	slices.Sort(r.done.Missing)
	r.done.Bytes += r.arrived
	return err
}

// fetchOne brings one table, unless an interrupted restore has. kept is its size if it has.
func (r *restore) fetchOne(ctx context.Context, t *manifest.Table, total int64) (kept int64, err error) {
	path := r.path(base.TableName(t.Num))
	if info, err := r.fs.Stat(path); err == nil && r.opts.warm.has(path, t) && info.Size == t.Size {
		r.arrive(t.Size, total)
		return t.Size, nil
	} else if err == nil && checkTable(ctx, r.fs, path, r.done.StoreID, t) == nil {
		r.opts.warm.add(path, t)
		r.arrive(t.Size, total)
		return t.Size, nil
	}
	from, err := r.bucketOf(uint64(t.Num))
	if err != nil {
		return 0, err
	}
	b := arriving{from, func(n int64) { r.arrive(n, total) }}
	if err := fetchTable(ctx, b, r.done.StoreID, r.fs, path, t); err != nil {
		return 0, err
	}
	r.opts.warm.add(path, t)
	return 0, nil
}

// fetchSidecar brings the sidecar of a table. A store does without a sidecar that is missing or damaged.
func (r *restore) fetchSidecar(ctx context.Context, t *manifest.Table, total int64) error {
	path := r.path(base.FilterName(t.Sidecar.Num))
	from, err := r.bucketOf(uint64(t.Sidecar.Num))
	if err != nil {
		return err
	}
	err = fetchFilter(ctx, from, r.done.StoreID, r.fs, path, t)
	r.arrive(t.Sidecar.Size, total)
	r.mu.Lock()
	defer r.mu.Unlock()
	var damage *shale.CorruptionError
	if errors.As(err, &damage) {
		r.missing = append(r.missing, FilterName(uint64(t.Sidecar.Num)))
		if err = r.fs.Remove(path); errors.Is(err, fs.ErrNotExist) {
			err = nil
		}
		return err
	}
	r.done.Filters++
	return err
}

// arrive counts bytes of tables and sidecars, and reports them.
func (r *restore) arrive(n, total int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.arrived += n
	if r.opts.Progress != nil {
		r.opts.Progress(min(r.arrived, total), total)
	}
}

// An arriving is a bucket that reports the bytes that are read.
type arriving struct {
	Bucket
	read func(n int64)
}

func (c arriving) ReadAt(ctx context.Context, name string, p []byte, off int64) (int, error) {
	n, err := c.Bucket.ReadAt(ctx, name, p, off)
	c.read(int64(n))
	return n, err
}

// bucketOf returns the bucket that has the files with a number: that of the store, or of a clone's
// parent.
func (r *restore) bucketOf(num uint64) (Bucket, error) {
	if p := parentOf(r.moment.state.Parents, num); p != nil {
		return r.parent(*p)
	}
	return r.b, nil
}

// parent opens the bucket of a parent, once.
func (r *restore) parent(p Parent) (Bucket, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if b := r.parents[p.Prefix]; b != nil {
		return b, nil
	}
	if r.opts.Parent == nil {
		return nil, fmt.Errorf("the store is a clone, and needs files of its parent in %q: say in RestoreOptions.Parent how to open that", p.Prefix)
	}
	b, err := r.opts.Parent(p.Prefix)
	if err != nil {
		return nil, fmt.Errorf("open the parent's bucket %q: %w", p.Prefix, err)
	}
	if r.parents == nil {
		r.parents = make(map[string]Bucket)
	}
	b = retrying(b)
	r.parents[p.Prefix] = b
	return b, nil
}
