package cluster

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/hashicorp/raft"
)

const (
	// promoteWithin is how many entries a learner may be behind when it gets a vote. Its log
	// counts for majorities from then on, so it shall not hold up writes.
	promoteWithin = 1000

	// changeTimeout is how long a change of the members waits to begin. Raft makes one at a time.
	changeTimeout = 10 * time.Second

	maintainSoon  = 100 * time.Millisecond // how often a member looks after itself while something is to be done
	maintainLater = time.Second            // and otherwise
	promotePoll   = 50 * time.Millisecond
)

// A Member of the group, as this member knows it.
type Member struct {
	ID      string // Options.ID
	Address string // where other members find it
	Voter   bool   // it counts for majorities and elections; else it is a learner
	Leader  bool   // as far as this member knows
}

// Members returns the members in this member's newest configuration, by id. A member that is cut
// off may not know the newest one.
func (n *Node) Members() ([]Member, error) {
	done, err := n.begin()
	if err != nil {
		return nil, err
	}
	defer done()
	_, leader := n.leader()
	var members []Member
	for _, s := range n.servers() {
		members = append(members, Member{
			ID: memberID(s.ID), Address: string(s.Address), Voter: s.Suffrage == raft.Voter, Leader: s.ID == leader,
		})
	}
	slices.SortFunc(members, func(a, b Member) int { return cmp.Compare(a.ID, b.ID) })
	return members, nil
}

// Leader returns the member that leads as far as this one knows, and whether it knows one.
func (n *Node) Leader() (Member, bool) {
	address, id := n.leader()
	if id == "" {
		return Member{}, false
	}
	return Member{ID: memberID(id), Address: string(address), Voter: true, Leader: true}, true
}

// IsLeader reports whether this member leads as far as it knows. Another may have been elected
// meanwhile; only Read and Write make sure.
func (n *Node) IsLeader() bool { return n.raft().State() == raft.Leader }

// Address returns the address under which others find this member.
func (n *Node) Address() string { return n.network.advertise }

// servers returns the members as raft knows them, in its newest configuration.
func (n *Node) servers() []raft.Server { return n.raft().GetConfiguration().Configuration().Servers }

// leader returns the leader that this member knows, or empty names during an election.
func (n *Node) leader() (raft.ServerAddress, raft.ServerID) { return n.raft().LeaderWithID() }

// AddLearner takes in the member with this id, which has been opened and listens at address. It gets
// all writes and no vote. Only the leader can do this. For a member that is in already, it
// notes the address.
func (n *Node) AddLearner(ctx context.Context, id, address string) error {
	_, err := n.add(ctx, id, address)
	return err
}

// add lets in the member that answers at an address. The answer has the random name of its
// directory, which the operator does not know: raft counts members by that.
func (n *Node) add(ctx context.Context, id, address string) (raft.ServerID, error) {
	done, err := n.begin()
	if err != nil {
		return "", err
	}
	defer done()
	if n.raft().State() != raft.Leader {
		return "", n.notLeader()
	}
	w, err := n.askWho(ctx, address, "")
	if err != nil {
		return "", fmt.Errorf("cluster: add %q: %w", id, err)
	}
	if memberID(w.Server) != id {
		return "", fmt.Errorf("cluster: add %q: member %q lives at %s", id, memberID(w.Server), address)
	}
	if _, err := n.takeIn(ctx, joinRequest{Server: w.Server, Address: address, New: true}); err != nil {
		return "", fmt.Errorf("cluster: add %q: %w", id, err)
	}
	return w.Server, nil
}

// AddVoter takes in a member as AddLearner does, waits until it has all but the last 1,000 entries
// of the log and gives it a vote. If ctx ends before that, the member stays a learner, and AddVoter can
// be called again.
func (n *Node) AddVoter(ctx context.Context, id, address string) error {
	server, err := n.add(ctx, id, address)
	if err != nil {
		return err
	}
	for {
		err := n.promote(ctx, server)
		if err == nil || !errors.Is(err, errBehind) {
			return err
		}
		select {
		case <-time.After(promotePoll):
		case <-ctx.Done():
			return fmt.Errorf("cluster: add %q: it stays a learner: %w: %w", id, ctx.Err(), err)
		case <-n.stopping:
			return n.usable()
		}
	}
}

// Remove removes a member from the group. Only the leader can do this, and not to itself: it hands the lead over then,
// and returns a [NotLeaderError] that names the next leader. The removed member goes on with the state that it had
// until it is closed; its directory can't join again, so remove that too.
//
// The member need not run. What it has in its directory is of no use to the group afterwards.
func (n *Node) Remove(ctx context.Context, id string) error {
	done, err := n.begin()
	if err != nil {
		return err
	}
	defer done()
	if id == n.opts.ID {
		if err := n.handOver(ctx); err != nil {
			return fmt.Errorf("cluster: remove %q: %w", id, err)
		}
	}
	err = n.change(ctx, func(servers []raft.Server) (raft.IndexFuture, error) {
		s, ok := find(servers, func(s raft.Server) bool { return memberID(s.ID) == id })
		if !ok {
			return nil, fmt.Errorf("no member %q", id)
		}
		return n.raft().RemoveServer(s.ID, 0, changeTimeout), nil
	})
	if err != nil {
		return fmt.Errorf("cluster: remove %q: %w", id, err)
	}
	return nil
}

// handOver lets another member lead, if one has a vote, and returns a NotLeaderError that names it.
//
// A leader that removed itself could fall when its own log alone has the change. By that log it has no vote and never leads
// again, while the others may need its vote, which it gives to no shorter log: a group of two would have no leader for good.
func (n *Node) handOver(ctx context.Context) error {
	if _, others := find(n.servers(), func(s raft.Server) bool { return s.ID != n.server && s.Suffrage == raft.Voter }); !others {
		return nil // raft refuses to remove the last one
	}
	if err := n.TransferLeadership(ctx, ""); err != nil {
		return err
	}
	for {
		if _, known := n.Leader(); known {
			return n.notLeader()
		}
		select {
		case <-time.After(transferPoll):
		case <-ctx.Done():
			return n.notLeader()
		case <-n.stopping:
			return n.usable()
		}
	}
}

// TransferLeadership makes another member the leader: the one with this id, or the one that is
// furthest if id is "". Only the leader can do this. Writes wait meanwhile, for an
// election timeout at most. It returns when this member leads no more.
func (n *Node) TransferLeadership(ctx context.Context, id string) error {
	done, err := n.begin()
	if err != nil {
		return err
	}
	defer done()
	if n.raft().State() != raft.Leader {
		return n.notLeader()
	}
	if id == n.opts.ID {
		return nil
	}
	// Raft stops taking writes at once, sends the other member what it lacks, and tells it to begin
	// an election. If that does not succeed within an election timeout, this member leads on.
	call := n.raft().LeadershipTransfer
	if id != "" {
		s, ok := find(n.servers(), func(s raft.Server) bool { return memberID(s.ID) == id && s.Suffrage == raft.Voter })
		if !ok {
			return fmt.Errorf("cluster: transfer the leadership: no member %q with a vote", id)
		}
		call = func() raft.Future { return n.raft().LeadershipTransferToServer(s.ID, s.Address) }
	}
	err = n.await(ctx, func() error { return call().Error() })
	if errors.Is(err, raft.ErrNotLeader) {
		return n.notLeader()
	}
	if err != nil {
		return fmt.Errorf("cluster: transfer the leadership: %w", err)
	}
	return nil
}

// find returns the server for which is holds, and whether there is one.
func find(servers []raft.Server, is func(raft.Server) bool) (raft.Server, bool) {
	i := slices.IndexFunc(servers, is)
	if i < 0 {
		return raft.Server{}, false
	}
	return servers[i], true
}

// change makes one change of the members and waits until it is committed. A request without a result needs none.
func (n *Node) change(ctx context.Context, request func([]raft.Server) (raft.IndexFuture, error)) error {
	n.changeMu.Lock()
	defer n.changeMu.Unlock()
	if n.raft().State() != raft.Leader {
		return n.notLeader()
	}
	err := n.await(ctx, func() error {
		f, err := request(n.servers())
		if err != nil || f == nil {
			return err
		}
		switch err := f.Error(); {
		case errors.Is(err, raft.ErrNotLeader), errors.Is(err, raft.ErrLeadershipTransferInProgress):
			return n.notLeader()
		case errors.Is(err, raft.ErrEnqueueTimeout):
			return errors.New("an earlier change of the members has not ended yet: try again")
		case errors.Is(err, raft.ErrLeadershipLost), errors.Is(err, raft.ErrRaftShutdown):
			return unknown(err)
		default:
			return err
		}
	})
	if ctx.Err() != nil && errors.Is(err, ctx.Err()) {
		return unknown(err) // it may still be made
	}
	return err
}

// takeIn lets a member in as a learner, or notes the new address of one that is in.
//
// Raft's configuration has one entry for a member, under the random name of its directory. A second
// directory under the same id is refused as long as the first one is a member, because both could
// vote.
func (n *Node) takeIn(ctx context.Context, req joinRequest) (group string, err error) {
	if n.raft().State() != raft.Leader {
		return "", n.notLeader()
	}
	// The member must be where it says, or the group would look for it in vain.
	if _, err := n.askWho(ctx, req.Address, req.Server); err != nil {
		return "", fmt.Errorf("the leader does not find the member at its address: %w", err)
	}
	err = n.change(ctx, func(servers []raft.Server) (raft.IndexFuture, error) {
		id := memberID(req.Server)
		s, there := find(servers, func(s raft.Server) bool { return memberID(s.ID) == id })
		switch {
		case !there && !req.New:
			return nil, fmt.Errorf("%q is no member: it has been removed", id)
		case there && s.ID != req.Server:
			return nil, fmt.Errorf("%w: %q is %s at %s", ErrIDTaken, id, s.ID, s.Address)
		case there && string(s.Address) == req.Address:
			// What the leader knows may not be committed yet. What follows it then is not either.
			return nil, n.raft().Barrier(changeTimeout).Error()
		case there && n.runsAt(ctx, s, req.Address):
			return nil, fmt.Errorf("%w: %q runs at %s too, from a copy of the directory", ErrIDTaken, id, s.Address)
		case there && s.Suffrage == raft.Voter:
			return n.raft().AddVoter(s.ID, raft.ServerAddress(req.Address), 0, changeTimeout), nil
		}
		return n.raft().AddNonvoter(req.Server, raft.ServerAddress(req.Address), 0, changeTimeout), nil
	})
	return n.group(), err
}

// runsAt reports whether a member runs where the group knows it, and not at its new address: two
// copies of one directory could vote twice.
func (n *Node) runsAt(ctx context.Context, s raft.Server, newAddress string) bool {
	old, err := n.askSoon(ctx, s)
	return err == nil && old.Address != newAddress
}

// askSoon asks a member at the address that the group knows, for as long as a live one needs.
func (n *Node) askSoon(ctx context.Context, s raft.Server) (whoAnswer, error) {
	ctx, cancel := context.WithTimeout(ctx, dialTimeout)
	defer cancel()
	return n.askWho(ctx, string(s.Address), s.ID)
}

// askWho asks the member at an address who it is, how far, and where it knows this one.
func (n *Node) askWho(ctx context.Context, address string, to raft.ServerID) (w whoAnswer, err error) {
	err = n.caller.call(ctx, address, to, opWho, n.server, &w)
	return w, err
}

// takePlace returns ErrIDTaken if this member runs elsewhere too: one of the two directories is a copy of
// the other, and together they could vote twice in a term. It asks where this member's own log says that
// it lives, and where the others know it, which is another place if a copy has moved in meanwhile. Raft
// neither asks for votes nor hears of others before that (transport.RequestVote, welcome).
//
// A member that does not answer within dialTimeout is as one that does not run.
func (n *Node) takePlace() error {
	var mu sync.Mutex
	known := map[string]bool{}
	var asked sync.WaitGroup
	for _, s := range n.servers() {
		asked.Go(func() {
			w, err := whoAnswer{Known: string(s.Address)}, error(nil)
			if s.ID != n.server {
				w, err = n.askSoon(n.ctx, s)
			}
			if mu.Lock(); err == nil && w.Known != "" {
				known[w.Known] = true
			}
			mu.Unlock()
		})
	}
	asked.Wait()
	delete(known, n.network.advertise)
	for address := range known {
		if n.runsAt(n.ctx, raft.Server{ID: n.server, Address: raft.ServerAddress(address)}, n.network.advertise) {
			return fmt.Errorf("%w: %q runs at %s; this directory is a copy of that one's, or that one's of this. Remove one of the two, "+
				"and never start it again", ErrIDTaken, n.opts.ID, address)
		}
	}
	n.placed.Store(true)
	return nil
}

// errBehind is wrapped when a learner is too far behind for a vote.
var errBehind = errors.New("the learner is behind")

// promote gives a learner a vote if it has caught up.
//
// The learner asks for its vote by itself (lookAfterPlace), and AddVoter asks for it too. The
// leader decides: it asks the learner how far it is, and does not believe its own record of what it
// has sent.
func (n *Node) promote(ctx context.Context, server raft.ServerID) error {
	return n.change(ctx, func(servers []raft.Server) (raft.IndexFuture, error) {
		s, ok := find(servers, func(s raft.Server) bool { return s.ID == server })
		if !ok {
			return nil, fmt.Errorf("%s is no member", server)
		}
		if s.Suffrage == raft.Voter {
			return nil, nil
		}
		w, err := n.askSoon(ctx, s)
		if err != nil {
			return nil, fmt.Errorf("%w: it does not answer: %w", errBehind, err)
		}
		if last := n.raft().LastIndex(); w.Last+promoteWithin < last {
			return nil, fmt.Errorf("%w by %d entries", errBehind, last-w.Last)
		}
		return n.raft().AddVoter(s.ID, s.Address, 0, changeTimeout), nil
	})
}

// who answers a who call of a server.
func (n *Node) who(caller raft.ServerID) (whoAnswer, error) {
	w := whoAnswer{
		Server: n.server, Group: n.group(), Address: n.network.advertise, Last: n.raft().LastIndex(), Applied: n.applied(),
	}
	if s, ok := find(n.servers(), func(s raft.Server) bool { return s.ID == caller }); ok {
		w.Known = string(s.Address)
	}
	if n.opts.About != nil {
		w.About = n.opts.About()
	}
	return w, nil
}
