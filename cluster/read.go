package cluster

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/hashicorp/raft"

	"github.com/shaledb/shale"
)

// Linearizable reads
//
// A read must see every write that was acknowledged before it began, also those that another
// member has acknowledged, even if this one was cut off or stopped meanwhile. Reads go in rounds:
//
//  1. The leader notes its commit index.
//  2. It makes sure that it still leads: a majority of the members with a vote, asked after 1,
//     answers with the leader's own term.
//  3. The member waits until its state has all commands up to that index.
//  4. All reads that waited for the round run.
//
// A read joins the round that begins next, and one round runs at a time, so however many readers
// there are, a round costs one message to each member. A member that does not lead asks the leader
// for steps 1 and 2. Why it holds: had another leader been elected before step 2, then a majority
// would have been in its higher term by then. Two majorities share a member, and a member's term
// never falls. No clock matters, and there are no leases.
//
// The traps:
//
//   - A leader whose term has no committed entry yet may have a commit index from before its
//     election, lower than what the leader before it has acknowledged. Step 1 waits until the entry
//     at the commit index is of the leader's own term; raft begins each term with a no-op.
//   - Raft's AppliedIndex counts what was sent to the state machine, not what it has done. The
//     state's own index counts. No-ops and barriers never reach the state machine, so the
//     state's index may stay below the commit index for good. The log reports whether anything missing is a
//     command.
//   - A member's log may hold entries beyond its commit index that are replaced later, so it only
//     looks into the log up to there.
//   - raft.VerifyLeader, made for step 2, also counts answers to heartbeats that were sent before it
//     was called. A leader that was stopped for ten seconds finds such answers in its sockets when it
//     goes on, and would take them for consent: TestRead_OldAnswers has the case. It also waits
//     for raft's main goroutine, which syncs the log meanwhile.

// Read calls fn with a state that has every write that was acknowledged before Read was called, by
// any member: reads and writes of the group are linearizable. It works on every member, leader or not.
//
// While no leader can be reached, Read tries again until ctx ends, so give it one with a deadline.
// fn may be called on this goroutine only, once, and not if Read returns an error of its own. Its error
// is returned as it is. Each call of the reader's methods sees the member's newest state at
// that time, which moves on while fn runs.
//
// A read costs no write to the log and no fsync, but one message to each member for all reads of a
// round.
func (n *Node) Read(ctx context.Context, fn func(shale.Reader) error) error {
	done, err := n.begin()
	if err != nil {
		return err
	}
	defer done()
	if err := n.awaitNewest(ctx); err != nil {
		return err
	}
	return fn(n.state.reader())
}

// awaitNewest waits until the state has every write that was acknowledged before the call.
func (n *Node) awaitNewest(ctx context.Context) error {
	switch _, err := n.reads.await(ctx, n.reads.join()); {
	case err == nil:
		return nil
	case n.usable() != nil:
		return n.usable()
	case ctx.Err() != nil && !errors.Is(err, ctx.Err()):
		return fmt.Errorf("cluster: read: %w: %w", ctx.Err(), err)
	default:
		return fmt.Errorf("cluster: read: %w", err)
	}
}

// Local returns a reader of this member's own state, which may be behind the group's: on a member
// that is cut off from the others, by any time. Each member's state is a prefix of the group's
// order and never goes back while the member runs.
func (n *Node) Local() shale.Reader { return n.state.reader() }

// readRetry is how long a round waits before it asks for an index again.
const readRetry = 5 * time.Millisecond

// readRound is steps 1 to 3. It tries until ctx ends, because a reader can do nothing better, and
// reports the last error then.
func (n *Node) readRound(ctx context.Context) error {
	for {
		index, err := n.readIndex(ctx)
		if err == nil {
			err = n.waitState(ctx, index)
			if err == nil {
				return nil
			}
		}
		if n.usable() != nil || ctx.Err() != nil {
			return err
		}
		select {
		case <-time.After(readRetry):
		case <-ctx.Done():
			return err
		}
	}
}

// readIndex is steps 1 and 2, here or at the leader.
//
// The limit of time is twice termTimeout, so that a leader which can reach no majority is given up
// soon, and the next attempt may find another one.
func (n *Node) readIndex(ctx context.Context) (uint64, error) {
	if n.raft().State() == raft.Leader {
		return n.indexes.await(ctx, n.indexes.join())
	}
	address, id := n.leader()
	if id == "" || id == n.server {
		return 0, errNoLeader
	}
	var index uint64
	ctx, cancel := context.WithTimeout(ctx, 2*termTimeout) // then another may lead
	defer cancel()
	if err := n.caller.call(ctx, string(address), id, opIndex, nil, &index); err != nil {
		return 0, fmt.Errorf("leader %q: %v", memberID(id), err) // its ErrClosed is not this member's
	}
	return index, nil
}

// errNoLeader is why a read waits during an election.
var errNoLeader = errors.New("no leader is known")

// confirmedIndex is steps 1 and 2 for all that wait on the leader.
func (n *Node) confirmedIndex(ctx context.Context) (uint64, error) {
	ctx, cancel := context.WithTimeout(ctx, 2*termTimeout)
	defer cancel()
	term := n.raft().CurrentTerm()
	if n.raft().State() != raft.Leader {
		return 0, n.notLeader()
	}
	if err := n.awaitOwnEntry(ctx, term); err != nil {
		return 0, err
	}
	if err := n.moveTime(ctx, readLag); err != nil {
		return 0, err
	}
	index := n.raft().CommitIndex()
	if err := n.confirmTerm(ctx, term); err != nil {
		return 0, err
	}
	return index, nil
}

// awaitOwnEntry waits until an entry of the leader's term is committed.
func (n *Node) awaitOwnEntry(ctx context.Context, term uint64) error {
	for n.ownEntryTerm.Load() != term {
		if n.entryTerm(n.raft().CommitIndex()) == term {
			n.ownEntryTerm.Store(term)
			return nil
		}
		if n.raft().CurrentTerm() != term || n.raft().State() != raft.Leader {
			return n.notLeader()
		}
		select {
		case <-time.After(time.Millisecond):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

// entryTerm returns the term of the entry at index, in the log or as the last of a snapshot, or 0.
func (n *Node) entryTerm(index uint64) uint64 {
	if entry, ok := n.entry(index); ok {
		return entry.Term
	}
	if snap := n.snapshots.newest(); snap != nil && snap.meta.Index == index {
		return snap.meta.Term
	}
	return 0
}

// entry returns the entry at index, and whether the log has it.
func (n *Node) entry(index uint64) (entry raft.Log, ok bool) {
	err := n.log.GetLog(index, &entry)
	if err != nil && !errors.Is(err, raft.ErrLogNotFound) {
		n.fail(err)
	}
	return entry, err == nil
}

// confirmTerm makes sure that no other member has been elected in a later term: a majority of the
// voters, this member among them, is in term now.
//
// All voters are asked at once, and the first majority of answers ends the wait: one slow member
// costs nothing. The terms of members are asked in rounds too: all reads that wait for a round share
// its messages.
func (n *Node) confirmTerm(ctx context.Context, term uint64) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel() // nobody waits for the others
	servers := n.servers()
	answers := make(chan error, len(servers))
	voters, agreed := 0, 0
	for _, s := range servers {
		if s.Suffrage != raft.Voter {
			continue
		}
		if voters++; s.ID == n.server {
			answers <- nil
			continue
		}
		terms := n.termsOf(s.ID)
		r := terms.join()
		n.wg.Go(func() {
			its, err := terms.await(ctx, r)
			if err == nil && its != term {
				err = fmt.Errorf("member %q is in term %d, not in %d", memberID(s.ID), its, term)
			}
			answers <- err
		})
	}
	var err error
	for i := 0; i < voters && agreed <= voters/2; i++ {
		select {
		case e := <-answers:
			if e == nil {
				agreed++
			} else {
				err = e
			}
		case <-ctx.Done():
			err = ctx.Err()
		}
	}
	if agreed <= voters/2 {
		return fmt.Errorf("%d of %d members confirm that this one leads: %w", agreed, voters, err)
	}
	if n.raft().CurrentTerm() != term {
		return n.notLeader()
	}
	return nil
}

// termsOf returns the rounds in which a member is asked for its term.
func (n *Node) termsOf(id raft.ServerID) *rounds {
	n.mu.Lock()
	defer n.mu.Unlock()
	r := n.terms[id]
	if r == nil {
		r = &rounds{node: n, fn: func(context.Context) (uint64, error) { return n.askTerm(id) }}
		n.terms[id] = r
	}
	return r
}

// askTerm asks a member for its term. A call goes on when nobody waits for it any more, so that its connection can be
// used again.
func (n *Node) askTerm(id raft.ServerID) (term uint64, err error) {
	s, ok := find(n.servers(), func(s raft.Server) bool { return s.ID == id })
	if !ok {
		return 0, fmt.Errorf("%q is no member any more", memberID(id))
	}
	ctx, cancel := context.WithTimeout(n.ctx, termTimeout)
	defer cancel()
	err = n.caller.call(ctx, string(s.Address), id, opTerm, nil, &term)
	return term, err
}

// waitState waits until the state has all commands up to index, which is committed.
//
// Most of the time the index is that of the last command, and the state's own index gets there by
// itself. The loop is for the other cases: the last entries are no commands, the commit index is
// not known here yet, or a snapshot replaces the state meanwhile.
func (n *Node) waitState(ctx context.Context, index uint64) error {
	for {
		st := n.state.current.Load()
		if st.index.Load() >= index {
			return nil
		}
		if n.raft().CommitIndex() >= index {
			if command, known := n.lastCommand(st.index.Load(), index); known {
				if err := n.state.waitFor(ctx, command); err != nil {
					return err
				}
				if n.state.advance(st, index) {
					return nil
				}
				continue // a snapshot has replaced the store, and may have replaced the history
			}
		}
		// The leader has not told yet that index is committed, or a snapshot that holds it is being
		// restored. The state's index moves then, unless index is no command.
		short, cancel := context.WithTimeout(ctx, time.Millisecond)
		err := n.state.waitFor(short, index)
		cancel()
		if err != nil && (ctx.Err() != nil || !errors.Is(err, context.DeadlineExceeded)) {
			return err
		}
	}
}

// lastCommand returns the index of the last command above after and up to index, or 0 if there is
// none. known is false when the log does not reach down to it.
func (n *Node) lastCommand(after, index uint64) (command uint64, known bool) {
	for i := index; i > after; i-- {
		entry, ok := n.entry(i)
		if !ok {
			return 0, false
		}
		if entry.Type == raft.LogCommand {
			return i, true
		}
	}
	return 0, true
}

// applied returns an index up to which this member's state has all commands that are known to be committed: the
// commit index, if what lies between that and the state's own is no command.
func (n *Node) applied() uint64 {
	if done, err := n.begin(); err == nil { // else the log may be closed
		defer done()
		st, commit := n.state.current.Load(), n.raft().CommitIndex()
		if command, known := n.lastCommand(st.index.Load(), commit); known && command == 0 {
			n.state.advance(st, commit)
		}
	}
	return n.state.applied()
}

// Rounds run a function again and again while somebody waits. Whoever joins waits for a call that
// begins after that, and shares it with all others that joined since the last one began.
type rounds struct {
	node *Node
	fn   func(context.Context) (uint64, error)

	mu      sync.Mutex // protects next, running and the waiters of all rounds
	next    *round
	running bool
}

// A round is one call of the function of rounds, and all that wait for it. Its result is written
// before done is closed, and only read after that.
type round struct {
	waiters int
	cancel  context.CancelFunc // of a round that has begun
	done    chan struct{}      // closed when value and err are set
	value   uint64             // an index, or a term
	err     error
}

// join enters the round that begins next.
//
// The caller must call await with the result, which gives the place up again.
func (r *rounds) join() *round {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.next == nil {
		r.next = &round{done: make(chan struct{})}
	}
	r.next.waiters++
	if !r.running {
		r.running = true
		r.node.wg.Go(r.run)
	}
	return r.next
}

// await waits for the end of a round, and returns its value. The last one to lose patience ends the round.
func (r *rounds) await(ctx context.Context, round *round) (uint64, error) {
	select {
	case <-round.done:
		return round.value, round.err
	case <-ctx.Done():
	case <-r.node.stopping:
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if round.waiters--; round.waiters == 0 && round.cancel != nil {
		round.cancel()
	}
	return 0, cmp.Or(ctx.Err(), r.node.usable())
}

// run calls the function for one round after the other, until nobody has joined the next one. It is
// one goroutine for each rounds that has something to do. A round whose waiters have all gone is
// still called, with a context that is done, so that its end is noted in one way only.
func (r *rounds) run() {
	for {
		r.mu.Lock()
		round := r.next
		r.next = nil
		if round == nil {
			r.running = false
			r.mu.Unlock()
			return
		}
		ctx, cancel := context.WithCancel(r.node.ctx)
		round.cancel = cancel
		if round.waiters == 0 {
			cancel()
		}
		r.mu.Unlock()
		round.value, round.err = r.fn(ctx)
		cancel()
		close(round.done)
	}
}
