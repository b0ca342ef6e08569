package moved

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"sync/atomic"

	"github.com/shaledb/shale"
	"github.com/shaledb/shale/test/harness"
	"github.com/shaledb/shale/vfs"
	"github.com/shaledb/shale/vfs/faultfs"
)

// Where a store's directory goes, and where one goes that has taken its name.
const (
	movedDir = "moved"
	otherDir = "other"
)

// A way is something that happens to the directory of an open store.
type way struct {
	name string
	away func(w *world) error
	// back, if it is set, brings the directory back.
	back func(w *world) error
	// where is where the store's files are after away; "": they are gone.
	where string
	// inPlace says that a backup is restored in the store's own directory.
	inPlace bool
}

var ways = []way{
	{"renamed", func(w *world) error { return w.mem.Rename(harness.Dir, movedDir) }, bringBack, movedDir, false},
	{"removed", func(w *world) error { return errors.Join(w.empty(harness.Dir), w.mem.Remove(harness.Dir)) }, nil, "", false},
	{"replaced by an empty directory", func(w *world) error {
		return errors.Join(w.mem.Rename(harness.Dir, movedDir), w.mem.MkdirAll(harness.Dir))
	}, bringBack, movedDir, false},
	{"replaced by a backup", func(w *world) error {
		return errors.Join(w.mem.Rename(harness.Dir, movedDir), w.restore(), w.openHeir())
	}, bringBack, movedDir, false},
	{"removed, and a backup restored", func(w *world) error {
		return errors.Join(w.empty(harness.Dir), w.mem.Remove(harness.Dir), w.restore(), w.openHeir())
	}, nil, "", false},
	// Its directory is still locked, so another owner comes only when the store is closed.
	{"emptied, and a backup restored in it", func(w *world) error { return errors.Join(w.empty(harness.Dir), w.restore()) }, nil, "", true},
	{"lock file deleted", func(w *world) error { return w.mem.Remove(filepath.Join(harness.Dir, "LOCK")) }, nil, harness.Dir, false},
	{"lock file replaced", func(w *world) error {
		return errors.Join(w.put("LOCK.copy", "1\n"),
			w.mem.Rename(filepath.Join(harness.Dir, "LOCK.copy"), filepath.Join(harness.Dir, "LOCK")))
	}, nil, harness.Dir, false},
}

// bringBack gives the directory its name again. One that has it meanwhile gets another.
func bringBack(w *world) error {
	if _, err := w.mem.Stat(harness.Dir); err == nil {
		if err := errors.Join(w.endHeir(harness.Dir), w.mem.Rename(harness.Dir, otherDir)); err != nil {
			return err
		}
	}
	return w.mem.Rename(movedDir, harness.Dir)
}

// A world is a disk in memory with a store, its backup, and perhaps an heir: another store that has been
// opened where the first one was.
type world struct {
	mem    *vfs.Mem
	seed   uint64
	backup map[string]string // files
	state  harness.State     // of the backup, and what the heir has written since
	heir   *shale.DB
	// restored says that there is, or was, a store of the backup. heirDone says that the heir was checked
	// and closed.
	restored, heirDone bool

	moves    chan struct{} // has a value while nothing moves: guards the fields above
	ops      atomic.Int64  // of the store since it has its lock
	going    atomic.Bool   // the directory is about to go, or has gone
	gone     atomic.Bool   // it is not where it was
	returned atomic.Bool   // it has come back
	err      error         // what went wrong with the moves
}

// put writes a file of the directory.
func (w *world) put(name, data string) error {
	f, err := w.mem.Create(filepath.Join(harness.Dir, name))
	if err != nil {
		return err
	}
	_, err = f.Write([]byte(data))
	return errors.Join(err, f.Sync(), f.Close())
}

// empty removes all files of a directory, also such as come meanwhile.
func (w *world) empty(dir string) error {
	for {
		names, err := w.mem.List(dir)
		if err != nil || len(names) == 0 {
			return err
		}
		for _, name := range names {
			_ = w.mem.Remove(filepath.Join(dir, name)) // the store may be faster
		}
	}
}

// restore copies the backup to where the store was.
func (w *world) restore() error {
	w.restored = true
	err := w.mem.MkdirAll(harness.Dir)
	for name, data := range w.backup {
		err = errors.Join(err, w.put(name, data))
	}
	return errors.Join(err, w.mem.SyncDir(harness.Dir))
}

// openHeir opens the store of the backup and writes to it.
func (w *world) openHeir() error {
	opts := harness.DrawSeeded(w.mem, w.seed, 77)
	opts.Exist = shale.MustExist
	db, err := shale.Open(harness.Dir, &opts)
	if err != nil {
		return fmt.Errorf("open the backup: %w", err)
	}
	w.heir = db
	return w.writeHeir(15)
}

// writeHeir has the heir write n batches, and flush half of them.
func (w *world) writeHeir(n int) error {
	s := harness.NewSource(harness.ShortKeys)
	s.Reseed(w.seed)
	for i := range n {
		b := s.Write(3)
		b.Own, b.Durability = true, shale.Durability(i%3)
		if err := w.heir.Write(context.Background(), b.Batch()); err != nil {
			return fmt.Errorf("a write of the heir: %w", err)
		}
		w.state = w.state.With(b.Ops...)
		if i == n/2 {
			if err := w.heir.Flush(context.Background()); err != nil {
				return fmt.Errorf("a flush of the heir: %w", err)
			}
		}
	}
	return nil
}

// checkHeir checks that the heir has what is its own, and that nothing else lies in its directory.
func (w *world) checkHeir(dir string) error {
	found, err := harness.Read(w.heir)
	if err == nil {
		err = w.state.Diff(found)
	}
	if err == nil {
		err = harness.WaitIdle(w.heir)
	}
	if err == nil {
		err = harness.Strays(w.heir, w.mem, dir)
	}
	if err == nil {
		err = w.heir.Verify(context.Background())
	}
	if err != nil {
		return fmt.Errorf("the heir: %w", err)
	}
	return nil
}

// endHeir checks and closes the heir in dir, if there is one, and keeps others out until then.
func (w *world) endHeir(dir string) error {
	if w.heir == nil {
		return nil
	}
	err := errors.Join(w.writeHeir(5), w.checkHeir(dir))
	opts := harness.DrawSeeded(w.mem, w.seed, 78)
	if db, oerr := shale.Open(dir, &opts); !errors.Is(oerr, shale.ErrLocked) {
		if db != nil {
			_ = db.Close() // the test has failed
		}
		err = errors.Join(err, fmt.Errorf("the heir's store was opened again: %w", oerr))
	}
	err = errors.Join(err, w.heir.Close())
	w.heir, w.heirDone = nil, true
	return err
}

// inject returns what moves the directory before the store's operation at, and brings it back before
// the operation back; 0: not at all.
func (w *world) inject(how way, at, back int64) faultfs.InjectFunc {
	var locked atomic.Bool
	return func(op vfs.Op, name string, _ int64) error {
		if !locked.Load() {
			locked.Store(op == vfs.OpLock)
			return nil
		}
		n := w.ops.Add(1)
		goes, comes := n == at, n == back
		if how.inPlace { // see checkFiles
			goes, comes = n >= at && op == vfs.OpHeld && !w.going.Swap(true), false
		}
		if !goes && !comes {
			return nil
		}
		if comes {
			w.comeBack(how)
			return nil
		}
		<-w.moves
		defer func() { w.moves <- struct{}{} }()
		w.going.Store(true)
		w.err = errors.Join(w.err, how.away(w))
		w.gone.Store(true)
		return nil
	}
}

// comeBack brings the directory back, if it is away.
func (w *world) comeBack(how way) {
	<-w.moves
	defer func() { w.moves <- struct{}{} }()
	if w.gone.Load() && !w.returned.Load() {
		w.err = errors.Join(w.err, how.back(w))
		w.returned.Store(true)
	}
}

// checkFiles opens what is left when all handles are closed: the store where it went, the heir, and
// what was put where the store was.
func (w *world) checkFiles(how way, claim harness.Claim) error {
	where := how.where
	if w.returned.Load() {
		where = harness.Dir
	}
	if !w.gone.Load() {
		where = harness.Dir
	}
	var err error
	if where != "" {
		if err = w.checkStore(where, func(found harness.State) error { _, err := claim.Check(found); return err }); err != nil {
			err = fmt.Errorf("the store, which is in %s now: %w", where, err)
		}
	}
	if how.inPlace && w.restored {
		differ, derr := w.differ()
		if derr != nil || differ > mostUnderWay {
			return fmt.Errorf("%d files differ from the backup that was restored: %w", differ, derr)
		} else if differ > 0 {
			return nil
		}
	}
	if !w.restored {
		if names, lerr := w.mem.List(harness.Dir); where == movedDir && lerr == nil && len(names) > 0 {
			err = errors.Join(err, fmt.Errorf("where the store was there is %q", names))
		}
		return err
	}
	dir := harness.Dir
	if w.returned.Load() {
		dir = otherDir
	}
	if herr := w.checkStore(dir, w.state.Diff); herr != nil {
		err = errors.Join(err, fmt.Errorf("the store of the backup: %w", herr))
	}
	return err
}

// mostUnderWay is how many operations of a store may be under way at once, more or less. When a backup is
// restored in the store's own directory, each of them may still change a file of it: the directory that
// they were meant for is this one.
const mostUnderWay = 4

// differ returns how many files of the directory are not as in the backup.
func (w *world) differ() (n int, err error) {
	files, err := harness.Files(w.mem, harness.Dir)
	for name, data := range w.backup {
		if files[name] != data && name != "LOCK" {
			n++
		}
	}
	for name := range files {
		if _, ok := w.backup[name]; !ok {
			n++
		}
	}
	return n, err
}

// checkStore opens the store in dir, reads all of it and verifies it.
func (w *world) checkStore(dir string, check func(found harness.State) error) error {
	for round := range uint64(2) {
		opts := harness.DrawSeeded(w.mem, w.seed, 80+round)
		opts.Exist = shale.MustExist
		db, err := shale.Open(dir, &opts)
		if err != nil {
			return err
		}
		found, err := harness.Read(db)
		if err == nil {
			err = check(found)
		}
		if err == nil {
			err = harness.Strays(db, w.mem, dir)
		}
		if err = errors.Join(err, harness.Close(db)); err != nil {
			return err
		}
	}
	return nil
}
