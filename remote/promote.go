package remote

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"sync"
	"time"

	"github.com/shaledb/shale/internal/base"
	"github.com/shaledb/shale/manifest"
	"github.com/shaledb/shale/remote/internal/buckets"
	"github.com/shaledb/shale/remote/internal/chain"
	"github.com/shaledb/shale/remote/internal/object"
	"github.com/shaledb/shale/vfs"
)

// How a process takes a store over from its writer: it restores, fences if the writer still ships,
// restores what came meanwhile, and opens. Warm does the long part of it in advance.

// promoteTries is how often Promote restores. A writer that ships meanwhile is fenced behind the first attempt, so it can't
// ship more during the second; a third one is for another program that promotes too.
const promoteTries = 3

// Promote makes this process the owner of the store: it restores the newest state into dir and opens it there for
// writing. The directory must be empty, or not there, or be one that Warm has filled. The writer before is fenced: it
// can't acknowledge a write any more if it is Strict, and else none that the bucket will ever have. What it had
// acknowledged and not shipped is not here; Salvage lists it where its directory still is.
//
// It takes as long as a restore: the tables are fetched at the speed of the bucket or of the local disk. With a
// directory that this Reader has warmed, only those are fetched that are newer. With [Options.LocalBytes] the tables of the
// upper levels are fetched, up to half of that, and the others stay in the bucket. A writer that ships all the time is
// fenced when the tables are here, and what it has shipped until then is fetched after that.
//
// Who may promote is for the program to decide. If two try at the same time, one of them gets [ErrFenced].
//
// The Reader goes on as before, and follows the new Store. A Reader at a pin can't be promoted. [TakeOver] is Promote
// without a Reader.
func (r *Reader) Promote(ctx context.Context, dir string, o *Options) (*Store, error) {
	if r.pinned != nil {
		return nil, fmt.Errorf("remote: promote: the reader is at pin %q, which is no newest state: open a reader without a pin", r.opts.Pin)
	}
	s, err := promote(ctx, r.b, dir, o, &r.warm)
	if err != nil {
		return nil, fmt.Errorf("remote: promote: %w", err)
	}
	r.warm.clear(dir) // the tables are the store's now
	return s, nil
}

// TakeOver makes this process the owner of the store in a bucket, as [Reader.Promote] does. If it was interrupted, the
// next call goes on with the tables that are there. If it was interrupted at its end, the directory has a store, and
// the error wraps fs.ErrExist: remove it, and repeat.
func TakeOver(ctx context.Context, b Bucket, dir string, o *Options) (*Store, error) {
	s, err := promote(ctx, buckets.Retrying(b), dir, o, new(warmth))
	if err != nil {
		return nil, fmt.Errorf("remote: take over into %s: %w", dir, err)
	}
	return s, nil
}

// promote restores the newest state into dir and opens it. If a writer ships meanwhile, it is fenced.
func promote(ctx context.Context, b Bucket, dir string, o *Options, warm *warmth) (*Store, error) {
	var opts Options
	if o != nil {
		opts = *o
	}
	setDefault(&opts.Store.FS, vfs.Default)
	if opts.LocalBytes > 0 { // Open refuses it too, but only once all is fetched
		if err := checkCopies(opts.Store.FS, filepath.Join(dir, copiesDir)); err != nil {
			return nil, err
		}
	}
	for attempt := 1; ; attempt++ {
		// The first attempt fences nobody, because most writers that are replaced have ended. If
		// this one ships on, Open refuses the directory, and the next attempt restores behind a
		// fence.
		// The other half of the room is for tails and what is written.
		r, err := Restore(ctx, b, dir, At{}, &RestoreOptions{FS: opts.Store.FS, warm: warm, local: max(opts.LocalBytes, 0) / 2})
		if err != nil {
			return nil, err
		}
		s, err := Open(ctx, dir, b, &opts)
		if err == nil || attempt == promoteTries || !errors.Is(err, ErrFenced) || ctx.Err() != nil {
			return s, err
		}
		// This comes before the fence. A crash in between must not leave a store that opens and
		// lacks what was shipped since.
		if err := reopen(opts.Store.FS, dir); err != nil {
			return nil, fmt.Errorf("remove what a first attempt has left: %w", err)
		}
		if err := fenceAll(ctx, b, r.StoreID); err != nil {
			return nil, err
		}
	}
}

// fenceAll ends the writing of all writers so far: it claims the store, and appends the fence. Nobody owns it then, until
// another writer opens what is restored from it.
func fenceAll(ctx context.Context, b Bucket, storeID uint64) error {
	nobody := func(*object.Step, uint64) error { return nil } // there are no notes to take
	c, err := chain.Claim(ctx, b, chain.Claimant{StoreID: storeID, Writer: buckets.RandomNumber() | 1, Now: time.Now, Note: nobody})
	if err == nil {
		_, err = c.Fence(ctx, b, object.Position{})
	}
	if errors.Is(err, ErrFenced) {
		return nil // by a later one, for whom the same holds
	}
	return err
}

// Warm fetches the tables of the newest state into dir, so that Promote into the same directory, with the same file
// system ([Options.Store].FS), has little left to fetch: only the tables that came since. It removes those that are not
// needed any more. A program that must take over within seconds calls it from time to time, for instance each time
// that it has waited for [Options.Publish]. It takes the room of the whole store on the local disk.
//
// Until Promote, the directory has no store that can be opened: it is one in which a restore was interrupted. The
// tables were checked when they were fetched; Promote by the same Reader does not read them again. nil stands for
// the file system of the operating system.
func (r *Reader) Warm(ctx context.Context, dir string, fsys vfs.FS) error {
	if r.pinned != nil {
		return fmt.Errorf("remote: warm: the reader is at pin %q and can't be promoted: open a reader without a pin", r.opts.Pin)
	}
	// Logs are not laid. They are small, and which ones are needed is known only at the promotion.
	w := newRestore(r.b, dir, At{}, &RestoreOptions{FS: fsys, warm: &r.warm})
	err := w.within(ctx, w.fetch)
	if err != nil {
		return fmt.Errorf("remote: warm %s: %w", dir, w.explain(ctx, err))
	}
	return nil
}

// A warmth knows which tables this process has fetched into directories and checked. They are durable but for their
// names. A nil warmth knows none.
// It knows nothing of what an earlier process has fetched: those files are read and summed before
// they are used.
type warmth struct{ tables sync.Map } // what the manifest says of a table, by the path of its file

// A warmTable is what the manifest says of a table.
type warmTable struct {
	size int64
	sum  uint32
}

// has reports whether the file with a path is the table.
func (w *warmth) has(path string, t *manifest.Table) bool {
	if w == nil {
		return false
	}
	// A path alone says nothing: a table of another epoch, or a damaged one, may have been fetched
	// there. Size and checksum must be those of this table.
	have, _ := w.tables.Load(path)
	return have == warmTable{t.Size, t.Checksum}
}

// add says that the file with a path is the table.
func (w *warmth) add(path string, t *manifest.Table) {
	if w != nil {
		w.tables.Store(path, warmTable{t.Size, t.Checksum})
	}
}

// clear forgets the tables in a directory.
func (w *warmth) clear(dir string) {
	w.tables.Range(func(path, _ any) bool {
		if filepath.Dir(path.(string)) == filepath.Clean(dir) {
			w.tables.Delete(path)
		}
		return true
	})
}

// reopen makes a restored directory one in which a restore was interrupted: its tables stay for the next attempt.
func reopen(fsys vfs.FS, dir string) error {
	// The mark comes before CURRENT goes: a directory with files and neither of the two would be
	// refused as one of somebody else.
	if err := (&restoration{fs: fsys, dir: dir}).mark(); err != nil {
		return err
	}
	// The next attempt removes all other files.
	if err := fsys.Remove(filepath.Join(dir, base.CurrentName)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return fsys.SyncDir(dir)
}
