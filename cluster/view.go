package cluster

import (
	"context"
	"errors"
	"time"

	"github.com/hashicorp/raft"

	"github.com/shaledb/shale"
)

// What a member shows of itself: how it is doing, the store of its state, and copies of that.

// Stats tells how a member is doing.
type Stats struct {
	State   string // Leader, Follower, Candidate or Shutdown
	Leader  string // the leader's id, "" when none is known
	Term    uint64 // of this member: the number of the election that it knows of last
	Last    uint64 // index of the last entry in this member's log
	Commit  uint64 // index up to which this member knows that entries are committed
	Applied uint64 // index up to which this member's state has all commands; Commit once it has caught up
	Voters  int    // members with a vote
	Members int    // learners included
	// Differing are the members whose state is not the leader's, as far as this member leads. A majority decides which of
	// them stop, with ErrDiffers.
	Differing []string
	// Removed says that this member is in the group no more: by its own log, or because the others do not know it.
	Removed bool
	// Contact is when this member last heard of a leader; zero: never, or it leads.
	Contact time.Time
}

// Stats returns how this member is doing.
//
// The figures are read one after the other, so they may be of moments that differ a little.
func (n *Node) Stats() Stats {
	s := Stats{
		State: n.raft().State().String(), Term: n.raft().CurrentTerm(), Last: n.raft().LastIndex(),
		Commit: n.raft().CommitIndex(), Applied: n.applied(), Differing: *n.differing.Load(),
		Removed: n.removed.Load(),
	}
	_, id := n.leader()
	s.Leader = memberID(id)
	if n.raft().State() != raft.Leader {
		s.Contact = n.raft().LastContact()
	}
	for _, m := range n.servers() {
		s.Members++
		if m.Suffrage == raft.Voter {
			s.Voters++
		}
	}
	return s
}

// View calls fn with the store that holds this member's state, for its metrics, checks or a
// checkpoint. A snapshot from the leader replaces the store; it waits until fn has returned.
// fn must not write to the store, nor keep or close it. Its last entries, with keys that begin
// with 32 bytes 0xff, are the group's own.
//
// It is a door to everything that a store can show, so that this package need not have it all
// again.
func (n *Node) View(fn func(*shale.DB) error) error {
	done, err := n.begin()
	if err != nil {
		return err
	}
	defer done()
	st := n.state.hold()
	defer st.unpin()
	return fn(st.db)
}

// Checkpoint makes a copy of this member's state in dir, a new directory on the same file system,
// which shale.Open opens. Tables are hard links, so it costs little time and room.
func (n *Node) Checkpoint(dir string) error {
	return n.View(func(db *shale.DB) error { return db.Checkpoint(dir) })
}

// Snapshot makes a snapshot now, and lets raft cut its log. Raft does so by itself when
// SnapshotThreshold entries have come since the last one. Without a new entry it does nothing.
func (n *Node) Snapshot(ctx context.Context) error {
	done, err := n.begin()
	if err != nil {
		return err
	}
	defer done()
	err = n.await(ctx, func() error { return n.raft().Snapshot().Error() })
	if errors.Is(err, raft.ErrNothingNewToSnapshot) {
		return nil
	}
	return err
}
