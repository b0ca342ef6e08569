package harness

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/shaledb/shale"
	"github.com/shaledb/shale/vfs"
)

// A follower is a read-only handle next to the store of a life. It stays open when the store is closed,
// killed and opened again, up to the next crash of the machine.
type follower struct {
	db    *shale.DB
	mem   *vfs.Mem
	fs    *openFiles
	snaps []followed // oldest first
}

// A followed is a snapshot of a follower, and what it shows.
type followed struct {
	snap *shale.Snapshot
	has  State
}

// Follow has the follower advance, which shows what the store holds then. Its snapshots from before stay
// as they are. The first call opens the follower.
func (l *Life) Follow() error {
	if l.Blind {
		return nil
	}
	f := &l.follower
	if f.db == nil {
		o := l.Options(2000 + l.opened)
		f.mem, f.fs = l.Mem, &openFiles{FS: l.Mem}
		o.FS, o.ReadOnly, o.MustExist = f.fs, true, true
		var err error
		if f.db, err = shale.Open(Dir, &o); err != nil {
			return fmt.Errorf("Open of a follower: %w", err)
		}
	}
	seq, err := f.db.Advance(context.Background())
	if err != nil {
		return err
	}
	if want := l.DB.LogPosition().LastSeq; seq != want {
		return fmt.Errorf("advance shows number %d, the store has %d", seq, want)
	}
	s, err := f.db.Snapshot()
	if err != nil {
		return err
	}
	has, err := Read(f.db)
	f.snaps = append(f.snaps, followed{s, has})
	if err != nil {
		return err
	}
	if err := l.Model.Now().Diff(has); err != nil {
		return fmt.Errorf("after Advance: %w", err)
	}
	for _, s := range f.snaps {
		found, err := Read(s.snap)
		if err == nil {
			err = s.has.Diff(found)
		}
		if err != nil {
			return fmt.Errorf("a snapshot of the follower, %d writes later: %w", seq-s.snap.Seq(), err)
		}
	}
	if len(f.snaps) > 3 {
		err = f.snaps[0].snap.Close()
		f.snaps = f.snaps[1:]
	}
	return err
}

// open returns how many files the follower has open on the disk of the life.
func (f *follower) open(mem *vfs.Mem) int {
	if f.db == nil || f.mem != mem {
		return 0
	}
	return int(f.fs.n.Load())
}

// close closes the follower, if there is one.
func (f *follower) close() (err error) {
	if f.db == nil {
		return nil
	}
	for _, s := range f.snaps {
		err = errors.Join(err, s.snap.Close())
	}
	err = errors.Join(err, f.db.Close())
	if n := f.fs.n.Load(); err == nil && n != 0 {
		err = fmt.Errorf("a follower leaves %d files open", n)
	}
	*f = follower{}
	return err
}

// openFiles is a file system that counts the files that are open for reading.
type openFiles struct {
	vfs.FS
	n atomic.Int64
}

func (o *openFiles) Open(name string) (vfs.File, error) {
	f, err := o.FS.Open(name)
	if err != nil {
		return nil, err
	}
	o.n.Add(1)
	return &openFile{File: f, n: &o.n}, nil
}

type openFile struct {
	vfs.File
	n *atomic.Int64
}

func (f *openFile) Close() error {
	f.n.Add(-1)
	return f.File.Close()
}
