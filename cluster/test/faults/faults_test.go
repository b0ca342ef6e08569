//go:build unix

package faults

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/shaledb/shale/internal/testenv"
)

// A plan is what a group goes through.
type plan struct {
	members    int
	lanes      func(*nemesis) [][]deed // what happens at the same time
	pause      time.Duration           // between two deeds of a lane
	epoch      time.Duration           // between two comparisons
	epochs     int
	thresholds []uint64      // of snapshots, drawn for each start of a member
	interval   time.Duration // of snapshots
	trailing   int           // entries that stay in the log behind a snapshot, at most
	fill       int           // large values to begin with, so that there are tables
	fault      DiskFault     // of all disks, from the start of each process
	alarms     []string      // what members may not say either
	txns       bool          // clients do transactions only
	memtables  int           // sizes of memtables are 64 KiB, doubled less often than this
}

// everything is all lanes.
func everything(n *nemesis) [][]deed {
	return [][]deed{n.processes(), n.network(), n.disks(), n.leadership(), n.membership()}
}

// run has a group go through the plan.
func (p plan) run(t *testing.T, seed uint64, f *figures) {
	t.Helper()
	r := rand.New(rand.NewPCG(seed, 3))
	net, err := newProxyNet(seed)
	if err != nil {
		t.Fatal(err)
	}
	var g *group
	prefix := ""
	encrypted := r.IntN(2) == 0
	timeout := time.Duration(250+r.IntN(250)) * time.Millisecond
	g = newGroup(t, seed, net, f, func(c *memberConfig) {
		c.Timeout = timeout
		c.Forward = g.intN(2) == 0
		c.SnapshotThreshold = p.thresholds[g.intN(len(p.thresholds))]
		c.SnapshotInterval = p.interval/2 + time.Duration(g.intN(int(p.interval)))
		c.TrailingLogs = uint64(g.intN(p.trailing))
		if c.Fault == (DiskFault{}) {
			c.Fault = p.fault
		}
		c.Encrypted = encrypted
		c.SmallDisk = g.intN(2) == 0
		c.MemtableSize = int64(64 << 10 << g.intN(p.memtables))
		c.Clock = time.Duration(g.intN(7200)-3600) * time.Second
		c.Watch = prefix
	})
	defer g.close()
	g.alarms = append(g.alarms, p.alarms...)
	f.groups.Add(1)
	for i := range p.members {
		m := g.add(string(rune('a'+i)), false)
		if i == 0 {
			testenv.WaitFor(t, "the first member", m.running)
		}
	}
	n := &nemesis{g: g, f: f}
	if !n.awaitAll(p.members) || !n.askLeader("Fill", Fill{0, p.fill, 4 << 10, byte(seed)}, "fill") {
		return
	}
	once := &ledger{acked: map[string]string{}, refused: map[string]bool{}}
	for epoch := range p.epochs {
		g.mu.Lock()
		prefix = countPrefix(formatEpoch(epoch))
		for _, m := range g.members {
			_ = m.call("Watch", prefix, new(struct{}), time.Second) // one that does not run learns it when it starts
		}
		g.mu.Unlock()
		c := startClients(g, seed, epoch, once, p.txns)
		n.stop = make(chan struct{})
		for _, deeds := range p.lanes(n) {
			n.start(r.Uint64(), p.pause, deeds...)
		}
		for deadline := time.Now().Add(p.epoch); time.Now().Before(deadline) && !g.failed.Load(); {
			time.Sleep(50 * time.Millisecond)
		}
		n.end()
		before := f.writes.Load()
		for deadline := time.Now().Add(comeBack); f.writes.Load() < before+10 && !g.failed.Load(); time.Sleep(10 * time.Millisecond) {
			if time.Now().After(deadline) {
				g.fail("no writes in %v although nothing is in their way", comeBack)
				break
			}
		}
		if c.end(); g.failed.Load() {
			return // whether the members agree then says nothing new
		}
		state, err := g.converge(2 * comeBack)
		if err != nil {
			g.fail("%v", err)
			return
		}
		f.comparedStates.Add(int64(len(g.all())))
		f.comparedKeys.Add(int64(len(g.all()) * len(state)))
		for _, m := range g.all() {
			m.checkSnapshots()
		}
		c.finish(state)
		f.epochs.Add(1)
		if g.failed.Load() {
			return
		}
	}
}

// awaitAll waits until the group has all its first members.
func (n *nemesis) awaitAll(members int) bool {
	for _, p := range n.g.all() {
		if !n.awaitMember(p, true) {
			return false
		}
	}
	return len(n.g.all()) == members
}

// rounds runs plans until the time of SHALE_LONG is over, or one.
func rounds(t *testing.T, draw func(r *rand.Rand, long bool) plan) {
	t.Helper()
	seed := testenv.Seed(t)
	f := new(figures)
	defer func() { t.Log(f) }()
	begin, long := time.Now(), testenv.Long(t)
	for i := uint64(0); i == 0 || time.Since(begin) < long; i++ {
		p := draw(rand.New(rand.NewPCG(seed, i)), long > 0)
		if p.run(t, seed+i, f); t.Failed() {
			t.Logf("group %d has failed after %v", i, time.Since(begin).Round(100*time.Millisecond))
			return
		}
	}
}

// Groups of three and five processes lose nothing, whatever fails.
func TestFaults(t *testing.T) {
	rounds(t, func(r *rand.Rand, long bool) plan {
		p := plan{
			members: 3 + 2*r.IntN(2), lanes: everything, trailing: 200, interval: 600 * time.Millisecond, memtables: 8,
			pause: 600 * time.Millisecond, epoch: 15 * time.Second, epochs: 4, thresholds: []uint64{50, 300, 2000, 1 << 30},
		}
		if r.IntN(2) == 0 {
			p.fill = 100
		}
		if !long {
			p.epochs, p.epoch, p.pause = 1, 7*time.Second, 300*time.Millisecond
		}
		return p
	})
}

// Leaders die one after the other under clients that wait for the next one: what it says first must be what
// the last one acknowledged.
func TestFaults_Leaders(t *testing.T) {
	brief(t)
	rounds(t, func(*rand.Rand, bool) plan {
		return plan{
			members: 3, lanes: func(n *nemesis) [][]deed { return [][]deed{{{1, func(*rand.Rand) { n.killLeader() }}}} },
			pause: 300 * time.Millisecond, epoch: 8 * time.Second, epochs: 1, thresholds: []uint64{1 << 30}, trailing: 1, interval: time.Second,
			fault: DiskFault{Ops: "sync", Files: "log", Slow: 10 * time.Millisecond}, memtables: 8,
		}
	})
}

// Members that are killed and opened again never show an older state than before.
func TestFaults_Restarts(t *testing.T) {
	brief(t)
	rounds(t, func(*rand.Rand, bool) plan {
		return plan{
			members: 3, pause: 500 * time.Millisecond, epoch: 8 * time.Second, epochs: 1, thresholds: []uint64{1000, 1 << 30}, trailing: 100,
			interval: 300 * time.Millisecond, memtables: 8,
			lanes: func(n *nemesis) [][]deed {
				return [][]deed{{{1, func(*rand.Rand) { n.f.kills.Add(1); n.g.any().kill() }}}}
			},
		}
	})
}

// Members get snapshots all the time, from others and their own, and the files of a snapshot never change.
func TestFaults_Snapshots(t *testing.T) {
	brief(t)
	rounds(t, func(*rand.Rand, bool) plan {
		return plan{
			members: 3, pause: 250 * time.Millisecond, epoch: 8 * time.Second, epochs: 1, thresholds: []uint64{20, 100}, trailing: 10,
			interval: 1500 * time.Millisecond, memtables: 1, fill: 200,
			fault: DiskFault{Ops: "link", Files: "state", After: true}, // each link is made and reported as failed
			lanes: func(n *nemesis) [][]deed {
				return [][]deed{n.processes(), n.network(), {{1, n.joinAndLeave}, {1, n.empty}}}
			},
			alarms: []string{"corrupt"},
		}
	})
}

// Transactions stay serializable while members are killed, get snapshots and are parted.
func TestFaults_Transactions(t *testing.T) {
	brief(t)
	rounds(t, func(*rand.Rand, bool) plan {
		return plan{
			members: 3, pause: 400 * time.Millisecond, epoch: 8 * time.Second, epochs: 1, thresholds: []uint64{20, 100}, trailing: 10,
			interval: 500 * time.Millisecond, memtables: 1, txns: true,
			lanes: func(n *nemesis) [][]deed { return [][]deed{n.processes(), n.network(), n.leadership()} },
		}
	})
}

// brief skips a part of what TestFaults does, if there is little time.
func brief(t *testing.T) {
	t.Helper()
	if testing.Short() && testenv.Long(t) == 0 {
		t.Skip("TestFaults has all of it")
	}
}
