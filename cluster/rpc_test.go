package cluster

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/shaledb/shale"
)

// A leader that gets a write which is no command, such as one of a newer program, refuses it. In the log it would
// end every member, for good.
func TestForward_NoCommand(t *testing.T) {
	t.Parallel()
	g := newGroup(t, 2, nil)
	l, f := g.leader(), g.follower()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute) // the race detector makes large messages slow
	defer cancel()
	for name, payload := range map[string][]byte{
		"nothing": {}, "a newer kind": {kindUpdate + 1, 1, 1, 1, 1, 'k', 1, 'v'}, "half a batch": {kindWrite, 1, 1, 1, 9, 'k'},
		"half a transaction": {kindUpdate, 1, 1, 'k'},
		"too much":           make([]byte, maxCommandSize+2),
	} {
		err := f.caller.call(ctx, l.Address(), l.server, opWrite, payload, new(result))
		if err == nil || !strings.Contains(err.Error(), "forwarded") || errors.Is(err, ErrUnknown) {
			t.Errorf("%s: %v", name, err)
		}
	}
	g.write("k", "v")
	g.agree()
}

// The largest write that a member takes is one that it can forward.
func TestForward_Largest(t *testing.T) {
	t.Parallel()
	b := new(shale.Batch)
	mustNil(t, b.Put([]byte("k"), make([]byte, maxCommandSize-32)))
	for i := 0; b.Size() < maxCommandSize; i++ {
		mustNil(t, b.Put([]byte("k"), make([]byte, max(0, maxCommandSize-b.Size()-4))))
	}
	if b.Size() > maxCommandSize {
		t.Skipf("no batch of exactly %d bytes", maxCommandSize)
	}
	if cmd, err := encodeWrite(b); err != nil || len(cmd) > maxForwarded {
		t.Errorf("a command of %d bytes, %v", len(cmd), err)
	}
}

// A member that was started again gets the writes of others, although their connections to it have
// ended: a write that was certainly not sent must not be reported as unknown. The ended ones are closed.
func TestForward_LeaderCameBack(t *testing.T) {
	t.Parallel()
	var open atomic.Int64
	g := newGroup(t, 3, func(o *Options) {
		o.Forward = true
		connections(o, func(c net.Conn, _ string) net.Conn {
			open.Add(1)
			return &countedConn{Conn: c, open: &open}
		})
	})
	l, f := g.leader(), g.follower()
	var wg sync.WaitGroup
	for i := range maxIdle {
		wg.Go(func() {
			g.led("a write", func() error { return f.Put(short(t), fmt.Append(nil, i), nil) })
		})
	}
	wg.Wait()
	f.caller.mu.Lock()
	kept := len(f.caller.idle[callee{l.Address(), l.server, l.group()}])
	f.caller.mu.Unlock()
	if kept < 2 {
		t.Skipf("%d connections were used at the same time", kept)
	}
	mustNil(t, l.Close())
	g.eventually("the ended connections are closed", func() error {
		f.caller.mu.Lock()
		defer f.caller.mu.Unlock()
		if n := len(f.caller.idle[callee{l.Address(), l.server, l.group()}]); n > 0 {
			return fmt.Errorf("%d are kept", n)
		}
		return nil
	})
	g.open(l)
	g.eventually("the old leader leads again", func() error {
		if now := g.leader(); now != l {
			_ = now.TransferLeadership(short(t), l.opts.ID)
			return errors.New("not yet")
		}
		if m, ok := f.Leader(); !ok || m.ID != l.opts.ID {
			return errors.New("the other does not know yet")
		}
		return nil
	})
	for i := range maxIdle {
		g.led("a write", func() error {
			before := l.Stats()
			err := f.Put(short(t), fmt.Append(nil, i), nil)
			if now := l.Stats(); errors.Is(err, ErrUnknown) && before.Leader == l.opts.ID && now.Leader == l.opts.ID && now.Term == before.Term {
				return fmt.Errorf("write %d, and the leader has stayed: %v", i, err)
			}
			return err
		})
	}
	g.close()
	for _, m := range g.members {
		m.Node = nil
	}
	g.eventually("no connection is open", func() error {
		if n := open.Load(); n != 0 {
			return fmt.Errorf("%d are", n)
		}
		return nil
	})
}

// A countedConn counts the connections that are open.
type countedConn struct {
	net.Conn
	open *atomic.Int64
	once sync.Once
}

func (c *countedConn) Close() error {
	c.once.Do(func() { c.open.Add(-1) })
	return c.Conn.Close()
}

// A caller that belongs to no group may ask who a member is, and to be let in. Everything else is refused.
func TestCalls_Stranger(t *testing.T) {
	t.Parallel()
	g := newGroup(t, 2, nil)
	l := g.leader()
	g.write("k", "v")
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	for _, group := range []string{"", "another"} {
		for op, refused := range map[byte]bool{opWho: group != "", opTerm: true, opIndex: true, opVote: true, opWrite: true} {
			stranger := &caller{idle: map[callee][]*callConn{}, network: &network{
				opts: l.Node.opts, ctx: ctx, node: &Node{server: "nobody/0", id: identity{Group: group}},
			}}
			b := new(shale.Batch)
			mustNil(t, b.Put([]byte("stranger"), nil))
			cmd, err := encodeWrite(b)
			mustNil(t, err)
			var req any = cmd
			if op == opWho {
				req = ""
			}
			err = stranger.call(short(t), l.Address(), "", op, req, new(any))
			if (err != nil) != refused || refused && !errors.Is(err, ErrOtherGroup) {
				t.Errorf("group %q, call %q: %v", group, op, err)
			}
		}
	}
	large := &caller{idle: map[callee][]*callConn{}, network: &network{
		opts: l.Node.opts, ctx: ctx, node: &Node{server: "nobody/0"},
	}}
	if err := large.call(short(t), l.Address(), "", opWho, strings.Repeat("x", maxStranger), new(struct{})); err == nil {
		t.Error("a call of many bytes is taken from a stranger")
	}
	if has, err := l.Local().Has([]byte("stranger")); has || err != nil {
		t.Errorf("what the stranger wrote is there: %v, %v", has, err)
	}
	g.agree()
}

// Survey shows how all members are, on each of them, and which can't be reached.
func TestSurvey(t *testing.T) {
	t.Parallel()
	g := newGroup(t, 3, func(o *Options) {
		id := o.ID
		o.About = func() map[string]string { return map[string]string{"name": id} }
	})
	g.write("k", "v")
	g.agree()
	for round, up := range []int{3, 2} {
		f := g.leader()
		list, err := f.Survey(short(t), 0)
		if err != nil || len(list) != 3 {
			t.Fatalf("Survey = %+v, %v", list, err)
		}
		n := 0
		for _, s := range list {
			if s.Err == nil {
				n++
				if s.About["name"] != s.ID || s.Applied == 0 || s.Last < s.Applied {
					t.Errorf("round %d: %+v", round, s)
				}
			}
		}
		if n != up {
			t.Errorf("%d members have answered, want %d", n, up)
		}
		if round == 0 {
			mustNil(t, g.follower().Close())
		}
	}
}

// A write that was forwarded to a leader that hangs is answered as soon as another leads, with ErrUnknown, and not only
// when its time is over.
func TestForward_LeaderHangs(t *testing.T) {
	t.Parallel()
	leaderHangs(t, func(ctx context.Context, f *testMember) error { return f.Put(ctx, []byte("k"), []byte("2")) })
}

// A transaction that may have happened does not run again.
func TestUpdate_LeaderHangs(t *testing.T) {
	t.Parallel()
	runs := 0
	leaderHangs(t, func(ctx context.Context, f *testMember) error {
		return f.Update(ctx, func(tx *Txn) error { runs++; return increment(tx) })
	})
	if runs != 1 {
		t.Errorf("its function has run %d times", runs)
	}
}

// leaderHangs does a write of a member that does not lead while the leader applies nothing, and lets another one lead.
func leaderHangs(t *testing.T, write func(ctx context.Context, f *testMember) error) {
	t.Helper()
	gates := map[string]*sync.RWMutex{}
	g := newGroup(t, 3, func(o *Options) {
		gated(gates)(o)
		o.Forward = true
	})
	g.write("k", "1")
	l, f := g.leader(), g.follower()
	gate := gates[l.opts.ID]
	gate.Lock()
	defer gate.Unlock()
	written := make(chan error, 1)
	go func() {
		ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
		defer cancel()
		written <- write(ctx, f)
	}()
	g.eventually("the leader has the write", func() error {
		if s := l.Stats(); s.Last == s.Applied {
			return errors.New("it has not")
		}
		return nil
	})
	select {
	case err := <-written:
		t.Fatalf("before another leads: %v", err)
	case <-time.After(3 * termLook):
	}
	g.eventually("another leads", func() error {
		if !l.IsLeader() {
			return nil
		}
		return l.TransferLeadership(short(t), "")
	})
	select {
	case err := <-written:
		if !errors.Is(err, ErrUnknown) {
			t.Errorf("after another leads: %v", err)
		}
	case <-time.After(5 * time.Second):
		t.Error("it is not answered although another leads")
	}
}

// A write that was forwarded to a leader that is replaced, but lives, is answered by that one if it answers within termGrace. A
// busy machine may take longer for all this, so the test has three tries.
func TestForward_LeaderIsReplaced(t *testing.T) {
	t.Parallel()
	for range 3 {
		took, err := forwardToReplaced(t)
		if err == nil {
			return
		}
		if took < termGrace {
			t.Fatalf("the leader has applied it, but: %v", err)
		}
		t.Logf("the machine took %v: %v", took, err)
	}
	t.Error("the machine is too slow")
}

// forwardToReplaced returns how long after the leader was told to go such a write could be applied, and the answer to it.
func forwardToReplaced(t *testing.T) (took time.Duration, err error) {
	gates := map[string]*sync.RWMutex{}
	g := newGroup(t, 3, func(o *Options) {
		gated(gates)(o)
		o.Forward = true
	})
	g.write("k", "1")
	l, f := g.leader(), g.follower()
	gate := gates[l.opts.ID]
	gate.Lock()
	open := sync.OnceFunc(gate.Unlock)
	defer open()
	written := make(chan error, 1)
	go func() { written <- f.Put(short(t), []byte("k"), []byte("2")) }()
	g.eventually("the write is committed", func() error {
		if s := f.Stats(); s.Applied < l.Stats().Last || l.Stats().Applied == s.Applied {
			return errors.New("it is not")
		}
		return nil
	})
	began := time.Now()
	g.eventually("another leads", func() error {
		if !l.IsLeader() {
			return nil
		}
		return l.TransferLeadership(short(t), "")
	})
	time.Sleep(4 * termLook) // the member has seen the later term
	open()
	took = time.Since(began)
	return took, <-written
}
