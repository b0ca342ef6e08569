package cluster

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/raft"
)

// This file has how a member looks after its own place in the group.

// maintain looks after the member's own place in the group until it stops: it joins, tells its new
// address, and asks for its vote.
//
// It runs as long as the member does, since most of what it looks after can come up later: an
// address changes, a leader is lost before it has committed the member's entry, or raft takes its
// log for longer than it is.
func (n *Node) maintain() {
	wait := maintainSoon
	lostAt := uint64(0) // where raft took the log to end when it was wrong the last time
	for {
		select {
		case <-time.After(wait):
		case <-n.stopping:
			return
		}
		end, lost := n.lostEnd()
		if lost && end == lostAt {
			n.fail(errLostEnd)
			return
		}
		if lostAt = 0; lost {
			lostAt, wait = end, maintainSoon
			continue
		}
		if n.lookAfterPlace() {
			wait = maintainLater
		} else {
			wait = min(wait*3/2, maintainLater)
		}
	}
}

// lookAfterPlace takes one step and reports whether nothing is left to do.
func (n *Node) lookAfterPlace() bool {
	servers := n.servers()
	own, in := find(servers, func(s raft.Server) bool { return s.ID == n.server })
	ctx, cancel := context.WithTimeout(n.ctx, 2*changeTimeout)
	defer cancel()
	req := joinRequest{Server: n.server, Address: n.network.advertise}
	switch {
	case !n.identity().Joined && len(n.opts.Join) > 0:
		// A configuration that has this member is not enough: the leader that has sent it may have lost
		// its place before it was committed, and the next one does not know of it.
		req.New = true
		var group string
		if n.askLeader(ctx, servers, opJoin, req, &group) == nil {
			err := n.adopt(group)
			if err == nil {
				err = n.changeIdentity(func(i *identity) { i.Joined = true })
			}
			if err != nil && !errors.Is(err, ErrOtherGroup) {
				n.fail(err)
			}
		}
		return false
	case !in:
		n.removed.Store(len(servers) > 0)
		return true // removed, or waiting for AddVoter
	case string(own.Address) != n.network.advertise:
		// A leader cannot be told by itself where it is: others look for it at the old
		// address, and as it leads they answer it, which is all that is needed to change it.
		if n.raft().State() == raft.Leader {
			_, err := n.takeIn(ctx, req)
			return err == nil
		}
		err := n.askLeader(ctx, servers, opJoin, req, new(string))
		if errors.Is(err, ErrIDTaken) { // Open has not found the other
			n.fail(err)
		}
		return err == nil
	case own.Suffrage != raft.Voter && len(n.opts.Join) > 0 && !n.opts.Learner:
		if n.askLeader(ctx, servers, opVote, n.server, new(struct{})) == nil {
			return true
		}
		n.removed.Store(n.isForgotten(servers))
		return false
	}
	n.removed.Store(n.isForgotten(servers))
	return true
}

// isForgotten reports whether the others know this member no more: a majority of them answers, and none has it in its
// configuration. Raft sends the entry that removes a member to that member too, but only once: one that does not get it
// would wait for a leader for ever.
func (n *Node) isForgotten(servers []raft.Server) bool {
	if _, id := n.leader(); id != "" {
		return false
	}
	var others, answers, know atomic.Int32
	var asked sync.WaitGroup
	for _, s := range servers {
		if s.ID == n.server || s.Suffrage != raft.Voter {
			continue
		}
		others.Add(1)
		asked.Go(func() {
			w, err := n.askSoon(n.ctx, s)
			if err == nil && w.Group == n.group() {
				answers.Add(1)
			}
			if w.Known != "" {
				know.Add(1)
			}
		})
	}
	asked.Wait()
	return know.Load() == 0 && 2*answers.Load() > others.Load()
}

// askLeader finds the leader and asks it: the one that this member knows, else the one that other
// members know.
func (n *Node) askLeader(ctx context.Context, servers []raft.Server, op byte, req, answer any) error {
	var addresses []string
	if a, id := n.leader(); id != "" && id != n.server {
		addresses = append(addresses, string(a))
	}
	addresses = append(addresses, n.opts.Join...)
	for _, s := range servers {
		if s.ID != n.server {
			addresses = append(addresses, string(s.Address))
		}
	}
	err := errNoLeader
	asked := map[string]bool{n.network.advertise: true}
	for len(addresses) > 0 {
		a := addresses[0]
		addresses = addresses[1:]
		if asked[a] {
			continue
		}
		asked[a] = true
		e := n.caller.call(ctx, a, "", op, req, answer)
		if e == nil {
			return nil
		}
		if l := (*NotLeaderError)(nil); !errors.As(e, &l) {
			err = e
		} else if l.Address != "" {
			addresses = append([]string{l.Address}, addresses...)
		}
	}
	return err
}
