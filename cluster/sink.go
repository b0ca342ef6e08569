package cluster

import (
	"errors"
	"fmt"
	"io"
	"path/filepath"

	"github.com/hashicorp/raft"

	"github.com/shaledb/shale/vfs"
)

// A snapshotSink is a snapshot in the making. The state machine's own one adopts a checkpoint that is
// there. One that raft receives from the leader gets the stream by Write. Either counts once Close
// has returned nil; after an error of Close, or after Cancel, nothing is left of it. It is for one
// goroutine, as raft uses it.
type snapshotSink struct {
	snaps *snapshots
	meta  raft.SnapshotMeta
	dir   string // the directory in the making; "" before the first Write or adopt

	// A stream is decoded by a goroutine of its own, which reads what Write writes, and ends when
	// Close or Cancel close the pipe.
	pipe *io.PipeWriter
	done chan error // gets decodeStream's result

	ended bool
	err   error // of Close
}

var errNoSnapshot = errors.New("cluster: the snapshot is empty")

// ID implements raft.SnapshotSink.
func (s *snapshotSink) ID() string { return s.meta.ID }

// adopt makes the checkpoint in the directory dir, from tempDir, the content.
func (s *snapshotSink) adopt(dir string) { s.dir = dir }

// Write implements raft.SnapshotSink.
func (s *snapshotSink) Write(p []byte) (int, error) {
	if s.pipe == nil {
		if err := s.receive(); err != nil {
			return 0, err
		}
	}
	return s.pipe.Write(p)
}

// receive begins to decode a stream.
func (s *snapshotSink) receive() (err error) {
	if s.dir, err = s.snaps.tempDir(); err != nil {
		return err
	}
	store := filepath.Join(s.dir, storeName)
	if err := s.snaps.fs.MkdirAll(store); err != nil {
		return err
	}
	r, w := io.Pipe()
	s.pipe, s.done = w, make(chan error, 1)
	go func() {
		err := decodeStream(r, func(f streamFile) (streamSink, error) {
			file, err := s.snaps.fs.Create(filepath.Join(store, f.name))
			if err != nil {
				return nil, err
			}
			return fileSink{file}, nil
		})
		r.CloseWithError(err) // nil: bytes that follow are an error as well
		s.done <- err
	}()
	return nil
}

// A fileSink is a file that Close makes durable.
type fileSink struct{ vfs.File }

func (f fileSink) Close() error { return errors.Join(f.Sync(), f.File.Close()) }
func (f fileSink) Abort()       { _ = f.File.Close() } // the file is removed

// Close implements raft.SnapshotSink. Calls after the first return what that did.
func (s *snapshotSink) Close() error {
	if s.ended {
		return s.err
	}
	s.ended = true
	if s.pipe != nil {
		_ = s.pipe.Close() // never fails
		s.err = <-s.done
	}
	if s.err == nil {
		s.err = s.finish()
	}
	if s.err != nil {
		s.remove()
	}
	return s.err
}

// Cancel implements raft.SnapshotSink.
func (s *snapshotSink) Cancel() error {
	if s.ended {
		return nil
	}
	s.ended, s.err = true, errors.New("cluster: the snapshot was cancelled")
	if s.pipe != nil {
		_ = s.pipe.CloseWithError(s.err) // never fails
		<-s.done
	}
	s.remove()
	return nil
}

// remove removes what there is. What it leaves is swept by the next start.
func (s *snapshotSink) remove() {
	switch {
	case s.dir == "":
	case filepath.Base(s.dir) == s.meta.ID: // it has its name already
		_ = s.snaps.remove(s.dir)
	default:
		_ = removeTree(s.snaps.fs, s.dir)
	}
}

// finish checks the store, makes all durable and gives the directory its name.
func (s *snapshotSink) finish() error {
	if s.dir == "" {
		return errNoSnapshot
	}
	fsys, store := s.snaps.fs, filepath.Join(s.dir, storeName)
	if err := fsys.SyncDir(store); err != nil {
		return err
	}
	state, err := checkStore(fsys, store, false)
	if err != nil {
		return fmt.Errorf("cluster: the snapshot's store: %w", err)
	}
	if state.index > s.meta.Index || state.term > s.meta.Term {
		return fmt.Errorf("cluster: snapshot %s holds entry %d of term %d", s.meta.ID, state.index, state.term)
	}
	files, err := streamFiles(fsys, store)
	if err != nil {
		return err
	}
	s.meta.Size = streamSize(files)
	snap := &snapshot{meta: s.meta, state: state, dir: filepath.Join(s.snaps.dir, s.meta.ID)}
	data, err := encodeMeta(snap)
	if err != nil {
		return err
	}
	if err := writeWhole(fsys, filepath.Join(s.dir, metaName), append(data, '\n')); err != nil {
		return err
	}
	if err := fsys.SyncDir(s.dir); err != nil {
		return err
	}
	if err := fsys.Rename(s.dir, snap.dir); err != nil {
		return err
	}
	s.dir = snap.dir
	if err := fsys.SyncDir(s.snaps.dir); err != nil {
		return err
	}
	_ = s.snaps.add(snap) // it counts; old ones that could not be removed are swept or tried by the next start
	return nil
}
