package cluster

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hashicorp/raft"

	"github.com/shaledb/shale"
	"github.com/shaledb/shale/vfs"
)

// A large is a group with one leader and much to send to a second member. The defaults run in seconds. For the real figures set
// the environment:
//
//	SHALE_LARGE_STATE=20000000000 SHALE_LARGE_LINK=50000000 SHALE_LARGE_WRITES=5000 go test -v -timeout 2h -run TestLarge_TakesIn .
type large struct {
	state  int64 // bytes of values
	link   int64 // bytes a second to the second member
	writes int   // a second, of 200 bytes each
}

// fromEnv returns a number from the environment, or a default, and whether it was set.
func fromEnv(t testing.TB, name string, otherwise int64) int64 {
	text := os.Getenv("SHALE_LARGE_" + name)
	if text == "" {
		return otherwise
	}
	n, err := strconv.ParseInt(text, 10, 64)
	mustNil(t, err)
	return n
}

// A slowLink is what all connections to a member share.
type slowLink struct {
	rate int64
	sent atomic.Int64
	mu   sync.Mutex
	next time.Time
	stop atomic.Bool // connections break
}

type slowConn struct {
	net.Conn
	link *slowLink
}

func (c slowConn) Write(p []byte) (total int, err error) {
	for len(p) > 0 {
		piece := p[:min(len(p), 16<<10)]
		c.link.mu.Lock()
		// A sleep takes longer than it should, which the next pieces make up for.
		if least := time.Now().Add(-20 * time.Millisecond); c.link.next.Before(least) {
			c.link.next = least
		}
		c.link.next = c.link.next.Add(time.Duration(float64(len(piece)) / float64(c.link.rate) * float64(time.Second)))
		until := c.link.next
		c.link.mu.Unlock()
		time.Sleep(time.Until(until))
		if c.link.stop.Load() {
			return total, errors.Join(net.ErrClosed, c.Close())
		}
		n, err := c.Conn.Write(piece)
		total += n
		c.link.sent.Add(int64(n))
		if err != nil {
			return total, err
		}
		p = p[n:]
	}
	return total, nil
}

// newLarge returns a group of a leader that has the state, and its link to all others.
func newLarge(t *testing.T, l large) (*testGroup, *slowLink) {
	link := &slowLink{rate: l.link}
	g := newGroup(t, 1, func(o *Options) {
		o.Raft = func(c *raft.Config) {
			fastRaft(c)
			// Snapshots come faster than one is sent, and the log is cut closely.
			c.TrailingLogs, c.SnapshotThreshold, c.SnapshotInterval = 50, 50, 100*time.Millisecond
		}
		if l.state > 1<<27 {
			o.Raft, o.FS = nil, vfs.Default
		} else {
			o.Store = &shale.Options{MemtableSize: 256 << 10, TableSize: 64 << 10}
		}
		connections(o, func(c net.Conn, _ string) net.Conn { return slowConn{c, link} })
	})
	value := make([]byte, 1000)
	r := rand.NewChaCha8([32]byte{3})
	for n := int64(0); n < l.state; {
		var b shale.Batch
		for b.Size() < 1<<20 && n < l.state {
			_, _ = r.Read(value)
			mustNil(t, b.Put(fmt.Appendf(nil, "key %012d", n/1000), value))
			n += 1000
		}
		mustNil(t, g.members[0].Write(context.Background(), &b))
	}
	return g, link
}

// write writes l.writes entries a second until stop is called. stop returns how many were written.
func (l large) write(t *testing.T, m *testMember) (stop func() int64) {
	var n atomic.Int64
	var wg sync.WaitGroup
	ctx, cancel := context.WithCancel(context.Background())
	const writers = 16
	for w := range min(writers, l.writes) {
		wg.Go(func() {
			value := make([]byte, 200)
			tick := time.NewTicker(time.Second * time.Duration(min(writers, l.writes)) / time.Duration(l.writes))
			defer tick.Stop()
			for i := 0; ctx.Err() == nil; i++ {
				<-tick.C
				if err := m.Put(ctx, fmt.Appendf(nil, "written %d %d", w, i%10000), value); err == nil {
					n.Add(1)
				} else if ctx.Err() == nil {
					t.Error(err)
					return
				}
			}
		})
	}
	return func() int64 { cancel(); wg.Wait(); return n.Load() }
}

// TestLarge_TakesIn takes a member into a group that writes all the time, over a link that needs several times as long
// for the state as the leader takes to make a snapshot and to cut its log. Half way the link breaks, and the member is restarted.
func TestLarge_TakesIn(t *testing.T) {
	t.Parallel()
	l := large{fromEnv(t, "STATE", 1500_000), fromEnv(t, "LINK", 500_000), int(fromEnv(t, "WRITES", 200))}
	g, link := newLarge(t, l)
	leader := g.members[0]
	stop := l.write(t, leader)
	g.setup = func(setup func(*Options)) func(*Options) {
		return func(o *Options) { setup(o); o.Learner, o.Dial = true, nil }
	}(g.setup)
	begin := time.Now()
	m := g.add()
	wait := func(what string, done func() bool) {
		t.Helper()
		for end := begin.Add(30*time.Second + 10*time.Duration(l.state/l.link)*time.Second); !done(); time.Sleep(10 * time.Millisecond) {
			if time.Now().After(end) {
				t.Fatalf("%s: %d bytes were sent, the member is at %d of %d", what, link.sent.Load(), m.Stats().Applied, leader.Stats().Applied)
			}
		}
	}
	wait("half of the state", func() bool { return link.sent.Load() > l.state/2 })
	link.stop.Store(true)
	mustNil(t, m.Close())
	half := link.sent.Load()
	link.stop.Store(false)
	g.open(m)
	peak := uint64(0)
	disk := int64(0)
	wait("the member catches up", func() bool {
		var s runtime.MemStats
		if l.state > 1<<27 {
			runtime.ReadMemStats(&s)
		}
		bytes, _ := leader.log.stored()
		peak, disk = max(peak, s.HeapInuse), max(disk, bytes)
		a, b := m.Stats().Applied, leader.Stats().Applied
		return a > 0 && b-min(a, b) < 100
	})
	took, sent := time.Since(begin), link.sent.Load()
	written := stop()
	t.Logf("state of %d MB, link of %d KB/s, %d writes/s: taken in after %v (the link alone takes %v), %.1f MB sent (%.2f times the state), %.1f MB of it before the cut; log of %d MB at most, heap of %d MB",
		l.state/1e6, l.link/1e3, written*int64(time.Second)/int64(took), took.Round(time.Second/10), time.Duration(float64(l.state)/float64(l.link)*float64(time.Second)).Round(time.Second), float64(sent)/1e6, float64(sent)/float64(l.state), float64(half)/1e6, disk/1e6, peak/1e6)
	if sent > 2*l.state+1000*written {
		t.Errorf("%d bytes were sent for a state of %d", sent, l.state)
	}
	if m.opts.FS == vfs.Default {
		return // the leader compares the members' digests; both states together do not fit into memory
	}
	g.agree()
	if _, err := m.opts.FS.Stat(filepath.Join(m.dir, snapshotsDir, incomingName)); err == nil {
		t.Error("files of a snapshot are left")
	}
}

// TestLarge_Rate takes a member in over a fast link, with a limit of the rate.
func TestLarge_Rate(t *testing.T) {
	t.Parallel()
	l := large{state: 500_000, link: 1 << 30}
	g, _ := newLarge(t, l)
	leader := g.members[0]
	for i := range 120 { // more than stay in the log
		g.write("k", fmt.Sprint(i))
	}
	mustNil(t, leader.raft().Snapshot().Error())
	leader.Node.opts.SnapshotRate = 250_000 // read when a snapshot is sent
	g.setup = func(setup func(*Options)) func(*Options) {
		return func(o *Options) { setup(o); o.Learner = true }
	}(g.setup)
	begin := time.Now()
	m := g.add()
	g.eventually("the member has the state", func() error {
		if a, b := m.Stats().Applied, leader.Stats().Applied; a < b {
			return fmt.Errorf("at %d of %d", a, b)
		}
		return nil
	})
	if took := time.Since(begin); took < 1800*time.Millisecond {
		t.Errorf("500 KB at 250 KB/s took %v", took)
	}
}
