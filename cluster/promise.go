package cluster

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/hashicorp/raft"
)

// A member's log has what it has promised to the others: entries that it has acknowledged, its term and its vote. The
// state can be made again, the log can't. So Open makes sure that the log is the one that the member had last:
//
//   - Each start draws a random name for the log. The log's store gets it, with the name before, and then MEMBER does.
//     A log that is empty, another member's, or copied before the last start does not have the name in MEMBER.
//   - MEMBER also has a term in which the member was, and an index of an entry that was committed, or where the log
//     ended when the member was closed. A copy that was made since the start, and does not reach as far, is found
//     by these. They are up to date after Close, and otherwise up to noteEvery behind, the term less than that.

// logNameKey is the key of the names in the log's store: the present one, a space, and the one before.
var logNameKey = []byte("MemberLog")

// noteEvery is how often the index in MEMBER is brought up to date.
const noteEvery = 10 * time.Second

// checkLog returns ErrLost if the log is not the one that the member had last.
//
// It is called before raft starts, when the log is as the last run has left it. The name of the log
// tells an empty directory, one of another member and one from before the last start from the right
// one. The index and the term find a copy that was made since then, for example by a snapshot of
// the machine.
func (n *Node) checkLog() error {
	names, err := n.log.Get(logNameKey)
	if err != nil && err != ErrKeyNotFound {
		return err
	}
	term, termErr := n.log.GetUint64(currentTermKey)
	if termErr != nil && termErr != ErrKeyNotFound {
		return termErr
	}
	last, err := n.logEnd()
	switch {
	case err != nil:
		return err
	case n.id.Log != "" && !slices.Contains(strings.Fields(string(names)), n.id.Log),
		n.id.Group != "" && termErr != nil: // raft notes its term before the member can get a group
		return fmt.Errorf("%w: the directory %s is empty, has the log of another member, or is an old copy", ErrLost, logDir)
	case term < n.id.Term, last < n.id.Index:
		return fmt.Errorf("%w: the directory %s is an old copy, in term %d with entries up to %d; the member was in term %d and had them up to %d",
			ErrLost, logDir, term, last, n.id.Term, n.id.Index)
	}
	return nil
}

// logEnd returns the index of the last entry in the log, or in a snapshot.
func (n *Node) logEnd() (uint64, error) {
	last, err := n.log.LastIndex()
	if snap := n.snapshots.newest(); snap != nil {
		last = max(last, snap.meta.Index)
	}
	return last, err
}

// nameLog draws the log's name of this start. What follows the state in the log may still be replaced.
//
// The store of the log gets the new name together with the one before, and MEMBER after that. After
// a crash in between, MEMBER has the older of the two names, which checkLog accepts as well.
func (n *Node) nameLog() error {
	name := randomName()
	if err := n.log.Set(logNameKey, []byte(name+" "+n.id.Log)); err != nil {
		return err
	}
	return n.changeIdentity(func(i *identity) { i.Log, i.Index = name, n.state.applied() })
}

// notePromise brings MEMBER up to date. An error leaves it as it was, which is true as well.
//
// Both numbers only grow, since the note of a start may be newer than what watch has seen.
func (n *Node) notePromise(index uint64) {
	term := n.raft().CurrentTerm()
	_ = n.changeIdentity(func(i *identity) { i.Term, i.Index = max(i.Term, term), max(i.Index, index) })
}

// watch compares the members, moves the time of an idle group, and calls notePromise now and then, a term within a few seconds, until this member stops. A member
// that does not answer holds it up for termTimeout, which does no harm: an older note is true as well.
func (n *Node) watch() {
	noted := time.Now()
	for term := uint64(0); ; {
		select {
		case <-n.stopping:
			return
		case <-time.After(compareEvery):
		}
		n.compareMembers()
		if n.raft().State() == raft.Leader {
			ctx, cancel := context.WithTimeout(n.ctx, termTimeout)
			_ = n.moveTime(ctx, compareEvery) // it is tried again
			cancel()
		}
		if now := n.raft().CurrentTerm(); now != term || time.Since(noted) >= noteEvery {
			n.notePromise(n.raft().CommitIndex())
			term, noted = now, time.Now()
		}
	}
}
