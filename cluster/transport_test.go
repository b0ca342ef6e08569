package cluster

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hashicorp/raft"

	"github.com/shaledb/shale/vfs"
)

// A member that has missed large writes gets them in messages of bounded size. All in one would not
// arrive within the time that raft gives a message, and the member would never catch up.
func TestTransport_MessagesAreBounded(t *testing.T) {
	t.Parallel()
	var largest atomic.Int64
	g := newGroup(t, 3, func(o *Options) {
		o.Raft = steadyRaft // sending megabytes takes a busy machine longer than the lease of fastRaft
		connections(o, func(c net.Conn, _ string) net.Conn { return &questionConn{Conn: c, largest: &largest} })
	})
	behind := g.follower()
	mustNil(t, behind.Close())
	const size = maxMessage / 4
	for i := range 24 {
		g.write(fmt.Sprint(i), string(make([]byte, size)))
	}
	largest.Store(0)
	g.open(behind)
	g.eventually("it catches up", func() error {
		if s, l := behind.Stats(), g.leader().Stats(); s.Applied < l.Commit {
			return fmt.Errorf("at %d of %d", s.Applied, l.Commit)
		}
		return nil
	})
	if n := largest.Load(); n < size || n > maxMessage+1<<20 {
		t.Errorf("up to %d bytes were sent before an answer was read, and the limit of a message is %d", n, maxMessage)
	}
}

// A candidate has the vote of a member that has restarted since they talked.
func TestTransport_VoteOfARestarted(t *testing.T) {
	t.Parallel()
	g := newGroup(t, 3, func(o *Options) { o.Raft = steadyRaft })
	m, peer := g.members[1], g.members[2]
	trans := newTransport(m.Node)
	ask := func() error {
		req := &raft.RequestPreVoteRequest{RPCHeader: raft.RPCHeader{ProtocolVersion: raft.ProtocolVersionMax, ID: []byte(m.server)}}
		return trans.RequestPreVote(peer.server, raft.ServerAddress(peer.Address()), req, new(raft.RequestPreVoteResponse))
	}
	mustNil(t, ask())
	mustNil(t, peer.Close())
	g.open(peer)
	g.agree()
	mustNil(t, ask())
	mustNil(t, trans.Close())
}

// A question to a member that hangs, and so does not even greet, ends with its context.
func TestTransport_GreetingEndsWithItsContext(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0") // the system takes connections, and nobody reads them
	mustNil(t, err)
	defer l.Close() // nobody uses it then
	m := newGroup(t, 1, nil).members[0]
	const tries = 3 // on a busy machine the one or other may take long, but a greeting that goes on takes dialTimeout each time
	var took time.Duration
	for range tries {
		ctx, cancel := context.WithCancel(t.Context())
		stop := time.AfterFunc(20*time.Millisecond, cancel)
		begin := time.Now()
		_, err := m.askWho(ctx, l.Addr().String(), "")
		took = time.Since(begin)
		stop.Stop()
		cancel()
		if !errors.Is(err, context.Canceled) {
			t.Fatalf("%v, want the error of the context", err)
		}
		if took < dialTimeout/2 {
			return
		}
	}
	t.Errorf("the last of %d greetings took %v", tries, took)
}

// A questionConn notes the most bytes that were sent before an answer came.
type questionConn struct {
	net.Conn
	largest *atomic.Int64
	sent    atomic.Int64
}

func (c *questionConn) Write(p []byte) (int, error) {
	n := c.sent.Add(int64(len(p)))
	for l := c.largest.Load(); n > l && !c.largest.CompareAndSwap(l, n); l = c.largest.Load() {
	}
	return c.Conn.Write(p)
}

func (c *questionConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	c.sent.Store(0)
	return n, err
}

// A member without a leader judges a candidate by its log. One that it does not know may have come in while it was away.
func TestTransport_PreVoteOfAStranger(t *testing.T) {
	t.Parallel()
	g := newGroup(t, 2, nil)
	x := &testMember{dir: "d", opts: Options{ID: "x", FS: vfs.NewMem(), Raft: fastRaft, Learner: true}}
	g.open(x)
	g.led("it is a learner", func() error { return g.leader().AddLearner(short(t), "x", x.Address()) })
	g.members = append(g.members, x)
	g.agree()
	l, f := g.leader(), g.members[0]
	if f == l {
		f = g.members[1]
	}
	mustNil(t, l.Close())
	trans := newTransport(x.Node)
	defer func() { mustNil(t, trans.Close()) }()
	ask := func(index, term uint64) bool {
		req := &raft.RequestPreVoteRequest{
			RPCHeader: raft.RPCHeader{ProtocolVersion: raft.ProtocolVersionMax, ID: []byte("stranger/1"), Addr: []byte("127.0.0.1:1")},
			Term:      1 << 20, LastLogIndex: index, LastLogTerm: term,
		}
		var resp raft.RequestPreVoteResponse
		mustNil(t, trans.RequestPreVote(f.server, raft.ServerAddress(f.Address()), req, &resp))
		return resp.Granted
	}
	g.eventually("one with the same log gets a vote", func() error {
		index, term := endOfLog(t, f)
		switch {
		case ask(index-1, term) || ask(index, term-1):
			if i, _ := endOfLog(t, f); i == index {
				t.Fatal("one with less in its log gets a vote")
			}
		case ask(index, term):
			return nil
		}
		return errors.New("it does not")
	})
}

// endOfLog returns the index and the term of the last entry in a member's log.
func endOfLog(t *testing.T, m *testMember) (index, term uint64) {
	t.Helper()
	stats := m.raft().Stats()
	for key, to := range map[string]*uint64{"last_log_index": &index, "last_log_term": &term} {
		n, err := strconv.ParseUint(stats[key], 10, 64)
		mustNil(t, err)
		*to = n
	}
	return index, term
}
