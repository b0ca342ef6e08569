package cluster

import (
	"context"
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hashicorp/raft"

	"github.com/shaledb/shale"
	"github.com/shaledb/shale/internal/testenv"
	"github.com/shaledb/shale/vfs"
)

// A testMember is a member of a testGroup: its options, its disk, and the running node.
type testMember struct {
	*Node
	opts Options
	dir  string
}

// A testGroup is a group of members in this process, over loopback and file systems in memory.
type testGroup struct {
	t       testing.TB
	mu      sync.Mutex
	members []*testMember
	setup   func(*Options)
	disk    string // a directory for members on the system's disk
}

// fastRaft has timeouts that let tests elect leaders quickly, and that a busy machine still meets.
func fastRaft(c *raft.Config) {
	timeouts(c, 500*time.Millisecond)
	c.CommitTimeout = 5 * time.Millisecond
}

// lonelyRaft is for a member that is alone in its group: it leads at once, and can't lose that for want of an answer.
func lonelyRaft(c *raft.Config) {
	fastRaft(c)
	timeouts(c, 20*time.Millisecond)
}

// steadyRaft is for tests whose leader shall stay: they do nothing that needs another one soon.
func steadyRaft(c *raft.Config) { timeouts(c, time.Second) }

// timeouts sets those of raft to d: a leader that is held up for less than that stays.
func timeouts(c *raft.Config, d time.Duration) {
	c.HeartbeatTimeout, c.ElectionTimeout, c.LeaderLeaseTimeout = d, d, d
}

// connections has a member wrap the connections that it opens.
func connections(o *Options, wrap func(c net.Conn, address string) net.Conn) {
	o.Dial = func(ctx context.Context, network, address string) (net.Conn, error) {
		c, err := new(net.Dialer).DialContext(ctx, network, address)
		if err != nil {
			return nil, err
		}
		return wrap(c, address), nil
	}
}

// A writeConn is a connection whose Write is a test's.
type writeConn struct {
	net.Conn
	write func(p []byte) (int, error)
}

func (c writeConn) Write(p []byte) (int, error) { return c.write(p) }

// broken returns a connection that ends with the first write after is returns true.
func broken(c net.Conn, is func() bool) net.Conn {
	return writeConn{c, func(p []byte) (int, error) {
		if is() {
			return 0, errors.Join(net.ErrClosed, c.Close())
		}
		return c.Write(p)
	}}
}

// mustNil ends the test with an error.
func mustNil(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func TestMain(m *testing.M) { testenv.Main(m) }

// newGroup starts a group of n members with a vote. Tests mostly wait for elections, so they do that at the same time.
func newGroup(t testing.TB, n int, setup func(*Options)) *testGroup {
	t.Helper()
	g := &testGroup{t: t, setup: setup, disk: t.TempDir()}
	t.Cleanup(g.close)
	for range n {
		g.add()
	}
	g.waitVoters(n)
	return g
}

// add opens a new member that joins the group, or founds it.
func (g *testGroup) add() *testMember {
	g.t.Helper()
	m := &testMember{dir: "member", opts: Options{ID: fmt.Sprintf("m%d", len(g.members)), FS: vfs.NewMem(), Raft: fastRaft}}
	if len(g.members) == 0 {
		m.opts.Bootstrap, m.opts.foundAfter = true, time.Millisecond
	} else {
		m.opts.Join = []string{g.members[0].opts.Listen}
	}
	if g.setup != nil {
		g.setup(&m.opts)
	}
	if m.opts.FS == vfs.Default {
		m.dir = filepath.Join(g.disk, m.opts.ID)
	}
	g.open(m)
	m.opts.Bootstrap = false
	m.opts.Listen = m.Address() // where others find it when it is opened again
	g.mu.Lock()
	g.members = append(g.members, m)
	g.mu.Unlock()
	return m
}

// open opens a member. Another listener of the machine may have taken its port for a moment.
func (g *testGroup) open(m *testMember) {
	g.t.Helper()
	var err error
	for range 100 {
		m.Node, err = Open(m.dir, &m.opts)
		if err == nil || !isAddressInUse(err) {
			break
		}
		time.Sleep(20 * time.Millisecond)
	}
	mustNil(g.t, err)
}

func isAddressInUse(err error) bool {
	var op *net.OpError
	return errors.As(err, &op) && op.Op == "listen"
}

func (g *testGroup) close() {
	for _, m := range g.members {
		if m.Node != nil {
			if err := m.Close(); err != nil && m.Err() == nil {
				g.t.Errorf("Close of %s: %v", m.opts.ID, err)
			}
		}
	}
}

// waitVoters waits until all members know n voters and a leader.
func (g *testGroup) waitVoters(n int) {
	g.t.Helper()
	g.eventually("all members have votes", func() error {
		for _, m := range g.members {
			if s := m.Stats(); s.Voters != n || s.Leader == "" {
				return fmt.Errorf("%s knows %d voters and leader %q", m.opts.ID, s.Voters, s.Leader)
			}
		}
		return nil
	})
}

// leader waits for a leader and returns it.
func (g *testGroup) leader() *testMember {
	g.t.Helper()
	var leader *testMember
	g.eventually("a leader", func() error {
		for _, m := range g.members {
			if m.Node != nil && m.IsLeader() && m.usable() == nil {
				leader = m
				return nil
			}
		}
		return errors.New("none")
	})
	return leader
}

// follower returns a member that does not lead.
func (g *testGroup) follower() *testMember {
	g.t.Helper()
	l := g.leader()
	for _, m := range g.members {
		if m != l {
			return m
		}
	}
	g.t.Fatal("no follower")
	return nil
}

// refuses waits until a follower refuses what only the leader does, and returns it. It may lead by now.
func (g *testGroup) refuses(what string, do func(f *testMember) error) (f *testMember) {
	g.t.Helper()
	g.eventually(what, func() error {
		f = g.follower()
		if err := do(f); !errors.Is(err, ErrNotLeader) {
			return fmt.Errorf("it is not refused: %v", err)
		}
		return nil
	})
	return f
}

// eventually waits until check returns nil, for half a minute as testenv.WaitFor counts it.
func (g *testGroup) eventually(what string, check func() error) {
	g.t.Helper()
	eventually(g.t, what, check)
}

func eventually(t testing.TB, what string, check func() error) {
	t.Helper()
	within(t, 30*time.Second, what, check)
}

func within(t testing.TB, left time.Duration, what string, check func() error) {
	t.Helper()
	const pause = 2 * time.Millisecond
	for ; ; time.Sleep(pause) {
		begin := time.Now()
		err := check()
		if err == nil {
			return
		}
		if left -= time.Since(begin) + pause; left < 0 {
			t.Fatalf("%s: %v", what, err)
		}
	}
}

// write puts a key through whoever leads, until it certainly has.
func (g *testGroup) write(key, value string) {
	g.t.Helper()
	g.eventually("a write", func() error {
		return g.leader().Put(short(g.t), []byte(key), []byte(value))
	})
}

// led calls fn again as long as it finds no leader, or one that falls meanwhile: on a busy machine members may elect
// another at any time. What fn does may have been done before. led returns how often that is so. It has a minute: a call
// may take short's time.
func (g *testGroup) led(what string, fn func() error) (unknown int) {
	g.t.Helper()
	var last error
	within(g.t, time.Minute, what, func() error {
		switch last = fn(); {
		case errors.Is(last, ErrUnknown):
			unknown++
			return last
		case errors.Is(last, ErrNotLeader), errors.Is(last, context.DeadlineExceeded):
			return last
		}
		return nil
	})
	if last != nil {
		g.t.Errorf("%s: %v", what, last)
	}
	return unknown
}

// remove removes a member.
func (g *testGroup) remove(id string) {
	g.t.Helper()
	tries := 0
	g.led("it is removed", func() error {
		err := g.leader().Remove(short(g.t), id)
		if tries++; tries > 1 && err != nil && strings.Contains(err.Error(), "no member") {
			return nil // by the try before
		}
		return err
	})
}

// short returns a context that ends soon.
func short(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), 15*time.Second)
	t.Cleanup(cancel)
	return ctx
}

// get reads a key by a linearizable read; "" stands for an absent one.
func (m *testMember) get(ctx context.Context, key string) (value string, err error) {
	err = m.Read(ctx, func(r shale.Reader) error {
		v, err := r.Get([]byte(key))
		if errors.Is(err, shale.ErrNotFound) {
			return nil
		}
		value = string(v)
		return err
	})
	return value, err
}

// entriesOf returns all entries of a reader in one string each.
func entriesOf(t testing.TB, r shale.Reader) (entries []string) {
	t.Helper()
	for e, err := range r.Scan(shale.Range{}) {
		mustNil(t, err)
		entries = append(entries, fmt.Sprintf("%q=%q", e.Key, e.Value))
	}
	return entries
}

// agree waits until all members have the same state, and returns it.
func (g *testGroup) agree() []string {
	g.t.Helper()
	g.write("agree", time.Now().String()) // so that every member has a command of the present term
	index := g.leader().Stats().Applied
	var first []string
	for i, m := range g.members {
		g.eventually("member "+m.opts.ID+" catches up", func() error {
			if a := m.Stats().Applied; a < index {
				return fmt.Errorf("at %d of %d", a, index)
			}
			return nil
		})
		c := entriesOf(g.t, m.Local())
		if i == 0 {
			first = c
		} else if fmt.Sprint(c) != fmt.Sprint(first) {
			g.t.Fatalf("%s and %s differ:\n%v\n%v", g.members[0].opts.ID, m.opts.ID, first, c)
		}
	}
	return first
}
