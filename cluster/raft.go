package cluster

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/hashicorp/raft"
)

// Raft on the stores of a member: how it is started, and how a group begins.

const (
	// A member that stalls for longer than this is asked again, which is safe: raft's messages can
	// be repeated.
	transportTimeout = 10 * time.Second // for raft's messages, an fsync and a stalled state included
	installTimeouts  = 24               // the timeouts that a member has to install a snapshot, at most
	installScale     = (noticeSize + installTimeouts - 1) / installTimeouts
	transportConns   = 3 // kept to each member: heartbeats, entries, votes
)

// startRaft starts raft on the stores, and on a transport over the member's network.
//
// The log ends the member at an error, before raft panics (raftlog.go), and the transport checks whom it talks to
// (transport.go). NewRaft reads the log too, so it runs on a goroutine that may end.
//
// There are no pipelines: raft waits at each member for the answer before it sends the next entries. Measured with two
// messages under way instead: nothing on loopback, and at a round trip of 10 ms nothing for 1 and 1,000 writers, but a
// tenth for 64 and a fifth for 16. raftlog.go says what a pipeline would cost, and raft's own can get stuck (v1.8.0).
func (n *Node) startRaft() error {
	var fsm raft.FSM = n.state
	if n.opts.wrapFSM != nil {
		fsm = n.opts.wrapFSM(n.state)
	}
	n.logs = raftLog{n.log, n.trail, n.fail}
	trans := newTransport(n)
	err := guarded(n.fail, func() error {
		r, err := raft.NewRaft(n.config, fsm, n.logs, n.logs, n.snapshots, trans)
		if err == nil {
			n.raftNow.Store(r)
		}
		return err
	})
	if err != nil {
		if isDamage(n.Err()) {
			err = ErrLost
		}
		return errors.Join(n.Err(), err, trans.Close())
	}
	if err := n.Err(); err != nil {
		return errors.Join(err, n.raft().Shutdown().Error()) // fail may not have found it
	}
	return nil
}

// raft returns raft as it runs now.
func (n *Node) raft() *raft.Raft { return n.raftNow.Load() }

// errLostEnd is why a member ends whose raft takes its log for longer than it is.
var errLostEnd = errors.New("cluster: raft does not know any more where its log ends: open the member again (hashicorp/raft issue 697)")

// lostEnd reports whether raft takes its log for longer than it is on disk, and for how long it
// takes it. It can be so for a moment while raft cuts the log off.
//
// Raft v1.8.0 forgets to note the end when it installs a snapshot on a member whose own log, without being committed, reached
// further (issue 697): the log on disk is empty then, but raft answers the leader by the old end, and gets the same snapshot
// again and again. Only another start of raft helps.
//
// maintain asks twice before it ends the member, so that a moment of raft's own does not count.
func (n *Node) lostEnd() (raftsEnd uint64, lost bool) {
	raftsEnd = n.raft().LastIndex()
	end, err := n.logEnd()
	return raftsEnd, err == nil && raftsEnd > end
}

// A new group is founded when raft runs: by its configuration with this member alone in the log, and then by the
// group's name in MEMBER. After a crash in between, the next Open goes on, with Bootstrap or without: a log without a
// group can come from nothing else, since others only write to this log after they have told their group.

// nameBegunGroup draws the name of a group that was founded before a crash.
func (n *Node) nameBegunGroup() error {
	begun, err := raft.HasExistingState(n.log, n.log, n.snapshots)
	if err != nil || !begun || n.id.Group != "" {
		return err
	}
	return n.changeIdentity(func(i *identity) { i.Group, i.Joined = randomName(), true })
}

// found founds a group, if Options.Bootstrap says so and the directory is new. It does not if only its disk is new: then the
// group is still there, and would never hear of this one.
//
// A group must not be founded twice. There are three ways in which that could happen, and a check for each: another member
// knows the group, or a leader looks for this member, which findGroup finds out; or a leader has taken it in meanwhile.
func (n *Node) found() error {
	if !n.opts.Bootstrap || n.group() != "" {
		return nil
	}
	known, err := n.findGroup()
	if known || err != nil || n.group() != "" {
		return err // maintain joins the group; or a leader has taken this member in
	}
	err = n.raft().BootstrapCluster(raft.Configuration{Servers: []raft.Server{
		{Suffrage: raft.Voter, ID: n.server, Address: raft.ServerAddress(n.network.advertise)},
	}}).Error()
	if err != nil {
		return err
	}
	return n.nameBegunGroup()
}

// findGroup asks the members at Options.Join whether they have a group, and listens for foundAfter whether a leader looks
// for the member that had this id here: it does so twice in a heartbeat's time, or a candidate twice in an election's.
//
// A member that does not answer is asked again as long as that. One that can't be reached does not run. But one that takes
// connections and says nothing may be slow, or starting, and have a group: then none may be founded.
func (n *Node) findGroup() (found bool, err error) {
	founding := time.After(n.opts.foundAfter)
	for ask := n.opts.Join; ; {
		var again []string
		var silent error
		for _, address := range ask {
			ctx, cancel := context.WithTimeout(n.ctx, dialTimeout)
			w, err := n.askWho(ctx, address, "")
			cancel()
			if err == nil && w.Group != "" {
				return true, nil
			}
			if err != nil {
				again = append(again, address)
			}
			if err != nil && !errors.Is(err, errNoConnection) {
				silent = err
			}
		}
		ask = again
		select {
		case h := <-n.claimed:
			return true, fmt.Errorf("%w: %s of group %s looks for %s here. If its disk is lost, remove the member at the leader, and open an "+
				"empty directory with Options.Join instead of Bootstrap", ErrIDTaken, h.From, h.Group, h.To)
		case <-founding:
			if len(n.claimed) > 0 {
				continue // both were ready, since the members were slow
			}
			if silent != nil {
				err = fmt.Errorf("no group is founded, since a member at Options.Join runs and does not say whether it has one (open again "+
					"when it answers, or without its address): %w", silent)
			}
			return false, err
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// await runs a call of raft on a goroutine of its own, and waits until it or ctx ends or raft stops: raft's futures know no
// context, and some are never answered when raft stops.
//
// The goroutine may outlive the call, with what it has captured. It ends when raft answers or
// stops.
func (n *Node) await(ctx context.Context, call func() error) error {
	done := make(chan error, 1)
	go func() { done <- call() }()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return ctx.Err()
	case <-n.stopped:
		select {
		case err := <-done: // it has come at the same time
			return err
		default:
			return n.usable()
		}
	}
}
