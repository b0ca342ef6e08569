package cluster

import (
	"errors"
	"fmt"
	"time"
)

// How a member ends: by an error of its disk or a fault of raft, or by Close, which waits for calls that are under way.

// closeGrace is how long Close waits for writes that are under way.
const closeGrace = 5 * time.Second

// fail marks the member as failed and begins to stop it. The others elect another leader. It is
// called on goroutines of raft, and must not wait for raft.
//
// The member must not go on with a disk that has failed: raft could acknowledge what is not there.
// It does not close its stores either, since other goroutines still read from them. Close does
// that.
func (n *Node) fail(err error) {
	n.failedOnce.Do(func() {
		n.failure = fmt.Errorf("%w: %w", ErrFailed, err)
		close(n.failed)
		n.stopOnce.Do(func() { close(n.stopping) })
		go n.stopRaft()
	})
}

// Failed is closed when an error has stopped the member. Err has the error. The member
// takes part no more, and all calls but those of Local's reader fail.
func (n *Node) Failed() <-chan struct{} { return n.failed }

// Err returns the error that has stopped the member, or nil. It wraps [ErrFailed] and the cause.
func (n *Node) Err() error {
	select {
	case <-n.failed:
		return n.failure
	default:
		return nil
	}
}

// usable returns why the member takes no calls any more, or nil.
func (n *Node) usable() error {
	if err := n.Err(); err != nil {
		return err
	}
	select {
	case <-n.stopping:
		return ErrClosed
	default:
		return nil
	}
}

// begin notes a call, which Close waits for until done is called.
//
// The check and the count are one step under mu. So a call either is counted before Close begins to
// wait, or finds that the member is closing.
func (n *Node) begin() (done func(), err error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if err := n.usable(); err != nil {
		return nil, err
	}
	n.calls.Add(1)
	return n.calls.Done, nil
}

// stopRaft stops raft and all connections.
func (n *Node) stopRaft() {
	n.raftOnce.Do(func() {
		if r := n.raft(); r != nil {
			stopped := r.Shutdown()
			n.network.close() // so that raft waits for no answer
			_ = stopped.Error()
		}
		close(n.stopped)
	})
}

// Close stops the member and closes its stores. Writes that are under way get a few seconds to end,
// reads as long as they take; new calls get [ErrClosed]. A leader that closes leaves the
// group without one for an election: call TransferLeadership before to avoid that. Close returns the
// errors of closing the stores, and not that of a member that had failed before.
func (n *Node) Close() error { return n.closing() }

// close is Close, without the once. The order matters: calls end or are refused, then raft stops,
// then MEMBER is brought up to date, which needs the log, and then the stores are closed.
func (n *Node) close() error {
	n.mu.Lock()
	n.stopOnce.Do(func() { close(n.stopping) })
	n.mu.Unlock() // no call begins any more
	done := make(chan struct{})
	go func() {
		n.calls.Wait()
		close(done)
	}()
	select {
	case <-done:
	case <-n.failed:
	case <-time.After(closeGrace):
	}
	n.stopRaft()
	if last, err := n.logEnd(); err == nil && n.Err() == nil {
		n.notePromise(last)
	}
	n.cancel()
	<-done
	return n.release()
}

// release closes what Open has opened.
//
// It is also how Open undoes what it has done when a later step fails, so all fields may be nil.
// The lock of the directory is given up last. From then on another process may open it.
func (n *Node) release() error {
	n.cancel()
	if n.network != nil {
		n.network.close()
		n.network.wg.Wait()
	}
	n.wg.Wait()
	var errs []error
	if n.state != nil {
		errs = append(errs, n.state.Close())
	}
	if n.logDB != nil {
		errs = append(errs, n.logDB.Close())
	}
	if n.lock != nil {
		errs = append(errs, n.lock.Close())
	}
	return errors.Join(errs...)
}
