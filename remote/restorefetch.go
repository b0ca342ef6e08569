package remote

import (
	"cmp"
	"context"
	"errors"
	"io/fs"
	"slices"
	"sync/atomic"

	"github.com/shaledb/shale"
	"github.com/shaledb/shale/internal/base"
	"github.com/shaledb/shale/manifest"
	"github.com/shaledb/shale/remote/internal/bucket"
	"github.com/shaledb/shale/remote/internal/object"
	"github.com/shaledb/shale/remote/internal/restore"
	"github.com/shaledb/shale/remote/internal/tablefs"
	"github.com/shaledb/shale/vfs"
	"golang.org/x/sync/errgroup"
)

// How tables and sidecars come from the bucket into the directory of a restore.

// fetch brings the tables and sidecars of the moment. If only some of them may come, those of the upper levels do.
func (r *restoration) fetch(ctx context.Context) error {
	v, local := r.moment.State.Tables.Version, int64(0)
	if r.opts.local == 0 {
		return r.fetchTables(ctx, slices.Collect(v.Tables()))
	}
	var some []*manifest.Table
	for t := range v.Tables() {
		if local += t.Size; local <= r.opts.local {
			some = append(some, t)
		} else if err := r.lost(r.moment, t); err != nil {
			return err
		}
	}
	r.partial = len(some) < v.NumTables()
	return r.fetchTables(ctx, some)
}

// fetchTables brings tables and their sidecars, several at the same time. Those that are in the directory, where an
// interrupted restore has left them, are checked and kept.
//
// A table that is damaged or missing does not end the others. They are most likely needed by the earlier step that is
// tried next, and fill learns of all tables that it has to do without at once. Any other error ends them.
func (r *restoration) fetchTables(ctx context.Context, tables []*manifest.Table) error {
	total := int64(0)
	for _, t := range tables {
		for f := range tablefs.FilesOfTable(t) {
			total += f.Size
		}
	}
	r.arrived, r.missing = 0, nil
	r.arrive(0, total)
	var kept atomic.Int64
	var damage atomic.Pointer[error]
	fetches, fetchCtx := errgroup.WithContext(ctx)
	fetches.SetLimit(r.opts.Fetches)
	for _, t := range tables {
		// An error ends all fetches. Those that have not begun need not be queued.
		if fetchCtx.Err() != nil {
			break
		}
		fetches.Go(func() error {
			there, err := r.fetchOne(fetchCtx, t, total)
			if err == nil && t.Sidecar != nil {
				err = r.fetchSidecar(fetchCtx, t, total)
			}
			// The bytes of a table count as kept even if its sidecar has to be fetched.
			kept.Add(there)
			if object.IsDamage(err) {
				found := err
				damage.Store(&found)
				err = nil // all that is damaged is found in one go, and the others are most likely needed by an earlier step too
			}
			return err
		})
	}
	err := cmp.Or(fetches.Wait(), ctx.Err())
	if found := damage.Load(); err == nil && found != nil {
		err = *found
	}
	r.done.Tables, r.done.Kept, r.done.Missing = len(tables), kept.Load(), r.missing
	slices.Sort(r.done.Missing)
	r.done.Bytes += r.arrived
	return err
}

// fetchOne fetches one table, unless an interrupted restore has left it in the directory: then kept is its size.
//
// A table that is there is read once, to sum it, because nobody knows what has become of it since. Only one that this
// process has fetched itself is taken as it is, which is what makes Promote fast after Warm.
func (r *restoration) fetchOne(ctx context.Context, t *manifest.Table, total int64) (kept int64, err error) {
	path := r.path(base.TableName(t.Num))
	if info, err := r.fs.Stat(path); err == nil {
		whole := r.opts.warm.has(path, t) && info.Size == t.Size
		if !whole {
			sum := func(f vfs.File) (uint32, error) { return bucket.SumOf(ctx, f, nil, 0, 0, t.Size-tablefs.TableFooter) }
			whole = restore.CheckTable(r.fs, path, r.done.StoreID, t, sum) == nil
		}
		if whole {
			r.opts.warm.add(path, t)
			r.arrive(t.Size, total)
			return t.Size, nil
		}
	}
	b := arriving{r.b, func(n int64) { r.arrive(n, total) }}
	if err := restore.Table(ctx, b, r.done.StoreID, r.fs, path, t); err != nil {
		return 0, r.spoiled(ctx, b, path, t, err)
	}
	r.opts.warm.add(path, t)
	return 0, nil
}

// spoiled notes that a table is damaged, and returns err. To salvage, it fetches the bytes that there are instead, however
// many, and does without a table that is missing: package repair then decides what of it can be believed.
func (r *restoration) spoiled(ctx context.Context, b Bucket, path string, t *manifest.Table, err error) error {
	if !object.IsDamage(err) {
		return err
	}
	name := object.TableName(uint64(t.Num))
	r.mu.Lock()
	r.bad[name] = err
	r.mu.Unlock()
	size, there := r.sizes[name]
	switch {
	case !r.opts.Salvage:
		return err
	case !there:
		return nil
	}
	// Nothing is summed, and the size is the one of the LIST and not that of the step: package
	// repair reads whatever there is.
	return restore.File(ctx, b, name, r.fs, path, size, 0, nil)
}

// fetchSidecar brings the sidecar of a table, unless it is in the directory. A store does without a sidecar that is missing
// or damaged.
func (r *restoration) fetchSidecar(ctx context.Context, t *manifest.Table, total int64) error {
	path := r.path(base.FilterName(t.Sidecar.Num))
	err := restore.CheckFilter(r.fs, path, r.done.StoreID, t)
	if err != nil {
		err = restore.Filter(ctx, r.b, r.done.StoreID, r.fs, path, t)
	}
	r.arrive(t.Sidecar.Size, total)
	r.mu.Lock()
	defer r.mu.Unlock()
	// A damaged file would be found again each time that the store is opened. Without the file,
	// lookups use the filter in the table.
	var damage *shale.CorruptionError
	if errors.As(err, &damage) {
		r.missing = append(r.missing, object.FilterName(uint64(t.Sidecar.Num)))
		if err = r.fs.Remove(path); errors.Is(err, fs.ErrNotExist) {
			err = nil
		}
		return err
	}
	r.done.Filters++
	return err
}

// arrive counts bytes of tables and sidecars, and reports them. Bytes that are fetched again count again, so the sum may
// be larger than the total. It is reported up to the total.
func (r *restoration) arrive(n, total int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.arrived += n
	// The lock is held during the call, so the program gets its calls one after the other.
	if r.opts.Progress != nil {
		r.opts.Progress(min(r.arrived, total), total)
	}
}

// An arriving bucket reports how many bytes are read from it. It lies over the bucket that repeats calls, so it sees what
// has arrived in the end, and not each attempt.
type arriving struct {
	Bucket
	read func(n int64)
}

// ReadAt also counts what a read has brought that failed in the end.
func (c arriving) ReadAt(ctx context.Context, name string, p []byte, off int64) (int, error) {
	n, err := c.Bucket.ReadAt(ctx, name, p, off)
	c.read(int64(n))
	return n, err
}
