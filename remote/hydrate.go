package remote

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"
	"syscall"

	"github.com/shaledb/shale/internal/base"
	"github.com/shaledb/shale/manifest"
	"github.com/shaledb/shale/remote/internal/chain"
	"github.com/shaledb/shale/remote/internal/localdir"
	"github.com/shaledb/shale/remote/internal/object"
	"github.com/shaledb/shale/remote/internal/restore"
	"github.com/shaledb/shale/remote/internal/tablefs"
	"github.com/shaledb/shale/vfs"
)

// The way back from a store that is larger than its disk (evict.go). Nobody has the store open meanwhile: a table comes into
// the directory, and later the manifest says that all are there.

// HydrateOptions are the choices of Hydrate. The zero value is fine.
type HydrateOptions struct {
	FS       vfs.FS                  // of the directory; nil: vfs.Default
	Fetches  int                     // as in RestoreOptions
	Progress func(done, total int64) // as in RestoreOptions
	// Salvage also fetches tables that are damaged in the bucket, as they are. If Hydrated.Damage lists some, the directory is one
	// for repair.Run (`shale repair`), which saves what is provably correct into another one.
	Salvage bool

	room func(dir string) (free int64, ok bool) // how much room the disk has; tests set it
}

// A Hydrated says what Hydrate has done.
type Hydrated struct {
	StoreID uint64
	Tables  int   // that were fetched
	Filters int   // sidecars that were fetched
	Bytes   int64 // of both
	// Missing has the names of sidecars that could not be fetched. The store does without them: lookups use the filters in the
	// tables.
	Missing []string
	// Damage are tables that are damaged in the bucket, or missing there. All others were fetched.
	Damage []Finding
	// Manifest says why the manifest of the directory can't be read; nil: it can. If it can't, the tables are those of the last
	// state that can be read of it, and those of the newest step. The directory then is one for repair.Run.
	Manifest error
}

// Hydrate brings all tables back into the directory of a store that are only in its bucket: see [Options.LocalBytes]. After that
// the store needs its bucket no more: shale.Open opens it, and Checkpoint, check and repair work. [Open] goes on in the
// bucket, and removes tables again if Options.LocalBytes says so. The disk must have room for the whole store.
//
// No program may have the store open. If Hydrate is interrupted or fails, the directory is one that Open opens as before, and the
// next Hydrate goes on with the tables that are there. It changes nothing in the bucket.
//
// If tables of the bucket are damaged or missing, Hydrate brings all others. Without Salvage the error wraps a
// *shale.CorruptionError then; either way Hydrated.Damage has all of them.
func Hydrate(ctx context.Context, b Bucket, dir string, o *HydrateOptions) (Hydrated, error) {
	var opts HydrateOptions
	if o != nil {
		opts = *o
	}
	setDefault(&opts.FS, vfs.Default)
	if opts.room == nil && opts.FS == vfs.Default {
		opts.room = vfs.FreeRoom
	}
	h := &hydration{restoration: newRestore(b, dir, At{}, &RestoreOptions{
		FS: opts.FS, Fetches: opts.Fetches, Progress: opts.Progress, Salvage: opts.Salvage,
	}), room: opts.room}
	err := h.run(ctx)
	if errors.Is(err, syscall.ENOSPC) {
		err = fmt.Errorf("%w (make room on the local disk, and hydrate again: that goes on with what is there)", err)
	}
	if err != nil {
		err = fmt.Errorf("remote: hydrate %s: %w", dir, err)
	}
	return h.result, err
}

// A hydration is one call of Hydrate. It fetches as a restore does.
type hydration struct {
	*restoration
	room   func(dir string) (free int64, ok bool)
	state  *manifest.State // of the directory; nil: nothing of its manifest can be read
	result Hydrated
}

// run takes the steps of Hydrate. A crash between any two of them leaves a directory that Open opens with its bucket:
//
//  1. It locks the directory, reads its manifest, and looks whose bucket it is.
//  2. It fetches what the directory lacks. The name of a table appears when its bytes are checked and durable.
//  3. It removes the copies of tails and pages, which nothing needs any more.
//  4. It begins a manifest that says nothing of another place. It comes last: all names are durable before that.
func (h *hydration) run(ctx context.Context) (err error) {
	if h.dir, err = vfs.Abs(h.fs, h.dir); err != nil {
		return err
	}
	lock := localdir.NewLock(h.fs, h.dir)
	if err := lock.Take(ctx, 0); err != nil {
		return err
	}
	if lock.Locked == nil {
		return fmt.Errorf("there is no store in it: %w", fs.ErrNotExist)
	}
	defer func() { err = errors.Join(err, lock.Release()) }()
	if err := h.load(); err != nil {
		return err
	}
	if h.state != nil && h.state.Elsewhere != "" {
		if err := checkCopies(h.fs, filepath.Join(h.dir, copiesDir)); err != nil { // settle would remove its tables
			return err
		}
	}
	if err := h.identify(ctx); err != nil {
		return err
	}
	if err := h.bring(ctx); err != nil {
		return err
	}
	return h.settle()
}

// load reads the manifest, or what can be read of it.
func (h *hydration) load() (err error) {
	h.state, err = manifest.Load(h.fs, h.dir)
	if err == nil || !object.IsDamage(err) {
		return err
	}
	h.result.Manifest = err
	salvaged, err := manifest.Salvage(h.fs, h.dir)
	if err == nil {
		h.state, h.result.StoreID = salvaged.State, salvaged.StoreID
	}
	return err
}

// identify finds out which store the directory has, and checks that the bucket has the same.
func (h *hydration) identify(ctx context.Context) error {
	if h.state != nil {
		h.result.StoreID = h.state.StoreID
	}
	if h.result.StoreID == 0 {
		n, err := localdir.ReadRecord(h.fs, h.dir)
		if err != nil {
			return err
		}
		if n == nil {
			return fmt.Errorf("neither its manifest nor %s says which store it has: restore the store into another directory: %w", localdir.RecordName, h.result.Manifest)
		}
		h.result.StoreID = n.StoreID
	}
	there, err := restore.StoreIn(ctx, h.b)
	if err == nil && there != h.result.StoreID {
		err = fmt.Errorf("%w: store %016x; the directory has store %016x: name another bucket or prefix", ErrOtherStore, there, h.result.StoreID)
	}
	h.done.StoreID = h.result.StoreID
	return err
}

// needed returns the tables that should be in the directory, by number.
func (h *hydration) needed(ctx context.Context) (map[base.FileNum]*manifest.Table, error) {
	all := make(map[base.FileNum]*manifest.Table)
	add := func(v *manifest.Version) {
		for t := range v.Tables() {
			all[t.Num] = t
		}
	}
	if h.result.Manifest != nil {
		c, err := chain.LoadChain(ctx, h.b, h.result.StoreID, 0)
		switch {
		case err == nil:
			add(c.State.Tables.Version)
		case h.state == nil || !object.IsDamage(err):
			return nil, err
		}
	}
	if h.state != nil {
		add(h.state.Version)
	}
	return all, nil
}

// A lack is what a directory lacks.
type lack struct {
	tables       []*manifest.Table // those that are not there, or whose sidecars are not
	files, sides int               // how many of both
	bytes        int64             // of both
}

// lacks returns which of some tables and their sidecars the directory lacks.
func (h *hydration) lacks(of map[base.FileNum]*manifest.Table) (l lack, err error) {
	here, err := localdir.Names(h.fs, h.dir)
	if err != nil {
		return l, err
	}
	for _, num := range slices.Sorted(maps.Keys(of)) {
		before := l.bytes
		for f := range tablefs.FilesOfTable(of[num]) {
			switch {
			case here[f.LocalName()]:
				continue
			case f.Kind == object.KindFilter:
				l.sides++
			default:
				l.files++
			}
			l.bytes += f.Size
		}
		if l.bytes > before {
			l.tables = append(l.tables, of[num])
		}
	}
	return l, nil
}

// bring fetches what the directory lacks.
func (h *hydration) bring(ctx context.Context) error {
	needed, err := h.needed(ctx)
	if err != nil {
		return err
	}
	lack, err := h.lacks(needed)
	if err != nil || len(lack.tables) == 0 {
		return err
	}
	if h.room != nil {
		if free, ok := h.room(h.dir); ok && free < lack.bytes {
			return fmt.Errorf("it lacks %s, and the disk has room for %s: %w", base.FormatBytes(lack.bytes), base.FormatBytes(free), syscall.ENOSPC)
		}
	}
	h.bad = make(map[string]error)
	if h.opts.Salvage {
		if err := h.list(ctx); err != nil {
			return err
		}
	}
	err = h.fetchTables(ctx, lack.tables)
	if err != nil && !object.IsDamage(err) {
		return err
	}
	for _, name := range slices.Sorted(maps.Keys(h.bad)) {
		h.result.Damage = append(h.result.Damage, Finding{Object: name, Err: h.bad[name]})
	}
	if err != nil {
		err = fmt.Errorf("%d of the tables that it lacks can't be used, all others were fetched: %w", len(h.result.Damage), err)
	}
	h.result.Missing = h.done.Missing
	left, leftErr := h.lacks(needed)
	h.result.Tables, h.result.Filters, h.result.Bytes = lack.files-left.files, lack.sides-left.sides, lack.bytes-left.bytes
	return errors.Join(err, leftErr, h.fs.SyncDir(h.dir))
}

// settle makes the directory one that needs no bucket, if it has all tables.
func (h *hydration) settle() error {
	if h.result.Manifest != nil || h.state.Elsewhere == "" {
		return nil
	}
	for t := range h.state.Version.Tables() {
		if _, err := h.fs.Stat(h.path(base.TableName(t.Num))); errors.Is(err, fs.ErrNotExist) {
			return nil // it is damaged, and not even salvaged
		} else if err != nil {
			return err
		}
	}
	if err := tablefs.RemoveCopies(h.fs, filepath.Join(h.dir, copiesDir), pagesName); err != nil {
		return err
	}
	state := *h.state
	state.Elsewhere = ""
	log, err := manifest.Create(h.fs, h.dir, state.NextFileNum, &state)
	if err != nil {
		return err
	}
	if err := log.Close(); err != nil {
		return err
	}
	_ = h.fs.Remove(h.path(base.ManifestName(h.state.ManifestNum))) // if it stays, the next Open removes it
	return nil
}
