package shale

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"time"

	"github.com/shaledb/shale/internal/base"
	"github.com/shaledb/shale/internal/cache"
	"github.com/shaledb/shale/internal/changes"
	"github.com/shaledb/shale/internal/filecache"
	"github.com/shaledb/shale/internal/guard"
	"github.com/shaledb/shale/internal/lifetime"
	"github.com/shaledb/shale/internal/memqueue"
	"github.com/shaledb/shale/internal/tree"
	"github.com/shaledb/shale/manifest"
	"github.com/shaledb/shale/vfs"
)

// This file has Open.

// falsePositiveMemory is how many bytes the exact memory of proven false positives takes.
// It is less for stores with a smaller cache.
const falsePositiveMemory = 1 << 20

// Open opens the store in dir, creating it if it is not there; nil opts means the defaults. If another process, or
// another handle of this one, has the store open for writing, it fails with [ErrLocked], naming the owner's process id,
// at once or after [Options.LockTimeout]. With ReadOnly it takes no lock and writes nothing. A relative dir is below
// the working directory at the time of the call, and the program may change its working directory later. Symbolic links
// in dir may be switched too, unless the store is read-only: it stays in the directory that it has opened. If that is
// renamed, removed or replaced, see [ErrMoved].
//
// Damage to what the store needs to open gives a [CorruptionError] and changes nothing on disk. Open checks that each
// table is there, has its size and ends as it should. Filters and indexes are read in the background ([Metrics.Loading]), or by
// the first lookup that needs one; damage that is found then is reported like damage to any other block
// ([EventCorruption], [EventFilterUnusable]). A
// failed Open leaves neither goroutines nor open files, and of a store that was not there before no file and no
// directory, as far as the file system lets it remove them.
func Open(dir string, opts *Options) (*DB, error) {
	o, err := opts.withDefaults()
	if err != nil {
		return nil, err
	}
	// Before the lock: a relative name would lead elsewhere once the program
	// changes its working directory, perhaps into a store whose lock we lack.
	abs, err := vfs.Abs(o.FS, dir)
	if err != nil {
		return nil, fmt.Errorf("shale: open %s: %w", dir, err)
	}
	if !o.ReadOnly {
		// A link that is switched later leads to another store, whose lock we lack too. A reader
		// follows it: Advance says ErrReplaced.
		abs = vfs.Resolve(o.FS, abs)
	}
	db := &opening{DB: newDB(abs, o)}
	if err := base.Survive(db.open); err != nil { // a file system that panics must not keep the lock
		db.abandon()
		return nil, fmt.Errorf("shale: open %s: %w", dir, err)
	}
	return db.DB, nil
}

// An opening is a store that Open is at work on. Until startBackground, Open's goroutine
// has the store to itself. So it may call what requires the lead of the commit queue.
type opening struct {
	*DB
	made creation // what Open has made on disk so far
}

// newDB makes a store with its owners, and connects them. It touches nothing on disk and
// starts no goroutine.
func newDB(dir string, o Options) *DB {
	db := &DB{
		life:           lifetime.New(),
		changes:        changes.New(),
		place:          place{dir: dir, fs: o.FS, session: o.testing.session()},
		opts:           o,
		events:         eventLog{listener: o.OnEvent, logger: o.Logger, dir: dir, now: o.testing.now},
		cache:          cache.New(o.CacheSize),
		falsePositives: cache.NewFalsePositives(int(min(falsePositiveMemory, max(o.CacheSize/16, 64<<10)))),
	}
	db.counters.init()
	db.snapshots.Clock.System = o.testing.now
	if o.Shipping.Clock != nil {
		db.snapshots.Clock.System = o.Shipping.Clock
	}
	db.guard = guard.New(o.FS, dir, func(err error) { db.health.Lose(err) })
	if !o.ReadOnly {
		db.fs = db.guard // from lockDir on it knows the directory
	}
	db.files = filecache.New(db.fs, o.Tuning.MaxOpenFiles)
	db.files.Foreign = o.ReadOnly
	db.connect()
	return db
}

// open carries out the steps of Open:
//
//  1. lockDir makes the directory and takes its lock. From here on nobody else writes
//     there.
//  2. loadState reads the manifest, or makes the state of a new store.
//  3. openVersion opens the tables. Their highest sequence number says which batches of the
//     logs are in tables already, so this comes before step 4.
//  4. replayLogs puts the other batches into memtables.
//  5. beginManifest begins a manifest of our own. Until then a damaged store is left as it
//     is.
//  6. beginLog begins a log of our own, and notes it in that manifest.
//  7. sweepDir removes leftovers. It must know the manifest and the logs that are needed.
//  8. startBackground starts the goroutines.
//
// If one of the first six steps fails, the caller calls abandon. After them nothing fails
// any more. A read-only store advances instead (openReadOnly): it writes nothing, and reading the
// filters and indexes is its only background work.
func (db *opening) open() error {
	if err := db.lockDir(); err != nil {
		return err
	}
	if db.opts.ReadOnly {
		return db.openReadOnly()
	}
	state, err := db.loadState()
	if err != nil {
		return err
	}
	state.NextFileNum = max(state.NextFileNum, base.FileNum(db.opts.Shipping.FirstFileNum))
	if err := db.openVersion(state); err != nil {
		return err
	}
	replayed, err := db.replayLogs(state)
	if err != nil {
		return err
	}
	db.recovered(replayed.LastSeq)
	if err := db.beginManifest(state); err != nil {
		return err
	}
	if err := db.beginLog(replayed.Header); err != nil {
		return err
	}
	// From here on the store is there: nothing may fail any more.
	if err := db.sweepDir(); err != nil {
		db.events.emit(Event{Kind: EventBackgroundError, Reason: "remove leftovers", Err: err}) // the next Open tries again
	}
	// So many logs are flushed at once. A program that opens and closes the store at short
	// intervals could stop the flusher each time, and there would be ever more logs to
	// replay.
	if db.logs.Count() > maxKeptLogs+1 {
		_ = db.flushAll() // if it fails, the flusher reports it and tries again
	}
	db.made = creation{} // the store stays, so there is nothing left to undo
	db.startBackground()
	return nil
}

// abandon undoes a failed open. The order matters: files are closed before they are
// removed, and removed while the lock keeps others from making a store there. Directories
// come last. One that somebody else uses is not empty, and stays.
func (db *opening) abandon() {
	db.logs.DiscardPrepared()
	db.letGo()
	db.undoCreation()
	_ = db.unlock() // the error of Open is the one to report
	db.undoDirs()
}

// letGo closes the files of a store that is not going to be closed by Close. It leaves them
// where they are, and keeps the lock.
func (db *DB) letGo() {
	db.life.Cancel()
	db.files.Close()
	db.logs.Abandon()
	db.tree.Abandon()
}

// lockDir makes the directory and takes its lock, waiting up to LockTimeout. It notes first
// what is missing, for undoCreation. A read-only store needs no lock.
func (db *opening) lockDir() error {
	if db.opts.ReadOnly {
		return nil
	}
	// loadState asks again under the lock. This makes sure that no directory is made in vain, and
	// that nothing is written into the store of another program, which may have a LOCK of its own.
	// What looks damaged may be a checkpoint in the making, which is locked.
	var damage *CorruptionError
	if err := manifest.Exists(db.fs, db.dir); err != nil &&
		(db.opts.Exist == MustExist || !errors.Is(err, fs.ErrNotExist) && !errors.As(err, &damage)) {
		return err
	}
	if err := db.made.noteMissing(db.fs, db.dir); err != nil {
		return err
	}
	if err := db.fs.MkdirAll(db.dir); err != nil {
		return err
	}
	switch _, err := db.fs.Stat(db.path(base.LockName)); {
	case errors.Is(err, fs.ErrNotExist):
		db.made.lock = true
	case err != nil:
		return err
	}
	deadline := db.opts.testing.now().Add(db.opts.LockTimeout)
	for wait := time.Millisecond; ; wait = min(2*wait, 100*time.Millisecond) {
		lock, err := db.fs.Lock(db.path(base.LockName))
		if err == nil {
			db.lock = lock
			return db.guard.Hold(lock)
		}
		left := deadline.Sub(db.opts.testing.now())
		if !errors.Is(err, vfs.ErrLocked) || left <= 0 {
			return err
		}
		db.life.Sleep(min(wait, left))
	}
}

// loadState reads the manifest. If there is no store, it makes the state of a new one. With
// MustExist that is an error instead, which wraps fs.ErrNotExist. With MustNotExist a store
// that is there is one, fs.ErrExist. It writes nothing. Requires: the lock is held.
func (db *opening) loadState() (*manifest.State, error) {
	state, err := manifest.Load(db.fs, db.dir)
	switch {
	case err == nil && db.opts.Exist == MustNotExist:
		return nil, fs.ErrExist
	case err == nil:
		return state, nil
	case !errors.Is(err, fs.ErrNotExist):
		return nil, err
	case db.opts.Exist == MustExist:
		return nil, err
	}
	if db.made.found, err = db.fs.List(db.dir); err != nil {
		return nil, err
	}
	db.made.store = true
	seed := db.opts.testing.seed
	if seed == 0 {
		seed = rand.Uint64() | 1
	}
	return &manifest.State{Version: &manifest.Version{}, StoreID: seed, NextFileNum: 1, MinLog: 1}, nil
}

// openVersion opens the tables of the manifest's version and makes it the current one, with
// an empty memtable. Requires: nobody else uses the store yet.
func (db *DB) openVersion(state *manifest.State) error {
	db.storeID = state.StoreID
	v, complete, err := db.tree.Load(state.Version, db.loading(state, false))
	if err != nil {
		return err
	}
	flushed := base.Seq(0)
	db.snapshots.Clock.Raise(state.Clock)
	for t := range v.Tables() {
		db.reportFilter(t)
		db.snapshots.Clock.Note(t.Meta.Expiring > 0)
		flushed = max(flushed, t.Meta.MaxSeq)
	}
	// replay.apply leaves out what is up to this number.
	db.mems.Raise(flushed)
	if err := db.chooseHasher(v.Tables()); err != nil { // before the first memtable, which hashes with it
		return err
	}
	db.mems.Open(memqueue.NewView(db.mems.NewMemtable(), nil, v))
	db.readFilters(complete)
	return nil
}

// beginManifest begins a session, and a manifest of our own with a snapshot of the state. To go on with
// the old one would mean to append after what may be torn. Nothing needs the old one once
// this returns nil: CURRENT names the new one, durably.
func (db *opening) beginManifest(state *manifest.State) error {
	old := state.ManifestNum
	state.BeginSession(db.session, db.tree.PeekFileNum())
	// The recovered logs go if all their writes are in tables. Otherwise a store that is opened, read and
	// closed again and again would keep one more log each time. sweepDir removes the files.
	v := db.mems.View()
	obsolete := v.Mem.Empty() && len(v.Imms) == 0 && db.logs.Count() > 0
	if obsolete {
		state.MinLog, state.Logs = db.tree.PeekFileNum(), nil
		state.LastSeq = max(state.LastSeq, db.commits.Last())
		state.Flushed = state.LastSeq
		db.logs.Place()
	}
	if err := db.tree.BeginManifest(state); err != nil {
		return err
	}
	if obsolete {
		db.logs.Forget()
	}
	if !db.made.store {
		_ = db.fs.Remove(db.path(base.ManifestName(old))) // sweepDir tries again
	}
	return nil
}

// sweepDir removes files of shale's that nothing needs, such as leftovers of a crash. It
// never touches a file of another name. A file that can't be removed, or a log that can't be looked at, does not keep
// it from the others; the error is that of the first such file. Requires: manifest and log have begun,
// and no table is being written, because its file would look like a leftover.
func (db *DB) sweepDir() error {
	names, err := db.fs.List(db.dir)
	if err != nil {
		return err
	}
	var first error
	db.tree.WithState(func(state *manifest.State) { first = db.logs.AdoptKept(db.storeID, names, state.SessionOf) })
	for _, name := range names {
		t, n, ok := base.ParseFileName(name)
		if !ok || !db.leftover(t, n) {
			continue
		}
		if err := db.fs.Remove(db.path(name)); first == nil && !errors.Is(err, fs.ErrNotExist) {
			first = err
		}
	}
	return first
}

// leftover reports whether no part of the store needs file n of type t.
func (db *DB) leftover(t base.FileType, n base.FileNum) bool {
	switch t {
	case base.FileTable, base.FileFilter, base.FileManifest:
		return !db.tree.Needs(t, n)
	case base.FileLog:
		return !db.logs.IsLive(n) && !db.logs.Adopt(n)
	case base.FileTemp:
		return true
	}
	return false
}

// openReadOnly opens what is on disk without writing. It begins with a view without tables, and
// advances from there. No store there is an error at once.
func (db *opening) openReadOnly() error {
	none, _, err := db.tree.Load(new(manifest.Version), tree.Loading{})
	if err != nil {
		return err
	}
	mem := db.mems.NewMemtable()
	db.follower.Replay = db.mems.NewReplay(mem)
	db.mems.Open(memqueue.NewView(mem, nil, none))
	if err := db.follower.advance(db.life.Context); err != nil {
		return err
	}
	db.life.Background.Go(func() { db.filters.Loop(db.life.Context) })
	return nil
}

var _ io.Closer = (*DB)(nil)

// A creation is what Open makes on disk before it succeeds, so that undoCreation and
// undoDirs can remove it again, and nothing else.
type creation struct {
	dirs  []string // directories that were not there, the deepest first
	lock  bool     // the lock file was not there
	store bool     // there was no store
	found []string // the names that were there before, if there was no store
}

// noteMissing notes which of the directories up to the store's are not there. If it can't
// find out, it notes none, so that none is removed.
func (c *creation) noteMissing(fsys vfs.FS, dir string) error {
	for {
		if _, err := fsys.Stat(dir); err == nil {
			break
		} else if !errors.Is(err, fs.ErrNotExist) {
			c.dirs = nil
			return err
		}
		c.dirs = append(c.dirs, dir)
		parent := filepath.Dir(dir)
		if parent == dir {
			break
		}
		dir = parent
	}
	if len(c.dirs) == 0 {
		return nil
	}
	// A symbolic link that leads nowhere is not found by Stat, but its name is there.
	top := c.dirs[len(c.dirs)-1]
	names, err := fsys.List(filepath.Dir(top))
	if err != nil || slices.Contains(names, filepath.Base(top)) {
		c.dirs = nil // the name can't be looked up, or it is a link
	}
	if errors.Is(err, fs.ErrPermission) {
		return nil // directories can be made where they can't be listed
	}
	return err
}

// undoCreation removes the files that a failed Open has made, and nothing else: those of a
// store that was not there, and the lock file. It is a best effort, because Open's error is
// the one to report. If the store's files can't be removed, the lock file stays too.
// Requires: the lock is still held, if it was taken.
func (db *opening) undoCreation() {
	c := &db.made
	if db.lock == nil || c.store && !db.undoStore() {
		return
	}
	if c.lock {
		// Others who have opened the file to lock it notice that it was removed.
		_ = db.fs.Remove(db.path(base.LockName))
	}
}

// undoStore removes the files of a store that Open was about to create: logs, then CURRENT,
// then the manifest. Each step is durable before the next begins, so that no crash leaves a
// damaged store. A log without CURRENT would be one, and so would CURRENT without its
// manifest. It reports whether all are gone.
func (db *opening) undoStore() (done bool) {
	names, err := db.fs.List(db.dir)
	if err != nil {
		return false
	}
	for _, step := range [][]base.FileType{{base.FileLog}, {base.FileCurrent}, {base.FileManifest, base.FileTemp}} {
		// What was removed before, here or by the step that failed, must not come back
		// after a crash without what is removed now.
		if db.fs.SyncDir(db.dir) != nil {
			return false
		}
		for _, name := range names {
			// Ours are names of shale's whose number this Open has given out, and that were
			// not there before.
			t, n, ok := base.ParseFileName(name)
			if !ok || !slices.Contains(step, t) || n >= db.tree.PeekFileNum() || slices.Contains(db.made.found, name) {
				continue
			}
			if err := db.fs.Remove(db.path(name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
				return false
			}
		}
	}
	return true
}

// undoDirs removes the directories that Open made and that are empty, the deepest first.
// Requires: the lock is given up.
func (db *opening) undoDirs() {
	if db.guard.Lost() != nil {
		return // they may be others'
	}
	for _, dir := range db.made.dirs {
		if db.fs.Remove(dir) != nil {
			return
		}
	}
}
