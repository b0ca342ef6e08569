package cluster

import (
	"errors"
	"fmt"
	"io/fs"

	"github.com/hashicorp/raft"
)

// settle makes the log fit to the newest snapshot, before raft starts, and reports whether the member
// may go on. It may not, with ErrLost, in these cases. What a member has acknowledged counts for
// majorities, so with less than that it could help to elect a leader that lacks acknowledged
// writes, or vote twice in a term.
//
//   - The log begins behind the entry after the newest whole snapshot.
//   - The state, or a snapshot that is damaged, was further than what is left.
//
// A crash while raft installs a snapshot can leave a log from before it. Entries up to the snapshot's
// that are not those of the leader were never committed, and raft, should it lead later, would take
// them for committed ones. So the log is emptied then, as raft would have done next. Nothing is
// lost with it: what follows an entry that another leader has replaced is replaced as well.
func settle(log raft.LogStore, s *state) error {
	snap := s.snaps.newest()
	first, last, stale, err := logBounds(log, snap)
	if err != nil {
		return err
	}
	var snapIndex uint64
	if snap != nil {
		snapIndex = snap.meta.Index
	}
	if last > 0 && first > snapIndex+1 {
		return fmt.Errorf("%w: its log begins with entry %d, and its newest whole snapshot ends with %d", ErrLost, first, snapIndex)
	}
	if stale {
		if err := log.DeleteRange(first, last); err != nil {
			return err
		}
		last = 0
	}
	had := max(s.snaps.lost, s.applied())
	if end := max(snapIndex, last); end < had {
		return fmt.Errorf("%w: it had them up to %d, and has them up to %d", ErrLost, had, end)
	}
	return s.tidy()
}

// logBounds returns the first and the last index of the log, and whether the log is from before the snapshot and not
// on its history.
//
// The log is on the snapshot's history if it has the snapshot's last entry with the same term, or
// begins behind it.
func logBounds(log raft.LogStore, snap *snapshot) (first, last uint64, stale bool, err error) {
	if first, err = log.FirstIndex(); err != nil {
		return 0, 0, false, err
	}
	if last, err = log.LastIndex(); err != nil {
		return 0, 0, false, err
	}
	if last == 0 || snap == nil || first > snap.meta.Index {
		return first, last, false, nil
	}
	if last < snap.meta.Index {
		return first, last, true, nil
	}
	var entry raft.Log
	err = log.GetLog(snap.meta.Index, &entry)
	return first, last, entry.Term != snap.meta.Term, err
}

// tidy removes the states and the snapshots that were replaced or dropped. Until settle has called
// it, all are there, in case that the member can't go on.
//
// The mark of damage goes last. If the member crashes before that, its next start looks closely
// again, and finds that all is well.
func (s *state) tidy() error {
	if err := s.snaps.clear(); err != nil {
		return err
	}
	st := s.current.Load()
	if err := s.sweepOthers(st.number); err != nil {
		return err
	}
	err := s.fs.Remove(st.path + damageSuffix)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return errors.Join(err, s.fs.SyncDir(s.dir))
}
