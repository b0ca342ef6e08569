package remote

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math"
	"path/filepath"
	"slices"
	"sort"
	"sync"
	"sync/atomic"
	"time"

	"github.com/shaledb/shale"
	"github.com/shaledb/shale/internal/base"
	"github.com/shaledb/shale/manifest"
	"github.com/shaledb/shale/remote/internal/bucket"
	"github.com/shaledb/shale/remote/internal/buckets"
	"github.com/shaledb/shale/remote/internal/localdir"
	"github.com/shaledb/shale/remote/internal/object"
	"github.com/shaledb/shale/remote/internal/tablefs"
	"github.com/shaledb/shale/vfs"
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

// How much room there is says room, and which tables go first heats.

// An evictor decides which tables are local. A nil evictor has all of them local.
type evictor struct {
	tables *tablefs.Tables
	limit  int64         // Options.LocalBytes; 0: what is local stays
	now    chan struct{} // wakes the loop

	// Owned by evictLoop.
	looked *manifest.Version // the step whose tables past has
	// past are the tables that can go: steps of this writer name them, or have named them, their files are local, and the
	// store needs them, be it for an iterator only.
	past  map[base.FileNum]manifest.Added
	heats heats

	hurry atomic.Bool // tables are to be published soon: see room.isShort

	mu      sync.Mutex    // protects the following fields
	grown   int64         // bytes of tables that were made since Open
	allowed int64         // there is room until grown is more
	full    chan struct{} // closed when there is room again; nil: there is
}

// copiesDir is the directory, in that of the store, with the tails of tables and the cache of pages, a file.
const (
	copiesDir = "bucket"
	pagesName = "pages"
)

const (
	pagesShare  = 16               // the cache of pages takes this part of LocalBytes
	pagesMemory = 64 << 20         // its size in memory
	tablesWait  = 30 * time.Second // how long a read of a table is tried again
	// filterBits is the default of Store.FilterBits with LocalBytes. A false positive is a request here: it takes as long as
	// thousands of lookups, and is most of what a large store costs. With 16 bits, six more than a store has by itself,
	// there are a seventeenth as many, for 0.75 bytes of the local disk a key.
	filterBits = 16
)

// apart refuses a store whose copies would lie in the directory of a bucket.
func (o *opening) apart() error {
	if o.opts.LocalBytes == 0 && (o.local == nil || o.local.Elsewhere == "") {
		return nil // it makes none
	}
	return checkCopies(o.fs, filepath.Join(o.dir, copiesDir))
}

// checkCopies returns an error if dir can't have copies, because it is the directory of a bucket, or lies in one. A tail has
// the name of its object. So tails would take the place of objects, and objects that look like tails nobody needs would be
// swept away.
func checkCopies(fsys vfs.FS, dir string) error {
	mark, err := buckets.Mark(fsys, filepath.Join(dir, filepath.FromSlash(object.TableFolder)))
	if err == nil && mark != "" {
		err = fmt.Errorf("%s is for copies of what a bucket has, and a bucket has the directory %s: move one of them to another place; if that is no bucket, remove %s",
			dir, filepath.Dir(mark), mark)
	}
	return err
}

// openTables prepares opts for a store some of whose tables may be in the bucket only. It learns which these are.
func (o *opening) openTables(opts *shale.Options) error {
	if o.opts.LocalBytes == 0 && o.local.Elsewhere == "" {
		return nil
	}
	setDefault(&opts.FilterBits, filterBits)
	dir := filepath.Join(o.dir, copiesDir)
	pages := tablefs.NewPageCache(pagesMemory)
	if o.opts.LocalBytes > 0 {
		if err := o.fs.MkdirAll(dir); err != nil {
			return err
		}
		inFile, err := tablefs.OpenPageCache(o.fs, filepath.Join(dir, pagesName), o.opts.LocalBytes/pagesShare)
		if err == nil {
			pages = inFile
		} else if !errors.Is(err, tablefs.ErrWriteOnce) {
			return fmt.Errorf("the cache in %s: %w", dir, err)
		}
	}
	e := &evictor{
		tables: tablefs.New(buckets.RetryingFor(o.b, tablesWait), o.id, o.fs, dir, pages),
		limit:  o.opts.LocalBytes, now: make(chan struct{}, 1), past: make(map[base.FileNum]manifest.Added), allowed: math.MaxInt64,
	}
	o.evicting = e
	if err := e.learn(o, o.local.Version, o.publish.chain.State.Tables.Version); err != nil {
		return err
	}
	opts.FS = &tablefs.WriterFS{FS: tablefs.FS{FS: o.lock, Tables: e.tables}, Room: func() { e.awaitRoom(o.loops) }}
	opts.Shipping.FiltersInFiles = true
	o.watchTables(opts)
	return nil
}

// learn makes the tables of v known that are not in the directory, and that the newest step names. Their tails are local, or
// else are fetched. Tails that nobody needs are removed.
func (e *evictor) learn(o *opening, v, named *manifest.Version) error {
	here, err := localdir.Names(o.fs, o.dir)
	if err != nil {
		return err
	}
	inBucket := make(map[uint64]tablefs.File, named.NumTables())
	for f := range tablefs.FilesOf(named) {
		inBucket[f.Num] = f
	}
	var files []tablefs.File
	for f := range tablefs.FilesOf(v) {
		if !here[f.LocalName()] && f.Is(inBucket[f.Num]) {
			files = append(files, f)
		}
	}
	e.tables.Order(v)
	return e.tables.LearnFirst(o.ctx, files)
}

// watchTables makes the store wake the evictor when tables have come or gone. The event of damage also names the object. The error
// of a read, or of Verify, comes from the store, which calls a table by its file: by that name it keeps compactions away from a
// damaged one.
func (o *opening) watchTables(opts *shale.Options) {
	e, listener := o.evicting, opts.OnEvent
	if listener == nil && opts.Logger == nil {
		listener = o.logTrouble
	}
	opts.OnEvent = func(event shale.Event) {
		switch event.Kind {
		case shale.EventFlush, shale.EventCompaction, shale.EventIngest:
			e.grow(event.BytesOut)
		case shale.EventCorruption:
			var damage *shale.CorruptionError
			if !errors.As(event.Err, &damage) {
				break
			}
			kind, num, ok := base.ParseFileName(damage.File)
			if name := (object.Name{Kind: object.KindTable, Num: uint64(num)}); ok && kind == base.FileTable && e.tables.Has(name) {
				event.Err = fmt.Errorf("object %v: %w", name, event.Err)
			}
		}
		if listener != nil {
			listener(event)
		}
	}
}

// logTrouble logs what a store logs that has neither a listener nor a Logger.
func (o *opening) logTrouble(event shale.Event) {
	level := slog.LevelWarn
	switch {
	case event.Kind == shale.EventFilterUnusable || event.Kind == shale.EventFilterWorse:
	case event.Err == nil:
		return
	default:
		level = slog.LevelError
	}
	slog.Log(context.Background(), level, "shale: "+event.Kind.String(), "dir", o.dir, "reason", event.Reason, "tables", event.Tables, "err", event.Err)
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

// pace returns how long the publisher waits between two steps, if nobody else hurries it. If flushes and compactions wait for
// room, it does not wait: what it uploads can go.
func (e *evictor) pace() time.Duration {
	switch {
	case e.isFull():
		return 0
	case e != nil && e.hurry.Load():
		return time.Second
	}
	return 10 * time.Second
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

// grow counts tables that were made. The loop looks what they replace and what can go, and until it has done so, they may
// already take all the room: a look may take long, and others may begin to make tables meanwhile.
func (e *evictor) grow(bytes int64) {
	e.mu.Lock()
	e.grown += bytes
	e.updateLocked()
	e.mu.Unlock()
	e.wake()
}

// allow says that there is room until grown is more than most.
func (e *evictor) allow(most int64) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.allowed = most
	e.updateLocked()
}

func (e *evictor) updateLocked() {
	switch full := e.grown > e.allowed; {
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
		s.report("local bytes", s.evicting.tight())
		retry.tried(err)
	}
}

// evict lets go of as many tables as there must be. If that is not enough, it has the rest uploaded, and flushes and
// compactions wait.
func (s *Store) evict() error {
	e := s.evicting
	e.mu.Lock()
	grown := e.grown // before the state is taken: what comes meanwhile may count twice, until the next look
	e.mu.Unlock()
	state, err := s.state()
	if err != nil {
		return fmt.Errorf("remote: evict: %w", err)
	}
	shipping := shale.ShippingOf(s.db)
	e.tables.Order(state.Version)
	e.take(s.named.Load(), shipping)
	r := e.count(state.Version)
	if s.isAway() && s.opts.MaxKept > 0 {
		r.more = s.opts.MaxKept
	}
	e.allow(grown + r.left())
	var failed error
	if r.excess() > 0 {
		tables := slices.Collect(maps.Values(e.past))
		e.heats.look(tables, shipping.Sought, time.Now())
		slices.SortFunc(tables, func(a, b manifest.Added) int {
			return cmp.Or(cmp.Compare(b.Level, a.Level), e.heats.compare(a.Table.Num, b.Table.Num), cmp.Compare(a.Table.Num, b.Table.Num))
		})
		// A table that fails, such as a damaged one, does not keep the others from going.
		for ; r.excess() > 0 && len(tables) > 0; tables = tables[1:] {
			tail, err := s.evictTable(state, tables[0].Table)
			if err != nil {
				failed = fmt.Errorf("remote: evict: %w", err)
				continue
			}
			r.tables -= tables[0].Table.Size
			r.copies += tail
			e.allow(grown + r.left()) // nobody waits for those that go for the spare room
		}
	}
	e.hurry.Store(r.isShort())
	if r.isShort() {
		base.Wake(s.publishNow)
	}
	return failed
}

// take takes in which tables the newest step names. It forgets those that are not local any more, or that the store does
// not need.
func (e *evictor) take(named *manifest.Version, shipping shale.Shipping) {
	if named != e.looked {
		for a := range placedTables(named) {
			if !e.has(a.Table) {
				e.past[a.Table.Num] = a
			}
		}
		e.looked = named
	}
	maps.DeleteFunc(e.past, func(num base.FileNum, a manifest.Added) bool { return e.has(a.Table) || !shipping.Needs(uint64(num)) })
}

// count returns what takes the local disk if the store has the tables of v. It asks once for each table of v, and is called
// for each flush.
func (e *evictor) count(v *manifest.Version) room {
	r := room{limit: e.limit, copies: e.tables.CopyBytes()}
	for _, a := range e.past {
		r.tables += a.Table.Size
	}
	for t := range v.Tables() {
		if _, named := e.past[t.Num]; !named && !e.has(t) {
			r.tables += t.Size
			r.lacking += t.Size
		}
	}
	return r
}

// tight returns an error if the copies leave no room for tables, or nil. Then Options.LocalBytes is exceeded, and nothing else
// happens. It says how large that would have to be.
func (e *evictor) tight() error {
	r := room{limit: e.limit, copies: e.tables.CopyBytes()}
	if r.fits() {
		return nil
	}
	least := int64(sort.Search(1<<30, func(n int) bool {
		limit := int64(n) << 20
		return room{limit: limit, copies: e.tables.CopyBytesWith(limit / pagesShare)}.fits()
	})) << 20
	return local(fmt.Errorf("remote: LocalBytes of %d (%s) has no room for tables: the filters and indexes of those in the bucket, with the cache of pages, take %d bytes (%s) of the local disk; open the store with LocalBytes of %d (%s) or more",
		e.limit, base.FormatBytes(e.limit), r.copies, base.FormatBytes(r.copies), least, base.FormatBytes(least)))
}

// isAway reports whether the bucket does not do what it is asked.
func (s *Store) isAway() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	away, _ := s.failingLocked()
	return away != nil
}

// placeOf returns what the manifest says of the place where tables are that a directory lacks.
func placeOf(storeID uint64) string {
	return fmt.Sprintf("the bucket of store %016x: open it with package remote, or bring it back with shale-remote hydrate", storeID)
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
		place := placeOf(s.id)
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
