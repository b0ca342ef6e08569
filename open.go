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
	"github.com/shaledb/shale/internal/filecache"
	"github.com/shaledb/shale/internal/tree"
	"github.com/shaledb/shale/manifest"
	"github.com/shaledb/shale/memtable"
	"github.com/shaledb/shale/vfs"
)

// falsePositiveMemory is how many bytes the exact memory of proven false
// positives takes, less for stores with a smaller cache.
const falsePositiveMemory = 1 << 20

// Open opens the store in dir, creating it if it is not there; nil opts means
// the defaults. If another process, or another handle of this one, has the
// store open for writing, it fails with ErrLocked, naming the owner's process
// id, at once or after Options.LockTimeout. With ReadOnly it takes no lock and
// writes nothing. A relative dir is one of the working directory at the time of
// the call: the program may change that later.
//
// Damage to what the store needs to open gives a CorruptionError and changes
// nothing on disk. A failed Open leaves neither goroutines nor open files, and of
// a store that was not there before no file and no directory, as far as the file
// system lets it remove them.
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
	db := &opening{DB: newDB(abs, o)}
	if err := db.open(); err != nil {
		db.abandon()
		return nil, fmt.Errorf("shale: open %s: %w", dir, err)
	}
	return db.DB, nil
}

// An opening is a store that Open is at work on.
type opening struct {
	*DB
	made creation // so far
}

func newDB(dir string, o Options) *DB {
	db := &DB{
		lifetime:       newLifetime(),
		changes:        newChanges(),
		place:          place{dir: dir, fs: o.FS},
		opts:           o,
		events:         eventLog{listener: o.OnEvent, logger: o.Logger, dir: dir, now: o.testing.now},
		cache:          cache.New(o.CacheSize),
		memory:         memtable.NewPool(o.MemtableSize),
		falsePositives: cache.NewFalsePositives(int(min(falsePositiveMemory, max(o.CacheSize/16, 64<<10)))),
	}
	limit := o.MaxOpenFiles
	if o.ReadOnly {
		// Beside a writer a table may be deleted at any time, and stays
		// readable only while it is open.
		limit = int(^uint(0) >> 1)
	}
	db.files = filecache.New(o.FS, limit)
	db.connect()
	return db
}

// open is the list of what Open does.
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
	if err := db.openVersion(state, false); err != nil {
		return err
	}
	replayed, err := db.replayLogs(state)
	if err != nil {
		return err
	}
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
	if db.logs.Count() > maxKeptLogs+1 {
		// The flusher could be stopped by Close before it is done, each time.
		_ = db.flusher.flushAll() // if it fails, the flusher reports it and tries again
	}
	db.made = creation{} // it has come to stay
	db.startBackground()
	return nil
}

// abandon undoes a failed open.
func (db *opening) abandon() {
	db.letGo()
	db.undoCreation()
	_ = db.unlock() // the error of Open is the one to report
	db.undoDirs()
}

// letGo closes the files of a store that is not going to be closed by Close.
func (db *DB) letGo() {
	db.cancel()
	db.files.Close()
	db.logs.Abandon()
	db.tree.Abandon()
}

// lockDir makes the directory and takes its lock, waiting up to LockTimeout.
func (db *opening) lockDir() error {
	if db.opts.ReadOnly {
		return nil
	}
	if db.opts.MustExist {
		if err := manifest.Exists(db.fs, db.dir); err != nil {
			return err
		}
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
			return nil
		}
		left := deadline.Sub(db.opts.testing.now())
		if !errors.Is(err, vfs.ErrLocked) || left <= 0 {
			return err
		}
		db.sleep(min(wait, left))
	}
}

// loadState reads the manifest, or makes the state of a new store.
func (db *opening) loadState() (*manifest.State, error) {
	state, err := manifest.Load(db.fs, db.dir)
	switch {
	case err == nil && db.opts.ErrorIfExists:
		return nil, fs.ErrExist
	case err == nil:
		return state, nil
	case !errors.Is(err, fs.ErrNotExist):
		return nil, err
	case db.opts.MustExist || db.opts.ReadOnly:
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

// openVersion opens the tables of the manifest's version and makes it the
// current one, with an empty memtable. With moving set, a sidecar that is not
// there is an error: a writer beside us may have put another in its place.
func (db *DB) openVersion(state *manifest.State, moving bool) error {
	db.storeID = state.StoreID
	v, err := db.tree.Load(state.Version, tree.Loading{
		NextFileNum: state.NextFileNum,
		ReadFilters: db.filtersFit(state.Version),
		Moving:      moving,
	})
	if err != nil {
		return err
	}
	flushed := base.Seq(0)
	for t := range v.Tables() {
		db.reportFilter(t)
		flushed = max(flushed, t.Meta.MaxSeq)
	}
	db.commits.Skip(max(state.LastSeq, flushed))
	db.flusher.flushedSeq.Store(uint64(flushed))
	if err := db.chooseHasher(v); err != nil { // before the first memtable, which hashes with it
		return err
	}
	db.view.open(&view{mem: db.newMemtable(), Version: v})
	db.filters.Adjust(v)
	return nil
}

// filtersFit tells whether the filters of all tables are within the limit of their memory.
// If not, they are not read with the tables: db.filters.adjust reads as many as fit.
func (db *DB) filtersFit(v *manifest.Version) bool {
	limit, sum := db.opts.FilterMemory, int64(0)
	for m := range v.Tables() {
		bytes, _ := m.Filter()
		sum += bytes
	}
	return limit <= 0 || sum <= limit
}

// beginManifest starts a manifest of our own with a snapshot of the state.
// Going on with the old one would mean to append after what may be torn. Nothing
// needs the old one any more.
func (db *opening) beginManifest(state *manifest.State) error {
	old := state.ManifestNum
	if err := db.tree.BeginManifest(state); err != nil {
		return err
	}
	if !db.made.store {
		_ = db.fs.Remove(db.path(base.ManifestName(old))) // sweepDir tries again
	}
	return nil
}

// sweepDir removes files of shale's that nothing needs: leftovers of a crash.
func (db *DB) sweepDir() error {
	names, err := db.fs.List(db.dir)
	if err != nil {
		return err
	}
	for _, name := range names {
		t, n, ok := base.ParseFileName(name)
		if !ok || !db.leftover(t, n) {
			continue
		}
		if err := db.fs.Remove(db.path(name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

// leftover tells whether no part of the store needs file n of type t.
func (db *DB) leftover(t base.FileType, n base.FileNum) bool {
	switch t {
	case base.FileTable, base.FileFilter, base.FileManifest:
		return !db.tree.Needs(t, n)
	case base.FileLog:
		return !db.logs.IsLive(n)
	case base.FileTemp:
		return true
	}
	return false
}

// sidecarTries is how often openReadOnly looks again for a sidecar that is not
// there before it does without.
const sidecarTries = 3

// openReadOnly opens what is on disk without writing. Beside a running writer
// a file may vanish between reading its name and opening it, and the last log
// may be in the middle of a write: then it looks again.
func (db *opening) openReadOnly() error {
	var err error
	for attempt := range 10 {
		if attempt > 0 && !db.sleep(time.Duration(attempt)*2*time.Millisecond) {
			return ErrClosed
		}
		var state *manifest.State
		if state, err = db.loadState(); err != nil {
			if errors.Is(err, fs.ErrNotExist) {
				return err
			}
			continue
		}
		if err = db.openVersion(state, attempt < sidecarTries); err != nil {
			db.dropTables()
			continue
		}
		if _, err = db.replayLogs(state); err != nil {
			db.dropTables()
			continue
		}
		return nil
	}
	return err
}

// dropTables closes what a failed attempt of openReadOnly opened.
func (db *DB) dropTables() {
	db.files.Reset()
}

var _ io.Closer = (*DB)(nil)

// A creation is what Open makes on disk before it succeeds, so that a failed one
// leaves nothing behind.
type creation struct {
	dirs  []string // that were not there, the deepest first
	lock  bool     // the lock file was not there
	store bool     // there was no store
	found []string // what the directory held besides, if there was no store
}

// noteMissing notes which of the directories up to the store's are not there.
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
	// A symbolic link to nowhere is there all the same.
	top := c.dirs[len(c.dirs)-1]
	names, err := fsys.List(filepath.Dir(top))
	if err != nil || slices.Contains(names, filepath.Base(top)) {
		c.dirs = nil // nobody knows, or it is one
	}
	if errors.Is(err, fs.ErrPermission) {
		return nil // directories can be made where they can't be listed
	}
	return err
}

// undoCreation removes what a failed Open has made, and nothing else: the files of
// a store that was not there, the lock file, directories. It is a best effort:
// Open's error is the one to report. Requires: the lock is still held, if it was
// taken.
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

// undoStore removes the files of a store that Open was about to create, so that
// no crash meanwhile leaves a damaged store: a log or a CURRENT alone would be
// one.
func (db *opening) undoStore() (done bool) {
	names, err := db.fs.List(db.dir)
	if err != nil {
		return false
	}
	for _, step := range [][]base.FileType{{base.FileLog}, {base.FileCurrent}, {base.FileManifest, base.FileTemp}} {
		// What was removed before, here or by who failed, must not come back
		// after a crash without what is removed now.
		if db.fs.SyncDir(db.dir) != nil {
			return false
		}
		for _, name := range names {
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

// undoDirs removes the directories that Open made and that are empty.
func (db *opening) undoDirs() {
	for _, dir := range db.made.dirs {
		if db.fs.Remove(dir) != nil {
			return
		}
	}
}
