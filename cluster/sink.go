package cluster

import (
	"cmp"
	"errors"
	"fmt"
	"path/filepath"

	"github.com/hashicorp/raft"

	"github.com/shaledb/shale/internal/durable"
)

// A snapshotSink is a snapshot in the making. The state machine's own one adopts a checkpoint that is
// there. One that raft receives from the leader gets the notice by Write; its files have arrived before. Either
// counts once Close has returned nil; after an error of Close, or after Cancel, nothing is left of it but files that have
// arrived. It is for one goroutine, as raft uses it.
type snapshotSink struct {
	snaps  *snapshots
	meta   raft.SnapshotMeta
	dir    string   // the directory in the making; "" before adopt or finish
	state  position // of the checkpoint in it
	notice []byte

	ended bool
	err   error // of Close
}

// ID implements raft.SnapshotSink.
func (s *snapshotSink) ID() string { return s.meta.ID }

// adopt makes the checkpoint in the directory dir, from tempDir, the content. Its state is at a position.
func (s *snapshotSink) adopt(dir string, state position) { s.dir, s.state = dir, state }

// Write implements raft.SnapshotSink.
func (s *snapshotSink) Write(p []byte) (int, error) {
	if len(s.notice)+len(p) > noticeSize {
		return 0, streamError("a notice of more than %d bytes", noticeSize)
	}
	s.notice = append(s.notice, p...)
	return len(p), nil
}

// Close implements raft.SnapshotSink. Calls after the first return what that did.
//
// Raft calls Close once, and after an error perhaps Cancel too.
func (s *snapshotSink) Close() error {
	if s.ended {
		return s.err
	}
	s.ended = true
	if s.err = s.finish(); s.err != nil {
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

// finish checks the store in the directory, makes its files durable, and gives the directory its name. After an error the
// files that were received stay, for the next attempt.
//
// The rename at the end is the moment from which the snapshot counts. All that comes before it, the
// sync of the directory included, makes sure that a power cut after it finds the files complete.
func (s *snapshotSink) finish() error {
	own := s.dir != ""
	if !own {
		s.snaps.receiving.Lock()
		defer s.snaps.receiving.Unlock()
		list := s.snaps.arrived
		if err := checkNotice(s.notice, list); err != nil {
			return err
		}
		s.state = position{list.Index, list.Term}
		s.snaps.arrived = nil
	}
	dir := cmp.Or(s.dir, s.snaps.incoming())
	fsys, store := s.snaps.fs, filepath.Join(dir, storeName)
	if err := checkFiles(fsys, store); err != nil {
		return fmt.Errorf("cluster: the snapshot's store: %w", err)
	}
	if s.state.index > s.meta.Index || s.state.term > s.meta.Term {
		return fmt.Errorf("cluster: snapshot %s holds entry %d of term %d", s.meta.ID, s.state.index, s.state.term)
	}
	list, err := listFiles(fsys, store, s.state)
	if err != nil {
		return err
	}
	s.meta.Size = list.size()
	snap := &snapshot{meta: s.meta, state: s.state, dir: filepath.Join(s.snaps.dir, s.meta.ID)}
	data, err := encodeMeta(snap)
	if err != nil {
		return err
	}
	if err := durable.Write(fsys, filepath.Join(dir, metaName), append(data, '\n')); err != nil {
		return err
	}
	if err := errors.Join(fsys.SyncDir(store), fsys.SyncDir(dir)); err != nil {
		return err
	}
	if err := fsys.Rename(dir, snap.dir); err != nil {
		return err
	}
	s.dir = snap.dir
	if err := fsys.SyncDir(s.snaps.dir); err != nil {
		return err
	}
	_ = s.snaps.add(snap, own) // it counts; old ones that could not be removed are swept or tried by the next start
	if own {
		s.snaps.dropIncoming(s.meta.Index)
	}
	return nil
}
