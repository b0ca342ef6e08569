package cluster

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hashicorp/raft"

	"github.com/shaledb/shale"
)

// A valve holds what comes in on connections while it is shut, as the sockets of a stopped process do.
type valve struct {
	mu   sync.Mutex
	shut chan struct{} // not nil: closed when the valve opens
	held atomic.Int64  // how often something came that had to wait
}

func (v *valve) close() {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.shut = make(chan struct{})
}

func (v *valve) open() {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.shut != nil {
		close(v.shut)
		v.shut = nil
	}
}

func (v *valve) wait() {
	v.mu.Lock()
	c := v.shut
	v.mu.Unlock()
	if c != nil {
		v.held.Add(1)
		<-c
	}
}

// awaitHeld waits until something has come since held was before.
func (v *valve) awaitHeld(t *testing.T, before int64) {
	t.Helper()
	eventually(t, "the valve holds something", func() error {
		if v.held.Load() == before {
			return errors.New("nothing has come")
		}
		return nil
	})
}

type valveConn struct {
	net.Conn
	in, out *valve
}

func (c valveConn) Write(p []byte) (int, error) {
	c.out.wait()
	return c.Conn.Write(p)
}

// Read gives out what has come, if the valve is open by then.
func (c valveConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if n > 0 { // the end of a deadline is this side's own
		c.in.wait()
	}
	return n, err
}

// A leader stops, another is elected and acknowledges a write, and the old leader goes on. In its
// sockets are answers of the others from before, which say that it leads. A read that begins then
// must see the write.
func TestRead_OldAnswers(t *testing.T) {
	t.Parallel()
	var questions, answers valve // what the first member sends, and what comes back
	var cut sync.Map             // addresses that the others can't reach
	g := newGroup(t, 3, func(o *Options) {
		first := o.ID == "m0"
		connections(o, func(c net.Conn, address string) net.Conn {
			if first {
				return valveConn{c, &answers, &questions}
			}
			return writeConn{c, func(p []byte) (int, error) {
				if _, ok := cut.Load(address); ok {
					return len(p), nil // it is lost
				}
				return c.Write(p)
			}}
		})
	})
	old := g.members[0]
	mustNil(t, old.Close())
	old.opts.Raft = func(c *raft.Config) { // it does not notice by itself that it is alone: its clock stands still
		fastRaft(c)
		c.HeartbeatTimeout, c.ElectionTimeout, c.LeaderLeaseTimeout = time.Hour, time.Hour, time.Hour
	}
	g.open(old)
	g.eventually("m0 leads", func() error {
		if !old.IsLeader() {
			l := g.leader()
			_ = l.TransferLeadership(short(t), "m0")
			return context.DeadlineExceeded
		}
		return nil
	})
	g.write("k", "1")
	g.eventually("the others know it", func() error {
		for _, m := range g.members {
			if v, err := m.Local().Get([]byte("k")); string(v) != "1" || err != nil {
				return context.DeadlineExceeded
			}
		}
		return nil
	})
	held := answers.held.Load()
	answers.close()
	answers.awaitHeld(t, held) // answers have come and are not read
	questions.close()
	t.Cleanup(questions.open)
	t.Cleanup(answers.open)
	cut.Store(old.Address(), true)
	g.eventually("another leader has a write", func() error {
		for _, m := range g.members[1:] {
			if m.IsLeader() {
				return m.Put(short(t), []byte("k"), []byte("2"))
			}
		}
		return context.DeadlineExceeded
	})
	if !old.IsLeader() {
		t.Fatal("the old leader has noticed")
	}
	verified := make(chan error, 1)
	go func() { verified <- old.raft().VerifyLeader().Error() }()
	type answer struct {
		value string
		err   error
	}
	read := make(chan answer, 1)
	go func() {
		var a answer
		a.err = old.Read(short(t), func(r shale.Reader) error {
			v, err := r.Get([]byte("k"))
			a.value = string(v)
			return err
		})
		read <- a
	}()
	g.eventually("the read asks for an index", func() error {
		old.indexes.mu.Lock()
		defer old.indexes.mu.Unlock()
		if !old.indexes.running {
			return errors.New("not yet")
		}
		return nil
	})
	time.Sleep(20 * time.Millisecond) // both questions stand
	answers.open()
	early := false
	var a answer
	select {
	case a = <-read:
		t.Errorf("a read was made by old answers: %q, %v", a.value, a.err)
		early = true
	case <-time.After(50 * time.Millisecond): // the new questions take longer
	}
	questions.open()
	select {
	case err := <-verified:
		t.Logf("raft.VerifyLeader says %v", err)
	case <-time.After(time.Second): // raft has forgotten it
	}
	cut.Clear()
	if early {
		return // there is no other answer
	}
	if a = <-read; a.value != "2" || a.err != nil {
		t.Errorf("a read after the write = %q, %v, want 2", a.value, a.err)
	}
}

// A probe that comes while a call is under way needs a call of its own: the answer on its way may be
// from before the probe.
func TestRead_CallUnderWay(t *testing.T) {
	t.Parallel()
	var questions, answers valve // what the first member sends, and what comes back
	g := newGroup(t, 3, func(o *Options) {
		if o.ID == "m0" {
			connections(o, func(c net.Conn, _ string) net.Conn { return valveConn{c, &answers, &questions} })
		}
		o.Raft = steadyRaft // no election while the valves are shut
	})
	asker, other := g.members[0], g.members[1]
	p := &rounds{node: asker.Node, fn: func(context.Context) (uint64, error) { return asker.askTerm(other.server) }}
	ask := func() chan error {
		answer, r := make(chan error, 1), p.join()
		go func() {
			_, err := p.await(t.Context(), r)
			answer <- err
		}()
		return answer
	}
	t.Cleanup(questions.open)
	t.Cleanup(answers.open)
	g.eventually("a call is answered while a probe waits", func() error {
		if err := <-ask(); err != nil { // now there is a connection
			return err
		}
		answers.close()
		first := ask()
		g.eventually("the call begins", func() error {
			p.mu.Lock()
			defer p.mu.Unlock()
			if p.next != nil {
				return errors.New("not yet")
			}
			return nil
		})
		time.Sleep(20 * time.Millisecond) // its answer has come
		second := ask()
		questions.close()
		answers.open()
		defer questions.open()
		var err error
		select {
		case err = <-first:
		case <-time.After(time.Second):
			err = errors.New("the question had not gone out")
		}
		select {
		case err := <-second:
			t.Errorf("a probe is answered by the call before it: %v", err)
		case <-time.After(50 * time.Millisecond): // its own question waits
		}
		return err
	})
}

// gatedFSM applies nothing while its gate is locked.
type gatedFSM struct {
	raft.BatchingFSM
	gate *sync.RWMutex
}

func (f gatedFSM) Apply(l *raft.Log) any {
	f.gate.RLock()
	defer f.gate.RUnlock()
	return f.BatchingFSM.Apply(l)
}

func (f gatedFSM) ApplyBatch(logs []*raft.Log) []any {
	f.gate.RLock()
	defer f.gate.RUnlock()
	return f.BatchingFSM.ApplyBatch(logs)
}

// gated makes members with a gate each.
func gated(gates map[string]*sync.RWMutex) func(*Options) {
	return func(o *Options) {
		gate := new(sync.RWMutex)
		gates[o.ID] = gate
		o.Raft = steadyRaft
		o.wrapFSM = func(f raft.BatchingFSM) raft.BatchingFSM { return gatedFSM{f, gate} }
	}
}

// A member whose log has a write but whose state does not answers a read when its state has it too.
func TestRead_WaitsForTheState(t *testing.T) {
	t.Parallel()
	gates := map[string]*sync.RWMutex{}
	g := newGroup(t, 3, gated(gates))
	g.write("k", "1")
	f := g.follower()
	if _, err := f.get(short(t), "k"); err != nil {
		t.Fatal(err)
	}
	gates[f.opts.ID].Lock()
	unlock := sync.OnceFunc(gates[f.opts.ID].Unlock)
	t.Cleanup(unlock)
	g.write("k", "2")
	g.eventually("raft has sent it to the state machine", func() error {
		if s := f.Stats(); f.raft().AppliedIndex() < s.Last || s.Last < g.leader().Stats().Last {
			return context.DeadlineExceeded
		}
		return nil
	})
	type answer struct {
		value string
		err   error
	}
	read := make(chan answer, 1)
	go func() {
		v, err := f.get(short(t), "k")
		read <- answer{v, err}
	}()
	select {
	case a := <-read:
		t.Errorf("a read before its write was applied = %q, %v", a.value, a.err)
		unlock()
	case <-time.After(100 * time.Millisecond):
		unlock()
		if a := <-read; a.value != "2" || a.err != nil {
			t.Errorf("a read after it = %q, %v, want 2", a.value, a.err)
		}
	}
}

// An idle member that has everything says so: its log ends with entries that are no commands, as after an election.
func TestStats_AppliedReachesCommit(t *testing.T) {
	t.Parallel()
	g := newGroup(t, 3, nil)
	reached := func() {
		t.Helper()
		g.eventually("all have all", func() error {
			commit := g.leader().Stats().Commit
			for _, m := range g.members {
				if s := m.Stats(); s.Commit != commit || s.Applied != commit || commit < s.Term {
					return fmt.Errorf("%s is at %d of %d, the leader at %d", m.opts.ID, s.Applied, s.Commit, commit)
				}
			}
			return nil
		})
	}
	reached()
	g.write("k", "v")
	reached()
	g.eventually("another leads", func() error { return g.leader().TransferLeadership(short(t), "") })
	reached()
	m := g.members[0]
	mustNil(t, m.Close())
	if s := m.Stats(); m.Err() != nil {
		t.Errorf("Stats after Close: %+v, %v", s, m.Err())
	}
	g.open(m)
	reached()
}

// What Write returned for can be read from the leader's own state.
func TestWrite_AppliedOnTheLeader(t *testing.T) {
	t.Parallel()
	gates := map[string]*sync.RWMutex{}
	g := newGroup(t, 3, gated(gates))
	g.write("k", "1")
	l := g.leader()
	gates[l.opts.ID].Lock()
	unlock := sync.OnceFunc(gates[l.opts.ID].Unlock)
	t.Cleanup(unlock)
	written := make(chan error, 1)
	go func() { written <- l.Put(short(t), []byte("k"), []byte("2")) }()
	select {
	case err := <-written:
		t.Errorf("a write returned before it was applied: %v", err)
		unlock()
	case <-time.After(100 * time.Millisecond):
		unlock()
		mustNil(t, <-written)
	}
	if v, err := l.Local().Get([]byte("k")); string(v) != "2" || err != nil {
		t.Errorf("the leader's state = %q, %v, want 2", v, err)
	}
}

// A new leader does not know yet how far the old one has committed. A read on it waits until it does.
func TestRead_NewLeader(t *testing.T) {
	t.Parallel()
	var entries sync.RWMutex // locked: no entries and no heartbeats come through
	g := newGroup(t, 3, func(o *Options) {
		connections(o, func(c net.Conn, _ string) net.Conn {
			return writeConn{c, func(p []byte) (int, error) {
				if len(p) > 0 && p[0] == 0 { // so begins raft's AppendEntries
					entries.RLock()
					defer entries.RUnlock()
				}
				return c.Write(p)
			}}
		})
		o.Raft = func(c *raft.Config) {
			steadyRaft(c)
			c.CommitTimeout = time.Hour // followers learn with the next write what is committed
		}
	})
	g.write("k", "1")
	g.write("other", "1") // so that all know of the first
	old := g.leader()
	var rest []*testMember
	for _, m := range g.members {
		if m != old {
			rest = append(rest, m)
			g.eventually("the first write", func() error { _, err := m.Local().Get([]byte("k")); return err })
		}
	}
	mustNil(t, old.Put(short(t), []byte("k"), []byte("2")))
	entries.Lock()
	unlock := sync.OnceFunc(entries.Unlock)
	t.Cleanup(unlock)
	old.kill()
	var leader *testMember
	g.eventually("another leader", func() error {
		for _, m := range rest {
			if m.IsLeader() {
				leader = m
				return nil
			}
		}
		return context.DeadlineExceeded
	})
	type answer struct {
		value string
		err   error
	}
	read := make(chan answer, 1)
	go func() {
		v, err := leader.get(short(t), "k")
		read <- answer{v, err}
	}()
	select {
	case a := <-read:
		t.Errorf("a read on a leader that knows nothing = %q, %v", a.value, a.err)
	case <-time.After(150 * time.Millisecond):
		unlock()
		if a := <-read; a.value != "2" || a.err != nil {
			t.Errorf("a read on the new leader = %q, %v, want 2", a.value, a.err)
		}
	}
}
