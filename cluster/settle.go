package cluster

import (
	"errors"
	"fmt"
	"io/fs"

	"github.com/hashicorp/raft"
)

// errLost is wrapped when a member can't go on from what its disk has: see settle.
var errLost = errors.New("cluster: the member has lost entries that it had acknowledged")

// settle makes the log fit to the newest snapshot, before raft starts, and reports whether the member
// may go on. It may not, with errLost, in these cases. What a member has acknowledged counts for
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
	first, err := log.FirstIndex()
	if err != nil {
		return err
	}
	last, err := log.LastIndex()
	if err != nil {
		return err
	}
	var snapIndex, snapTerm uint64
	if snap := s.snaps.newest(); snap != nil {
		snapIndex, snapTerm = snap.meta.Index, snap.meta.Term
	}
	if last > 0 && first > snapIndex+1 {
		return fmt.Errorf("%w: its log begins with entry %d, and its newest whole snapshot ends with %d", errLost, first, snapIndex)
	}
	if last > 0 && snapIndex > 0 && first <= snapIndex {
		stale := last < snapIndex
		if !stale {
			var entry raft.Log
			if err := log.GetLog(snapIndex, &entry); err != nil {
				return err
			}
			stale = entry.Term != snapTerm
		}
		if stale {
			if err := log.DeleteRange(first, last); err != nil {
				return err
			}
			last = 0
		}
	}
	had := max(s.snaps.lost, s.applied())
	if end := max(snapIndex, last); end < had {
		return fmt.Errorf("%w: it had them up to %d, and has them up to %d", errLost, had, end)
	}
	if s.settled {
		return nil // raft is started again, and readers may have a store that was replaced
	}
	s.settled = true
	return s.tidy()
}

// tidy removes the states and the snapshots that were replaced or dropped. Until settle has called
// it, all are there, in case that the member can't go on.
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
