package harness

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strings"
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
	limit int        // MaxOpenFiles; 0: more than there are
	snaps []followed // oldest first
}

// A followed is a snapshot of a follower, and what it shows.
type followed struct {
	snap *shale.Snapshot
	has  State
	part Part
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
		f.mem, f.fs, f.limit = l.Mem, &openFiles{FS: l.encrypted(l.Mem)}, o.Tuning.MaxOpenFiles
		o.FS, o.ReadOnly, o.Exist = f.fs, true, shale.MustExist
		setClock(&o, l.shown.now)
		var err error
		if f.db, err = shale.Open(Dir, &o); err != nil {
			return fmt.Errorf("Open of a follower: %w", err)
		}
	}
	has, seq, err := f.advance(l.Part)
	for f.gone(err) { // a compaction has ended meanwhile, which changes no answer
		has, seq, err = f.advance(l.Part)
	}
	if err != nil {
		return err
	}
	// The numbers of a group that was refused are used up, which the manifest says after Resume.
	if want := shale.ShippingOf(l.DB).Position().LastSeq; seq != want && (seq < want || l.gate.Refused.Load() == 0) {
		return fmt.Errorf("advance shows number %d, the store has %d", seq, want)
	}
	// Its time does not go back when the writer is opened again with an earlier one.
	if err := l.Model.now.At(timeOf(f.db)).Diff(has); err != nil {
		return fmt.Errorf("after Advance: %w", err)
	}
	return f.checkSnapshots()
}

// advance advances, takes a snapshot, and returns what the follower shows then, up to number seq.
func (f *follower) advance(p Part) (has State, seq uint64, err error) {
	if seq, err = f.db.Advance(context.Background()); err != nil {
		return State{}, 0, err
	}
	s, err := f.db.Snapshot()
	if err != nil {
		return State{}, 0, err
	}
	if has, err = p.read(f.db); err != nil {
		return State{}, 0, errors.Join(err, s.Close())
	}
	f.snaps = append(f.snaps, followed{s, has, p})
	return has, seq, nil
}

// gone reports whether err is Gone, and the follower had as many files open as it may.
func (f *follower) gone(err error) bool {
	return f.limit > 0 && f.fs.most.Load() >= int64(f.limit) && Gone(err)
}

// Gone reports whether err says that a read of a read-only handle lacks a file: the handle has closed it because it had
// as many open as Options.Tuning.MaxOpenFiles says, and the owner has removed it since.
func Gone(err error) bool {
	return errors.Is(err, fs.ErrNotExist) && strings.Contains(err.Error(), "Options.Tuning.MaxOpenFiles")
}

// checkSnapshots checks that the snapshots show what they have shown before. It closes the oldest if there are many,
// and those that need a file that is gone.
func (f *follower) checkSnapshots() (err error) {
	kept := f.snaps[:0]
	for i, s := range f.snaps {
		found, readErr := s.part.read(s.snap)
		gone := f.gone(readErr)
		if readErr == nil {
			readErr = s.has.Diff(found)
		}
		if readErr != nil && !gone {
			err = errors.Join(err, fmt.Errorf("a snapshot of the follower at number %d, %d advances later: %w", s.snap.Seq(), len(f.snaps)-1-i, readErr))
		}
		if gone || i < len(f.snaps)-3 {
			err = errors.Join(err, s.snap.Close())
		} else {
			kept = append(kept, s)
		}
	}
	f.snaps = kept
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
	n    atomic.Int64
	most atomic.Int64 // that were open at a time, about
}

func (o *openFiles) Open(name string) (vfs.File, error) {
	f, err := o.FS.Open(name)
	if err != nil {
		return nil, err
	}
	if n := o.n.Add(1); n > o.most.Load() {
		o.most.Store(n)
	}
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
