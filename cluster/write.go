package cluster

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/hashicorp/raft"

	"github.com/shaledb/shale"
)

// forwardTimeout is how long the leader works on a write that a member has forwarded. The member
// may have given up by then.
const forwardTimeout = time.Minute

// transferPoll is how often a write looks whether a transfer of the leadership is over.
const transferPoll = 2 * time.Millisecond

// Write writes a batch: all of it or nothing, at one point of the order that all members see. When
// it returns nil, the batch is on disk at a majority of the members with a vote, and this member's
// state shows it if it leads.
//
// A [NotLeaderError] says that nothing happened, and who leads. An error that wraps [ErrUnknown] says
// that the batch may have been written or may be later. After all other errors nothing has
// happened. Writes that run at the same time share messages and fsyncs, so many goroutines get
// far more done than one.
//
// The batch is encoded before Write waits, and may be used again when it returns. Its values that expire last as long,
// from when the group has written them, as they would have lasted when Write was called.
func (n *Node) Write(ctx context.Context, b *shale.Batch) error {
	cmd, err := encodeWrite(b)
	if err != nil {
		return err
	}
	_, err = n.submit(ctx, cmd)
	return err
}

// Put sets the value of key, as Write does.
func (n *Node) Put(ctx context.Context, key, value []byte) error {
	b := new(shale.Batch)
	if err := b.Put(key, value); err != nil {
		return err
	}
	return n.Write(ctx, b)
}

// PutTTL sets the value of key, as Write does, until ttl has passed since the group has written it, by the leader's clock. With
// a ttl of 0 or less it is Delete. For writes the value is gone to the millisecond, for reads soon after: see Read and Local.
func (n *Node) PutTTL(ctx context.Context, key, value []byte, ttl time.Duration) error {
	b := new(shale.Batch)
	if err := b.PutTTL(key, value, ttl); err != nil {
		return err
	}
	return n.Write(ctx, b)
}

// Delete removes key, as Write does. Deleting an absent key is no error.
func (n *Node) Delete(ctx context.Context, key []byte) error {
	b := new(shale.Batch)
	if err := b.Delete(key); err != nil {
		return err
	}
	return n.Write(ctx, b)
}

// DeleteRange removes the keys from lower to upper, which is exclusive, as Write does; nil: there is no bound. Keys that belong to
// the group stay. If no key can lie between the bounds, it does nothing.
func (n *Node) DeleteRange(ctx context.Context, lower, upper []byte) error {
	b := new(shale.Batch)
	if err := b.DeleteRange(lower, upper); err != nil || b.Len() == 0 {
		return err
	}
	return n.Write(ctx, b)
}

// PutIfAbsent sets the value of key if the key is not there, and reports whether it did. All members
// decide that alike, when they apply the write. Its errors are those of Write: after one
// that wraps [ErrUnknown] the key may have been set.
func (n *Node) PutIfAbsent(ctx context.Context, key, value []byte) (inserted bool, err error) {
	return n.putIfAbsent(ctx, key, value, time.Time{})
}

// PutIfAbsentTTL is PutIfAbsent with a value that is gone once ttl has passed. A key whose value is over is absent. With a
// ttl of 0 or less, what was inserted is gone at once.
func (n *Node) PutIfAbsentTTL(ctx context.Context, key, value []byte, ttl time.Duration) (inserted bool, err error) {
	return n.putIfAbsent(ctx, key, value, time.Now().Add(max(ttl, 0)))
}

func (n *Node) putIfAbsent(ctx context.Context, key, value []byte, until time.Time) (inserted bool, err error) {
	cmd, err := encodePutIfAbsent(key, value, until)
	if err != nil {
		return false, err
	}
	res, err := n.submit(ctx, cmd)
	return res.Done, err
}

// DeletePresent removes keys, all of them or none, and reports for each whether it was there before.
// A key that is named twice was not there any more the second time. All members decide that alike,
// when they apply the write. Its errors are those of Write.
func (n *Node) DeletePresent(ctx context.Context, keys ...[]byte) (present []bool, err error) {
	cmd, err := encodeDelete(keys)
	if err != nil {
		return nil, err
	}
	res, err := n.submit(ctx, cmd)
	return res.Present, err
}

// submit proposes a command here, or at the leader if Options.Forward says so.
//
// The member tries itself first, which costs nothing if it does not lead. An answer of the leader
// is final. If there is none, the write may have happened, unless the call was certainly not sent:
// only then may the caller write again without asking.
func (n *Node) submit(ctx context.Context, cmd []byte) (result, error) {
	res, err := n.propose(ctx, cmd)
	l := (*NotLeaderError)(nil)
	if !n.opts.Forward || !errors.As(err, &l) || l.ID == "" || l.ID == n.opts.ID {
		return res, err
	}
	done, err := n.begin()
	if err != nil {
		return result{}, err
	}
	defer done()
	address, server := n.leader()
	if address == "" {
		return res, l
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	term := n.raft().CurrentTerm()
	defer time.AfterFunc(termLook, func() { n.endWithTerm(ctx, term, cancel) }).Stop()
	err = n.caller.call(ctx, string(address), server, opWrite, cmd, &res)
	switch {
	case err == nil:
		return res, nil
	case errors.Is(err, errNotSent):
		return result{}, fmt.Errorf("%w: %w", l, err)
	case !errors.As(err, new(*remoteError)), errors.Is(err, ErrUnknown):
		return result{}, unknown(fmt.Errorf("the leader: %v", err)) // its ErrClosed is not this member's
	case errors.Is(err, ErrClosed), errors.Is(err, ErrFailed):
		return result{}, &NotLeaderError{} // it was so before it took the write
	}
	return result{}, err
}

// termLook is how often a member looks whether a leader that has not answered has been replaced.
const termLook = 100 * time.Millisecond

// termGrace is how long a leader that was replaced still has for its answer. If it lives, it answers soon, and often that the write
// has not happened, so that it can be sent to the next one: after a transfer, or when the write came too late on a busy machine.
const termGrace = time.Second

// endWithTerm cancels a call of the leader a while after there is a later term: a leader that hangs may never answer.
func (n *Node) endWithTerm(ctx context.Context, term uint64, cancel func()) {
	for n.raft().CurrentTerm() == term {
		select {
		case <-ctx.Done():
			return
		case <-time.After(termLook):
		}
	}
	select {
	case <-ctx.Done():
	case <-time.After(termGrace):
		cancel()
	}
}

// propose hands a command to raft and waits until it is applied here.
//
// A command that raft refuses because of a transfer was certainly not taken. So waiting and asking
// again does no harm, and callers of Write do not see the transfer but as a pause.
func (n *Node) propose(ctx context.Context, cmd []byte) (result, error) {
	if err := ctx.Err(); err != nil {
		return result{}, err
	}
	done, err := n.begin()
	if err != nil {
		return result{}, err
	}
	defer done()
	for {
		res, err := n.proposeOnce(ctx, cmd)
		if !errors.Is(err, raft.ErrLeadershipTransferInProgress) {
			return res, err
		}
		// Raft has refused the command before it took it. The transfer ends within an election timeout.
		select {
		case <-time.After(transferPoll):
		case <-ctx.Done():
			return result{}, ctx.Err()
		case <-n.stopping:
			return result{}, n.usable()
		}
	}
}

// proposeOnce is propose, but for leadership transfers.
func (n *Node) proposeOnce(ctx context.Context, cmd []byte) (result, error) {
	if n.raft().State() != raft.Leader {
		return result{}, n.notLeader()
	}
	var timeout time.Duration // to hand the command over; 0: as long as it takes
	if d, ok := ctx.Deadline(); ok {
		if timeout = time.Until(d); timeout <= 0 {
			return result{}, context.DeadlineExceeded
		}
	}
	// The goroutine of await also lets raft batch: of those that stand at its door, it takes all that there are.
	var f raft.ApplyFuture
	err := n.await(ctx, func() error {
		f = n.raft().ApplyLog(raft.Log{Data: n.state.stamp(cmd)}, timeout)
		return f.Error()
	})
	if err != nil {
		return result{}, n.writeError(err)
	}
	return f.Response().(result), nil
}

// writeError turns raft's error, or that of await, into one that says whether the write may have happened.
//
// Callers repeat a write only if it has certainly not happened. So an error of raft that is not
// known here counts as unknown.
func (n *Node) writeError(err error) error {
	switch {
	case errors.Is(err, raft.ErrNotLeader):
		return n.notLeader() // refused before it was taken
	case errors.Is(err, raft.ErrLeadershipTransferInProgress):
		return err // likewise
	case errors.Is(err, raft.ErrEnqueueTimeout):
		return fmt.Errorf("cluster: write: raft did not take it in time: %w", context.DeadlineExceeded)
	case errors.Is(err, raft.ErrRaftShutdown) && n.usable() != nil:
		return unknown(n.usable())
	}
	return unknown(err) // such as ErrLeadershipLost
}

// notLeader says who leads instead.
func (n *Node) notLeader() error {
	address, id := n.raft().LeaderWithID()
	if id == n.server {
		return &NotLeaderError{} // it has just stopped leading
	}
	return &NotLeaderError{ID: memberID(id), Address: string(address)}
}
