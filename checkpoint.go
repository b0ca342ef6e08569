package shale

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"

	"github.com/shaledb/shale/internal/base"
	"github.com/shaledb/shale/manifest"
	"github.com/shaledb/shale/vfs"
)

// Checkpoint makes a store in the new directory dir that holds the present
// state of this one, by hard links where the file system allows, else by
// copies. Writers wait for a moment, readers not at all. The checkpoint is
// durable when Checkpoint returns; after an error, dir is removed.
func (db *DB) Checkpoint(dir string) error {
	if err := db.writable(); err != nil {
		return err
	}
	if err := db.begin(); err != nil {
		return err
	}
	defer db.calls.Done()
	switch _, err := db.fs.Stat(dir); {
	case err == nil:
		return fmt.Errorf("shale: checkpoint: %s: %w", dir, fs.ErrExist)
	case !errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("shale: checkpoint: %w", err)
	}
	c := &checkpoint{db: db, dir: dir}
	defer c.release()
	if err := c.take(); err != nil {
		return fmt.Errorf("shale: checkpoint: %w", err)
	}
	if err := c.write(); err != nil {
		c.remove()
		return fmt.Errorf("shale: checkpoint: %w", err)
	}
	return nil
}

// A checkpoint in the making.
type checkpoint struct {
	db      *DB
	dir     string
	view    *view
	state   *manifest.State
	logs    []base.FileNum // sealed; linked, so never overwritten
	created []string
}

// take fixes the state: it seals the log, so that it is a file which does not
// change, and holds the version and the manifest's state that go with it.
func (c *checkpoint) take() error {
	db := c.db
	r := db.queue.newRequest()
	defer r.free()
	r.exclusive = func() error {
		if !db.view.Load().mem.Empty() {
			if err := db.awaitRoom(context.Background()); err != nil {
				return err
			}
			if err := db.rotate(); err != nil {
				return err
			}
		}
		db.manifestMu.Lock()
		defer db.manifestMu.Unlock()
		db.mu.Lock()
		defer db.mu.Unlock()
		c.view = db.view.Load()
		c.view.version.refs.Add(1) // the current version: not 0
		state := *db.manifestState
		state.Logs = nil
		for i, l := range db.logs[:len(db.logs)-1] {
			db.logs[i].linked = true
			db.linking[l.num]++
			c.logs = append(c.logs, l.num)
		}
		for _, l := range db.manifestState.Logs {
			if l.Sealed {
				state.Logs = append(state.Logs, l)
			}
		}
		state.NextFileNum = db.nextFileNum
		state.LastSeq = max(state.LastSeq, base.Seq(db.visible.Load()))
		c.state = &state
		return nil
	}
	return db.commit(context.Background(), r)
}

// write makes the directory and its files, the manifest last.
func (c *checkpoint) write() error {
	disk := c.db.fs
	if err := disk.MkdirAll(c.dir); err != nil {
		return err
	}
	for t := range c.view.tables() {
		if err := c.link(base.TableName(t.meta.Num)); err != nil {
			return err
		}
	}
	for _, s := range c.view.sidecars {
		err := c.link(base.FilterName(s.meta.Num))
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
	c.created = append(c.created, base.ManifestName(num), base.CurrentName)
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
	if err == nil {
		c.created = append(c.created, name)
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

// remove takes away what a failed checkpoint made.
func (c *checkpoint) remove() {
	for _, name := range append(c.created, base.CurrentName) {
		_ = c.db.fs.Remove(filepath.Join(c.dir, name)) // best effort: the error is reported already
	}
	_ = c.db.fs.Remove(c.dir) // likewise
}

func (c *checkpoint) release() {
	if c.view != nil {
		c.db.releaseVersion(c.view.version)
	}
	c.db.unlinkLogs(c.logs)
}
