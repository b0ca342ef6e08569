package shale

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"slices"

	"github.com/shaledb/shale/internal/base"
	"github.com/shaledb/shale/manifest"
	"github.com/shaledb/shale/vfs"
)

// Checkpoint makes a store in the new directory dir that holds the present
// state of this one, by hard links where the file system allows, else by
// copies. Writers wait for a moment, readers not at all. The checkpoint is
// durable when Checkpoint returns; after an error, dir is removed. What a crash
// or an error of the removal leaves there is no store that opens.
//
// The error wraps fs.ErrExist if dir is there, also if another checkpoint is
// being made in it. A dir inside the store's own directory is refused.
func (db *DB) Checkpoint(dir string) error {
	if err := db.usable(); err != nil {
		return err
	}
	if err := db.begin(); err != nil {
		return err
	}
	defer db.calls.Done()
	if err := db.checkpoint(dir); err != nil {
		return callError("checkpoint", err)
	}
	return nil
}

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
	c := &checkpoint{db: db, dir: abs}
	defer c.release()
	if err := c.take(); err != nil {
		return err
	}
	return c.make()
}

// A checkpoint in the making.
type checkpoint struct {
	db    *DB
	dir   string
	view  *view
	state *manifest.State
	logs  []base.FileNum // sealed; linked, so never overwritten
}

// take fixes the state: it seals the log, so that it is a file which does not
// change, and holds the version and the manifest's state that go with it.
func (c *checkpoint) take() error {
	db := c.db
	return db.commits.Alone(context.Background(), func() error {
		if !db.view.Load().mem.Empty() {
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

// takeState takes the view, the logs and the manifest's state, which belong together.
func (c *checkpoint) takeState(now *manifest.State) {
	db := c.db
	c.view = db.acquireView()
	c.logs = db.logs.Share()
	state := *now
	state.Logs = nil
	for _, l := range now.Logs {
		if l.Sealed {
			state.Logs = append(state.Logs, l)
		}
	}
	state.NextFileNum = db.tree.PeekFileNum()
	state.LastSeq = max(state.LastSeq, db.commits.Visible())
	c.state = &state
}

// make makes the directory and what is in it, or nothing. Its lock keeps out
// other checkpoints, and whoever would open what is not complete yet.
func (c *checkpoint) make() error {
	disk := c.db.fs
	if err := disk.MkdirAll(c.dir); err != nil {
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

// A takenError says that another checkpoint has the directory.
type takenError struct{ reason error }

func (e *takenError) Error() string        { return "another checkpoint is there: " + e.reason.Error() }
func (e *takenError) Is(target error) bool { return target == fs.ErrExist }

// fill makes the files, or removes those that it made. Requires: the lock of the
// directory is held.
func (c *checkpoint) fill() error {
	names, err := c.db.fs.List(c.dir)
	if err != nil {
		return err
	}
	if i := slices.IndexFunc(names, func(name string) bool { return name != base.LockName }); i >= 0 {
		return &takenError{fmt.Errorf("it has %s", names[i])}
	}
	if err = c.write(); err != nil {
		c.remove()
	}
	return err
}

// write makes the files, the manifest last.
func (c *checkpoint) write() error {
	disk := c.db.fs
	for t := range c.view.Tables() {
		if err := c.link(base.TableName(t.Meta.Num)); err != nil {
			return err
		}
	}
	for _, s := range c.view.Sidecars {
		err := c.link(base.FilterName(s.Meta.Num))
		if err != nil && !errors.Is(err, fs.ErrNotExist) { // the copy can do without it, as the store does
			return err
		}
	}
	for _, num := range c.logs {
		// A flush that finishes meanwhile leaves the log alone: see linking.
		if err := c.link(base.LogName(num)); err != nil {
			return err
		}
	}
	if err := disk.SyncDir(c.dir); err != nil {
		return err
	}
	num := c.state.NextFileNum
	c.state.NextFileNum++
	log, err := manifest.Create(disk, c.dir, num, c.state)
	if err != nil {
		return err
	}
	if err := log.Close(); err != nil {
		return err
	}
	return disk.SyncDir(filepath.Dir(c.dir))
}

// link links a file of the store into the checkpoint, or copies it.
func (c *checkpoint) link(name string) error {
	from, to := c.db.path(name), filepath.Join(c.dir, name)
	err := c.db.fs.Link(from, to)
	if err != nil && !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, fs.ErrExist) {
		err = c.copyInstead(from, to)
	}
	return err
}

// copyInstead copies a file that could not be linked. The link may have been
// made although the call failed: then to is the store's own file, and to create
// it would empty that.
func (c *checkpoint) copyInstead(from, to string) error {
	if err := c.db.fs.Remove(to); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return copyFile(c.db.fs, from, to)
}

// copyFile copies a file and makes the copy durable.
func copyFile(fsys vfs.FS, from, to string) error {
	src, err := fsys.Open(from)
	if err != nil {
		return err
	}
	defer src.Close() // opened for reading
	size, err := src.Size()
	if err != nil {
		return err
	}
	dst, err := fsys.Create(to)
	if err != nil {
		return err
	}
	if _, err = io.Copy(dst, io.NewSectionReader(src, 0, size)); err == nil {
		err = dst.Sync()
	}
	return errors.Join(err, dst.Close())
}

// remove takes away the files of a failed checkpoint in the opposite order of
// their making: so what is left, should it not come to an end, is no store that
// opens. It does what it can: there is an error to report already.
func (c *checkpoint) remove() {
	disk := c.db.fs
	_ = disk.Remove(filepath.Join(c.dir, base.CurrentName))
	names, _ := disk.List(c.dir)
	for _, name := range slices.Backward(names) { // manifests come behind tables and logs
		if name != base.LockName {
			_ = disk.Remove(filepath.Join(c.dir, name))
		}
	}
}

func (c *checkpoint) release() {
	if c.view != nil {
		c.db.tree.Release(c.view.Version)
	}
	c.db.logs.Release(c.logs)
}
