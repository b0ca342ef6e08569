package remote

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path/filepath"
	"sync"

	"github.com/shaledb/shale/internal/base"
	"github.com/shaledb/shale/manifest"
	"github.com/shaledb/shale/vfs"
)

// promoteTries is how often Promote restores. The writer before is fenced at the first attempt, so it can't ship
// more during the second; a third one is for another program that promotes too.
const promoteTries = 3

// Promote makes this process the owner of the store: it restores the newest state into dir and opens it there for
// writing. The directory must be empty, or not there, or be one that Warm has filled. The writer before is fenced: it
// can't acknowledge a write any more if it is Strict, and else none that the bucket will ever have. What it had
// acknowledged and not shipped is not here; Salvage lists it where its directory still is.
//
// It takes as long as a restore: the tables are fetched at the speed of the bucket or of the local disk. With a
// directory that this Reader has warmed, only those are fetched that are newer.
//
// Who may promote is for the program to decide. If two try at the same time, one of them gets ErrFenced.
//
// The Reader goes on as before, and follows the new Store. A Reader at a pin can't be promoted.
func (r *Reader) Promote(ctx context.Context, dir string, o *Options) (*Store, error) {
	if r.pinned != nil {
		return nil, fmt.Errorf("remote: promote: the reader is at pin %q, which is no newest state: open a reader without a pin", r.opts.Pin)
	}
	var opts Options
	if o != nil {
		opts = *o
	}
	if opts.Store.FS == nil {
		opts.Store.FS = vfs.Default
	}
	for attempt := 1; ; attempt++ {
		s, err := r.takeOver(ctx, dir, &opts)
		if err == nil {
			r.warm.clear(dir) // the tables are the store's now
			return s, nil
		}
		if attempt == promoteTries || !errors.Is(err, ErrFenced) || ctx.Err() != nil {
			return nil, fmt.Errorf("remote: promote: %w", err)
		}
		if err := reopen(opts.Store.FS, dir); err != nil {
			return nil, fmt.Errorf("remote: promote: remove what a first attempt has left: %w", err)
		}
	}
}

// takeOver is one attempt of Promote.
func (r *Reader) takeOver(ctx context.Context, dir string, o *Options) (*Store, error) {
	if _, err := Restore(ctx, r.b, dir, At{}, r.restoreOptions(o.Store.FS)); err != nil {
		return nil, err
	}
	return Open(ctx, dir, r.b, o)
}

// restoreOptions are those of Promote and Warm.
func (r *Reader) restoreOptions(fsys vfs.FS) *RestoreOptions {
	return &RestoreOptions{FS: fsys, Parent: r.opts.Parent, warm: &r.warm}
}

// Warm fetches the tables of the newest state into dir, so that Promote into the same directory, with the same file
// system (Options.Store.FS), has little left to fetch: only the tables that came since. It removes those that are not
// needed any more. A program that must take over within seconds calls it from time to time, for instance each time
// that it has waited for Options.Publish. It takes the room of the whole store on the local disk.
//
// Until Promote, the directory has no store that can be opened: it is one in which a restore was interrupted. The
// tables were checked when they were fetched; Promote by the same Reader does not read them again. nil stands for
// the file system of the operating system.
func (r *Reader) Warm(ctx context.Context, dir string, fsys vfs.FS) error {
	if r.pinned != nil {
		return fmt.Errorf("remote: warm: the reader is at pin %q and can't be promoted: open a reader without a pin", r.opts.Pin)
	}
	if fsys == nil {
		fsys = vfs.Default
	}
	w := newRestore(r.b, dir, At{}, r.restoreOptions(fsys))
	err := w.within(ctx, w.fetch)
	if err != nil {
		return fmt.Errorf("remote: warm %s: %w", dir, w.explain(ctx, err))
	}
	return nil
}

// A warmth knows which tables this process has fetched into directories and checked. They are durable but for their
// names. A nil warmth knows none.
type warmth struct {
	mu     sync.Mutex // protects the following field
	tables map[string]warmTable
}

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
	w.mu.Lock()
	defer w.mu.Unlock()
	have, ok := w.tables[path]
	return ok && have == warmTable{t.Size, t.Checksum}
}

// add says that the file with a path is the table.
func (w *warmth) add(path string, t *manifest.Table) {
	if w == nil {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.tables == nil {
		w.tables = make(map[string]warmTable)
	}
	w.tables[path] = warmTable{t.Size, t.Checksum}
}

// clear forgets the tables in a directory.
func (w *warmth) clear(dir string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	maps.DeleteFunc(w.tables, func(path string, _ warmTable) bool { return filepath.Dir(path) == filepath.Clean(dir) })
}

// reopen makes a restored directory one in which a restore was interrupted: its tables stay for the next attempt.
func reopen(fsys vfs.FS, dir string) error {
	if err := (&restore{fs: fsys, dir: dir}).mark(); err != nil {
		return err
	}
	// The next attempt removes all other files.
	if err := fsys.Remove(filepath.Join(dir, base.CurrentName)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return fsys.SyncDir(dir)
}
