package shale

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"

	"github.com/shaledb/shale/internal/base"
	"github.com/shaledb/shale/internal/durable"
	"github.com/shaledb/shale/manifest"
	"github.com/shaledb/shale/vfs"
)

// This file makes checkpoints: copies of a store in another directory, by hard links.

// A checkpoint is made in these steps:
//
//  1. checkpoint refuses a directory that is there, or that lies inside the store.
//  2. take leads the commit queue for a moment. It rotates, so that every write is in a
//     table or in a sealed log. Then it holds the version and these logs, and copies what
//     the manifest says of them. From here on writers go on.
//  3. make creates the directory and locks it.
//  4. write links the tables, their sidecars and the logs into the directory, and makes the
//     names durable. Then it writes a manifest, and CURRENT last. Until then the directory
//     is no store that opens.
//  5. Release gives back what take holds.
//
// Files of a store never change, so links are as good as copies. There is one exception: a
// log is overwritten when it is reused. take has marked those that it links, and they are
// never reused.

// Checkpoint makes a store in the new directory dir that holds the present state of this
// one, by hard links where the file system allows, else by copies. Writers wait for a
// moment, readers not at all. The checkpoint is durable when Checkpoint returns. After an
// error, dir is removed. What a crash or an error of the removal leaves there is no store
// that opens.
//
// The error wraps fs.ErrExist if dir is there, also if another checkpoint is being made in
// it. A dir inside the store's own directory is refused.
func (db *DB) Checkpoint(dir string) error {
	if err := db.beginUsable(context.Background()); err != nil {
		return err
	}
	defer db.life.Calls.Done()
	if err := db.checkpoint(dir); err != nil {
		return callError("checkpoint", err)
	}
	return nil
}

// checkpoint is Checkpoint without the context of its errors. Requires: Close waits for the
// caller.
func (db *DB) checkpoint(dir string) error {
	abs, err := vfs.Abs(db.fs, dir)
	if err != nil {
		return err
	}
	switch inside, err := vfs.Within(db.fs, abs, db.dir); {
	case err != nil:
		return err
	case inside:
		return fmt.Errorf("%s is inside of the store", dir)
	}
	switch _, err := db.fs.Stat(abs); {
	case err == nil:
		return fmt.Errorf("%s: %w", dir, fs.ErrExist)
	case !errors.Is(err, fs.ErrNotExist):
		return err
	}
	c := &checkpoint{Hold: Hold{db: db}, dir: abs}
	defer c.Release()
	if err := c.take(); err != nil {
		return err
	}
	return c.make()
}

// A checkpoint is one that is being made. take fills the Hold, whose logs are linked, and so
// never overwritten. One goroutine uses it.
type checkpoint struct {
	Hold
	dir string
}

// take fixes the state that the checkpoint holds, while no group of writes is under way. If
// the memtable is not empty, it seals the log and begins another, because a log that is
// still written can't be shared. The wait for room ends with an error if room can't come
// about.
func (c *checkpoint) take() error {
	db := c.db
	return db.commits.Alone(context.Background(), func() error {
		if !db.mems.View().Mem.Empty() {
			if err := db.awaitRoom(context.Background()); err != nil {
				return err
			}
			if err := db.rotate(); err != nil {
				return err
			}
		}
		db.tree.WithState(c.takeState)
		return nil
	})
}

// takeState takes the state and all logs but the current one, which has no writes. Requires: the
// caller leads the commit queue and Tree.editing is held, so that no log comes or goes either.
func (c *checkpoint) takeState(now *manifest.State) {
	c.keep(now)
	c.logs = c.db.logs.Share()
	c.state.Logs = slices.DeleteFunc(c.state.Logs, func(l manifest.LogInfo) bool { return !l.Sealed })
	// The writes in memory are in these logs, so every sequence number is at most LastSeq.
	c.state.LastSeq = max(c.state.LastSeq, c.db.commits.Visible())
	// Our session goes on, and so that nobody takes a later state of it for an earlier one of the
	// checkpoint, the checkpoint is one of its own.
	c.state.BeginSession(c.db.opts.testing.session(), c.state.NextFileNum)
}

// make makes the directory and all that is in it, or nothing. The lock of the directory
// keeps others out until it is complete: another checkpoint, and whoever would open it. If
// the directory is another checkpoint's, make leaves it alone.
func (c *checkpoint) make() error {
	disk := c.db.fs
	if err := disk.MkdirAll(c.dir); err != nil {
		// The directory may have been made although its name could not be made durable.
		if info, serr := disk.Stat(c.dir); serr == nil && info.IsDir {
			_ = disk.Remove(c.dir) // best effort, as in remove
		}
		return err
	}
	lockName := filepath.Join(c.dir, base.LockName)
	lock, err := disk.Lock(lockName)
	if err == nil {
		err = c.fill()
		_ = lock.Close() // nothing is lost with it
	} else if errors.Is(err, vfs.ErrLocked) {
		err = &takenError{err}
	}
	var taken *takenError
	if err != nil && !errors.As(err, &taken) {
		_ = disk.Remove(lockName) // best effort; not before the lock is closed: Windows would refuse
		_ = disk.Remove(c.dir)
	}
	return err
}

// A takenError says that the directory belongs to another checkpoint. It is fs.ErrExist to
// errors.Is.
type takenError struct{ reason error }

func (e *takenError) Error() string        { return "another checkpoint is there: " + e.reason.Error() }
func (e *takenError) Is(target error) bool { return target == fs.ErrExist }

// fill makes the files, or removes those that it made. Requires: the lock of the directory
// is held.
func (c *checkpoint) fill() error {
	names, err := c.db.fs.List(c.dir)
	if err != nil {
		return err
	}
	// The lock is free again once another checkpoint is complete. Files show that one was
	// made since the caller looked.
	if i := slices.IndexFunc(names, func(name string) bool { return name != base.LockName }); i >= 0 {
		return &takenError{fmt.Errorf("it has %s", names[i])}
	}
	if err = c.write(); err != nil {
		c.remove()
	}
	return err
}

// write makes the files, the manifest last. If it fails, the caller removes what is there.
func (c *checkpoint) write() error {
	disk := c.db.fs
	for t := range c.view.Tables() {
		if err := c.link(base.TableName(t.Meta.Num)); err != nil {
			return err
		}
	}
	for s := range c.view.Sidecars() {
		err := c.link(base.FilterName(s.Num))
		// Without its sidecar, a table is opened with the filter that it has itself.
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	for _, num := range c.logs {
		// A flush may end meanwhile. It leaves the log alone: see logset.Set.Share.
		if err := c.link(base.LogName(num)); err != nil {
			return err
		}
	}
	// The names must be durable before CURRENT is: after a crash a store that opens must
	// have all of its files.
	if err := disk.SyncDir(c.dir); err != nil {
		return err
	}
	num := c.state.NextFileNum
	c.state.NextFileNum++
	c.state.Elsewhere = "" // all tables are in this directory
	log, err := manifest.Create(disk, c.dir, num, c.state)
	if err != nil {
		return err
	}
	if err := log.Close(); err != nil {
		return err
	}
	return disk.SyncDir(filepath.Dir(c.dir))
}

// link gives a file of the store a second name in the checkpoint, or copies it where that can't be done.
func (c *checkpoint) link(name string) error {
	return durable.LinkOrCopy(c.db.fs, c.db.path(name), filepath.Join(c.dir, name))
}

// remove removes the files of a failed checkpoint in the opposite order of their making:
// CURRENT, the manifest, and then logs and tables. So whatever is left, should it be
// interrupted, is no store that opens. It is a best effort: the caller has an error to
// report already.
func (c *checkpoint) remove() {
	disk := c.db.fs
	_ = disk.Remove(filepath.Join(c.dir, base.CurrentName))
	names, _ := disk.List(c.dir)
	for _, name := range slices.Backward(names) { // in the order of names, manifests come after tables and logs
		if name != base.LockName {
			_ = disk.Remove(filepath.Join(c.dir, name))
		}
	}
}
