package remote

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/shaledb/shale"
	"github.com/shaledb/shale/internal/base"
	"github.com/shaledb/shale/manifest"
	"github.com/shaledb/shale/remote/internal/bucket"
	"github.com/shaledb/shale/remote/internal/buckets"
	"github.com/shaledb/shale/remote/internal/object"
	"github.com/shaledb/shale/remote/internal/tablefs"
)

// A store may be larger than its disk: with Options.LocalBytes the writer lets go of tables that the bucket has.
//
// A table is evicted in this order, so that it can be read at any time, and a crash between two steps leaves a table that
// is local:
//
//  1. A step in the bucket names it, or has named it, and the store still needs it. No collection deletes its object before a
//     step of this writer drops it, nor as long as an iterator here needs it.
//  2. Its tail is copied next to the store, from the local file.
//  3. The manifest says that tables are in the bucket, for the error of an Open without the bucket.
//  4. The file is removed, and what the store has opened of it is closed.
//
// After that the file system of the store (tablefs.WriterFS) opens the object.

// An evictor decides which tables are local. A nil evictor has all of them local.
type evictor struct {
	tables *tablefs.Tables
	limit  int64         // Options.LocalBytes; 0: what is local stays
	now    chan struct{} // wakes the loop
	// past are the tables that steps of this writer name, or have named, and that the store needs, be it for an iterator
	// only. Owned by evictLoop.
	past map[base.FileNum]manifest.Added

	mu   sync.Mutex    // protects the following field
	full chan struct{} // closed when there is room again; nil: there is
}

// copiesDir is the directory, in that of the store, with the tails of tables and the cache of pages.
const copiesDir = "bucket"

const (
	pagesShare  = 16               // the cache of pages takes this part of LocalBytes
	pagesMemory = 64 << 20         // its size in memory
	tablesWait  = 30 * time.Second // how long a read of a table is tried again
)

// openTables prepares opts for a store some of whose tables may be in the bucket only. It learns which these are.
func (o *opening) openTables(opts *shale.Options) error {
	if o.opts.LocalBytes == 0 && o.local.Elsewhere == "" {
		return nil
	}
	dir := filepath.Join(o.dir, copiesDir)
	pages := tablefs.NewPageCache(pagesMemory)
	if o.opts.LocalBytes > 0 {
		if err := o.fs.MkdirAll(dir); err != nil {
			return err
		}
		inFile, err := tablefs.OpenPageCache(o.fs, filepath.Join(dir, "pages"), o.opts.LocalBytes/pagesShare)
		if err == nil {
			pages = inFile
		} else if !errors.Is(err, tablefs.ErrWriteOnce) {
			return fmt.Errorf("the cache in %s: %w", dir, err)
		}
	}
	e := &evictor{
		tables: tablefs.New(buckets.RetryingFor(o.b, tablesWait), o.id, o.fs, dir, pages),
		limit:  o.opts.LocalBytes, now: make(chan struct{}, 1), past: make(map[base.FileNum]manifest.Added),
	}
	o.evicting = e
	if err := e.learn(o, o.local.Version, o.publish.chain.State.Tables.Version); err != nil {
		return err
	}
	opts.FS = &tablefs.WriterFS{FS: tablefs.FS{FS: o.lock, Tables: e.tables}, Room: func() { e.awaitRoom(o.loops) }}
	o.watchTables(opts)
	return nil
}

// learn makes the tables of v known that are not in the directory, and that the newest step names. Their tails are local, or
// else are fetched. Tails that nobody needs are removed.
func (e *evictor) learn(o *opening, v, named *manifest.Version) error {
	names, err := o.fs.List(o.dir)
	if err != nil {
		return err
	}
	here := make(map[string]bool, len(names))
	for _, name := range names {
		here[name] = true
	}
	inBucket := make(map[uint64]tablefs.File)
	for f := range tablefs.FilesOf(named) {
		inBucket[f.Num] = f
	}
	var files []tablefs.File
	for f := range tablefs.FilesOf(v) {
		if !here[f.LocalName()] && f.Is(inBucket[f.Num]) {
			files = append(files, f)
		}
	}
	if err := e.tables.Learn(o.ctx, files); err != nil {
		return err
	}
	return e.tables.Tails.Sweep(slices.Values(files))
}

// watchTables makes the store wake the evictor when tables have come or gone, and makes it drop what was fetched of a
// table that does not check.
func (o *opening) watchTables(opts *shale.Options) {
	e, listener := o.evicting, opts.OnEvent
	opts.OnEvent = func(event shale.Event) {
		var damage *shale.CorruptionError
		switch event.Kind {
		case shale.EventFlush, shale.EventCompaction, shale.EventIngest:
			e.wake()
		case shale.EventCorruption:
			kind, num, ok := base.FileType(0), base.FileNum(0), errors.As(event.Err, &damage)
			if ok {
				kind, num, ok = base.ParseFileName(damage.File)
			}
			if ok && kind == base.FileTable {
				e.tables.Forget(uint64(num))
			}
		}
		if listener != nil {
			listener(event)
		}
	}
}

// wake makes the loop look.
func (e *evictor) wake() {
	if e != nil {
		base.Wake(e.now)
	}
}

// has reports whether a table may be in the bucket only.
func (e *evictor) has(t *manifest.Table) bool {
	return e != nil && e.tables.Has(tablefs.FileOf(t).Object())
}

// have returns those of some objects that may be in the bucket only, in their order.
func (e *evictor) have(names map[string]int64) (have []string) {
	for _, name := range slices.Sorted(maps.Keys(names)) {
		if o, ok := object.ParseName(name); ok && e != nil && e.tables.Has(o) {
			have = append(have, name)
		}
	}
	return have
}

// isFull reports whether flushes and compactions may wait for room.
func (e *evictor) isFull() bool {
	if e == nil {
		return false
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.full != nil
}

// setFull says whether there is room for another table.
func (e *evictor) setFull(full bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	switch {
	case full && e.full == nil:
		e.full = make(chan struct{})
	case !full && e.full != nil:
		close(e.full)
		e.full = nil
	}
}

// awaitRoom waits until there is room for another table, or ctx is done: then Close waits for what is under way.
func (e *evictor) awaitRoom(ctx context.Context) {
	e.mu.Lock()
	full := e.full
	e.mu.Unlock()
	if full != nil {
		select {
		case <-full:
		case <-ctx.Done():
		}
	}
}

// cancel ends all reads from the bucket.
func (e *evictor) cancel() {
	if e != nil {
		e.tables.Cancel()
	}
}

// close closes the copies. Requires: the local store is closed, and so no table is open.
func (e *evictor) close() error {
	if e == nil {
		return nil
	}
	return e.tables.Close()
}

// evictLoop keeps the tables on the local disk within Options.LocalBytes.
func (s *Store) evictLoop(ctx context.Context) {
	retry := backoff{}
	for {
		wait := time.Duration(-1)
		if retry.tries > 0 {
			wait = retry.delay()
		} else if s.evicting.isFull() {
			wait = time.Second // the bucket may have gone away or come back, or an iterator ended
		}
		if !waitFor(ctx, wait, s.evicting.now) {
			return
		}
		err := s.evict()
		if ctx.Err() != nil {
			return
		}
		s.report("evict", err)
		retry.tried(err)
	}
}

// evict lets go of as many tables as there must be. If that is not enough, it has the rest uploaded, and flushes and
// compactions wait.
func (s *Store) evict() error {
	e := s.evicting
	state, err := s.state()
	if err != nil {
		return fmt.Errorf("remote: evict: %w", err)
	}
	for a := range placedTables(s.named.Load()) {
		e.past[a.Table.Num] = a
	}
	shipping := shale.ShippingOf(s.db)
	maps.DeleteFunc(e.past, func(num base.FileNum, _ manifest.Added) bool { return !shipping.Needs(uint64(num)) })
	local, here := e.tables.CopyBytes(), 0 // here: tables that are local
	for a := range placedTables(state.Version) {
		if _, named := e.past[a.Table.Num]; !named && !e.has(a.Table) {
			local, here = local+a.Table.Size, here+1
		}
	}
	var all []manifest.Added // those that can go
	for _, a := range e.past {
		if !e.has(a.Table) {
			local, here = local+a.Table.Size, here+1
			all = append(all, a)
		}
	}
	slices.SortFunc(all, func(a, b manifest.Added) int {
		return cmp.Or(cmp.Compare(b.Level, a.Level), cmp.Compare(a.Table.Num, b.Table.Num))
	})
	// The next memtable has room, so that its flush does not wait. A table that fails, such as a damaged one, does not keep
	// the others from going.
	var failed error
	for target := e.limit - s.opts.memtableSize(); local > target && len(all) > 0; all = all[1:] {
		tail, err := s.evictTable(state, all[0].Table)
		if err != nil {
			failed = fmt.Errorf("remote: evict: %w", err)
			continue
		}
		here--
		local += tail - all[0].Table.Size
	}
	limit := e.limit
	if s.isAway() && s.opts.MaxKept > 0 {
		limit += s.opts.MaxKept
	}
	// Nobody waits if waiting is of no use: the copies alone may take more than the budget.
	e.setFull(local > limit && here > 0)
	if local > e.limit && here > 0 {
		base.Wake(s.publishNow)
	}
	return failed
}

// isAway reports whether the bucket does not do what it is asked.
func (s *Store) isAway() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	away, _ := s.failingLocked()
	return away != nil
}

// evictTable lets go of one table, and returns how many bytes of it stay. state is a state of the local store that has it.
func (s *Store) evictTable(state *manifest.State, t *manifest.Table) (tail int64, err error) {
	f, e := tablefs.FileOf(t), s.evicting
	src, err := s.fs.Open(filepath.Join(s.dir, f.LocalName()))
	if err != nil {
		return 0, local(bucket.IgnoreAbsence(err)) // a compaction was faster
	}
	defer src.Close() // only read
	if tail, err = e.tables.Add(f, src); err != nil {
		return 0, local(err)
	}
	shipping := shale.ShippingOf(s.db)
	defer func() {
		// It is still a local file, or a compaction was faster, and the store will not ask for it again.
		if err != nil || !shipping.Needs(f.Num) {
			e.tables.Drop(f.Object())
		}
	}()
	if state.Elsewhere == "" {
		place := fmt.Sprintf("the bucket of store %016x: open it with package remote or shale-remote", s.id)
		if err := shipping.Elsewhere(place); err != nil {
			return 0, local(err)
		}
		state.Elsewhere = place
	}
	if err := shipping.Evict(f.Num); err != nil {
		return 0, local(err)
	}
	return tail, nil
}
