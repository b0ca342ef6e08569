//go:build unix

package faults

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// Figures are what a run has done.
type figures struct {
	writes, gets, transactions, refused, unknown                                atomic.Int64 // operations by outcome
	checkedKeys, checkedSlots, undecided                                        atomic.Int64
	illegal, lost, panics                                                       atomic.Int64
	starts, kills, leaderKills, stops                                           atomic.Int64
	partitions, oneWay, diskFaults, fullDisks                                   atomic.Int64
	slowDisks, nodesFailed, reopened, transfers                                 atomic.Int64
	joins, joinsLost, leaves, emptied, damaged, damagedLogs, hashed, recoveries atomic.Int64
	groups, epochs, comparedKeys, comparedStates                                atomic.Int64
}

func (f *figures) String() string {
	n := func(v *atomic.Int64) int64 { return v.Load() }
	return fmt.Sprintf("operations %d (writes %d, gets %d, transactions %d), unknown %d, refused %d; illegal %d of %d keys and %d slots, undecided %d, lost %d, panics %d; "+
		"leader kills %d, other kills %d, stops %d, partitions %d (one-way %d), disk faults %d (full %d), slow disks %d, "+
		"failed nodes %d (opened again in the process %d), transfers %d, joins %d (lost %d), leaves %d, emptied directories %d, damaged states %d, damaged logs %d, recoveries %d; "+
		"groups %d, epochs %d, processes %d, %d states compared with %d keys in all, %d files of snapshots unchanged",
		n(&f.writes)+n(&f.gets)+n(&f.transactions), n(&f.writes), n(&f.gets), n(&f.transactions), n(&f.unknown), n(&f.refused),
		n(&f.illegal), n(&f.checkedKeys), n(&f.checkedSlots), n(&f.undecided),
		n(&f.lost), n(&f.panics), n(&f.leaderKills), n(&f.kills)-n(&f.leaderKills), n(&f.stops), n(&f.partitions), n(&f.oneWay),
		n(&f.diskFaults), n(&f.fullDisks), n(&f.slowDisks), n(&f.nodesFailed), n(&f.reopened), n(&f.transfers), n(&f.joins), n(&f.joinsLost), n(&f.leaves),
		n(&f.emptied), n(&f.damaged), n(&f.damagedLogs), n(&f.recoveries), n(&f.groups), n(&f.epochs), n(&f.starts), n(&f.comparedStates), n(&f.comparedKeys), n(&f.hashed))
}

// A nemesis chooses what fails. Each of its lanes does one thing after the other, all lanes at the same time.
type nemesis struct {
	g     *group
	f     *figures
	stop  chan struct{}
	lanes sync.WaitGroup
	names atomic.Int64 // of members that have joined
}

// A deed is something that a lane does, with a weight.
type deed struct {
	weight int
	do     func(*rand.Rand)
}

// start begins a lane, with pauses of so much on average.
func (n *nemesis) start(seed uint64, pause time.Duration, deeds ...deed) {
	r := rand.New(rand.NewPCG(seed, uint64(len(deeds))))
	sum := 0
	for _, d := range deeds {
		sum += d.weight
	}
	n.lanes.Go(func() {
		for n.sleep(time.Duration(r.Int64N(int64(2 * pause)))) {
			k := r.IntN(sum)
			i := slices.IndexFunc(deeds, func(d deed) bool { k -= d.weight; return k < 0 })
			deeds[i].do(r)
		}
	})
}

// sleep waits, and reports false when the lanes are to end.
func (n *nemesis) sleep(d time.Duration) bool {
	select {
	case <-n.stop:
		return false
	case <-time.After(d):
		return true
	}
}

// end stops the lanes. What they have broken they repair.
func (n *nemesis) end() {
	close(n.stop)
	n.lanes.Wait()
}

// processes is the lane of kills and stops.
func (n *nemesis) processes() []deed {
	return []deed{
		{50, func(*rand.Rand) { n.killLeader() }},
		{10, func(*rand.Rand) { n.f.kills.Add(1); n.g.any().kill() }},
		{6, func(*rand.Rand) { // all at the same time, or nearly
			var wg sync.WaitGroup
			for _, p := range n.g.all() {
				n.f.kills.Add(1)
				wg.Go(p.kill)
			}
			wg.Wait()
		}},
		{25, func(r *rand.Rand) {
			p := n.g.any()
			if l := n.g.leader(); l != nil && r.IntN(3) > 0 {
				p = l
			}
			n.f.stops.Add(1)
			p.signal(syscall.SIGSTOP)
			n.sleep(time.Duration(50+r.IntN(2000)) * time.Millisecond)
			p.signal(syscall.SIGCONT)
		}},
	}
}

func (n *nemesis) killLeader() {
	if l := n.g.leader(); l != nil {
		l.kill()
		n.f.kills.Add(1)
		n.f.leaderKills.Add(1)
	}
}

// network is the lane of partitions.
func (n *nemesis) network() []deed { return []deed{{1, n.partition}} }

// partition blocks links, and opens them again.
func (n *nemesis) partition(r *rand.Rand) {
	all := n.g.all()
	r.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	if l := n.g.leader(); l != nil && r.IntN(3) > 0 { // it is in the first part then
		i := slices.Index(all, l)
		all[0], all[max(i, 0)] = all[max(i, 0)], all[0]
	}
	var links []link
	size, oneWay := 1+r.IntN(max(1, len(all)/2)), false
	part, rest := all[:size], all[size:]
	kind := r.IntN(4)
	for _, a := range part {
		for _, b := range rest {
			if kind != 1 { // from the part to the others
				links = append(links, link{a.id, b.id})
			}
			if kind != 2 { // and back
				links = append(links, link{b.id, a.id})
			}
		}
	}
	switch oneWay = kind == 1 || kind == 2; {
	case kind == 3 && len(all) > 2 && r.IntN(2) == 0: // two members that don't hear each other, or one that doesn't
		links = []link{{all[0].id, all[1].id}, {all[1].id, all[0].id}}[:1+r.IntN(2)]
		oneWay = len(links) == 1
	case r.IntN(5) == 0: // any links
		r.Shuffle(len(links), func(i, j int) { links[i], links[j] = links[j], links[i] })
		links, oneWay = links[:1+r.IntN(len(links))], true
	}
	for _, l := range links {
		n.g.net.block(l, true)
	}
	n.f.partitions.Add(1)
	if oneWay {
		n.f.oneWay.Add(1)
	}
	n.sleep(time.Duration(100+r.IntN(1800)) * time.Millisecond)
	for _, l := range links {
		n.g.net.block(l, false)
	}
}

// disks is the lane of faults of disks.
func (n *nemesis) disks() []deed {
	return []deed{
		{50, func(r *rand.Rand) { n.disk(r, DiskFault{}) }},
		{20, func(r *rand.Rand) { n.disk(r, DiskFault{Ops: "room", Files: "any", Full: true}) }},
		{10, func(r *rand.Rand) {
			n.disk(r, DiskFault{Ops: "sync", Files: "any", Slow: time.Duration(1+r.IntN(60)) * time.Millisecond})
		}},
		{15, func(r *rand.Rand) { n.disk(r, DiskFault{Small: true}) }},
	}
}

// target chooses whose disk fails.
func (n *nemesis) target(r *rand.Rand) *process {
	if l := n.g.leader(); l != nil && r.IntN(2) == 0 {
		return l
	}
	return n.g.any()
}

// disk makes a member's disk fail for a while.
func (n *nemesis) disk(r *rand.Rand, f DiskFault) {
	p := n.target(r)
	if f == (DiskFault{}) {
		f.Ops = []string{"read", "write", "sync", "any"}[r.IntN(4)]
		f.Files = []string{"log", "log", "state", "snapshots", "any", "any"}[r.IntN(6)]
		f.Full, f.After = r.IntN(8) == 0, r.IntN(4) == 0
		if f.Count = int64(1 + r.IntN(3)); r.IntN(2) == 0 {
			f.Count = 0
		}
		f.Skip = int64(r.IntN(20))
	}
	before := n.hits(p)
	deaths := p.deathsByNow()
	p.setFault(f)
	if r.IntN(3) == 0 {
		p.kill() // Open meets the fault
		n.f.kills.Add(1)
		before = 0
	}
	hit := int64(0)
	for i, ticks := 0, 4+r.IntN(20); i < ticks; i++ {
		if !n.sleep(50 * time.Millisecond) {
			break
		}
		hit = max(hit, n.hits(p)-before)
	}
	p.setFault(DiskFault{})
	n.settle(p)
	switch {
	case hit <= 0 && p.deathsByNow() == deaths:
	case f.Slow > 0:
		n.f.slowDisks.Add(1)
	default:
		n.f.diskFaults.Add(1)
		if f.Full || f.Small {
			n.f.fullDisks.Add(1)
		}
	}
}

func (n *nemesis) hits(p *process) int64 {
	s, err := p.status()
	if err != nil {
		return 0
	}
	return s.Hits
}

func (p *process) deathsByNow() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.deaths
}

// settle waits until a member whose disk works again works again too: then nothing excuses it any more.
func (n *nemesis) settle(p *process) {
	for deadline := time.Now().Add(comeBack); ; time.Sleep(20 * time.Millisecond) {
		// A failure may be noticed a little later than the disk's: the member is asked twice.
		if s, err := p.status(); err == nil && s.Failed == "" {
			time.Sleep(100 * time.Millisecond)
			if s, err := p.status(); err == nil && s.Failed == "" {
				p.healed()
				return
			}
		}
		if n.g.failed.Load() || n.g.left(p) {
			return
		}
		if time.Now().After(deadline) {
			n.g.fail("%s does not come back although its disk works again:\n%s", p.id, p.tail(20))
			return
		}
	}
}

// comeBack is how long a member may take to work again once nothing is in its way. The machine
// may be busy.
const comeBack = time.Minute

// leadership is the lane of transfers, and of snapshots at any time.
func (n *nemesis) leadership() []deed {
	return []deed{
		{3, func(r *rand.Rand) {
			if l := n.g.leader(); l != nil && l.call("Transfer", "", new(struct{}), 4*time.Second) == nil {
				n.f.transfers.Add(1)
			}
		}},
		{1, func(*rand.Rand) { _ = n.g.any().call("Snapshot", struct{}{}, new(struct{}), 5*time.Second) }}, // it may be down
	}
}

// membership is the lane of those that come and go. One member at a time has lost what it had.
func (n *nemesis) membership() []deed {
	return []deed{
		{3, n.joinAndLeave},
		{3, n.empty},
		{3, n.damage},
		{2, n.damageLog},
		{2, n.recover},
	}
}

// askLeader calls a method of whoever leads until it works.
func (n *nemesis) askLeader(method string, args any, what string) bool {
	begin, last := time.Now(), errors.New("nobody leads")
	for ; time.Since(begin) < comeBack && !n.g.failed.Load(); time.Sleep(50 * time.Millisecond) {
		l := n.g.leader()
		if l == nil {
			continue
		}
		err := l.call(method, args, new(struct{}), 4*time.Second)
		if err == nil || strings.Contains(err.Error(), "no member") {
			return true
		}
		last = fmt.Errorf("%s led once, and said: %w", l.id, err)
	}
	n.g.fail("%s: no leader has done it in %v: %v", what, time.Since(begin).Round(time.Millisecond), last)
	return false
}

// awaitMember waits until the leader has the member with or without a vote.
func (n *nemesis) awaitMember(p *process, voter bool) bool {
	if n.isMember(p, voter, comeBack) {
		return true
	}
	n.g.fail("%s has not got into the group in %v:\n%s", p.id, comeBack, p.tail(20))
	return false
}

// isMember is awaitMember for so long, without a complaint. The member itself has to know of its vote: what only the leader
// knows is not committed, and of two members with a vote, before that, none may be lost.
func (n *nemesis) isMember(p *process, voter bool, within time.Duration) bool {
	for deadline := time.Now().Add(within); time.Now().Before(deadline) && !n.g.failed.Load(); time.Sleep(50 * time.Millisecond) {
		l := n.g.leader()
		if l == nil {
			continue
		}
		s, err := l.status()
		if err != nil {
			continue
		}
		for _, m := range s.Members {
			if m.ID == p.id && m.Voter == voter && m.Address == p.config.Listen {
				own, err := p.status()
				if err == nil && own.Applied+1000 >= s.Applied && own.Stats.Members == s.Stats.Members && own.Stats.Voters == s.Stats.Voters {
					return true
				}
			}
		}
	}
	return false
}

// joinAndLeave has a member come, stay for a while, and go.
func (n *nemesis) joinAndLeave(r *rand.Rand) {
	learner := r.IntN(3) == 0
	p := n.g.add(fmt.Sprintf("x%d", n.names.Add(1)), learner)
	if !n.isMember(p, !learner, comeBack/2) {
		n.f.joinsLost.Add(1)
	} else {
		n.f.joins.Add(1)
		n.sleep(time.Duration(r.IntN(2000)) * time.Millisecond)
	}
	if n.askLeader("Remove", p.id, "remove "+p.id) {
		n.f.leaves.Add(1)
	}
	p.setWanted(false)
	p.kill()
	n.g.forget(p)
	if err := os.RemoveAll(p.config.Dir); err != nil {
		n.g.fail("%v", err)
	}
}

// empty takes away a member's directory. It does not come back under its old name before the group has
// removed it, and then it joins.
func (n *nemesis) empty(r *rand.Rand) {
	p := n.g.any()
	n.takeAway(p)
	if r.IntN(2) == 0 { // it asks too early, in vain
		p.setWanted(true)
		n.sleep(time.Duration(r.IntN(1500)) * time.Millisecond)
		n.takeAway(p)
	}
	if n.rejoin(p) {
		n.f.emptied.Add(1)
	}
}

// rejoin removes a member whose directory is empty, and lets it join again.
func (n *nemesis) rejoin(p *process) bool {
	// A request to remove it whose answer was lost is made again, and may then meet the new member.
	for range 3 {
		if !n.askLeader("Remove", p.id, "remove "+p.id) {
			p.setWanted(true)
			return false // that has been told
		}
		p.setWanted(true)
		if n.isMember(p, true, comeBack/2) {
			return true
		}
		n.f.joinsLost.Add(1)
		n.takeAway(p)
	}
	p.setWanted(true)
	n.g.fail("%s has not got into the group with an empty directory:\n%s", p.id, p.tail(20))
	return false
}

// takeAway kills a member and removes its directory.
func (n *nemesis) takeAway(p *process) {
	p.setWanted(false)
	p.kill()
	if err := os.RemoveAll(p.config.Dir); err != nil {
		n.g.fail("%v", err)
	}
	p.joinBy(n.g.all())
	p.forgetSnapshots()
}

// damage spoils the state of a member that does not run, in a way that Open finds. It comes back by itself.
func (n *nemesis) damage(r *rand.Rand) {
	p := n.g.any()
	p.setWanted(false)
	p.kill()
	p.checkSnapshots() // the files of the state may be links to those of a snapshot
	what, err := spoil(r, p.config.Dir)
	if err != nil {
		n.g.fail("%v", err)
	}
	p.forgetSnapshots()
	p.setWanted(true)
	if what != "" && n.awaitMember(p, true) {
		n.f.damaged.Add(1)
	}
}

// spoil damages something in a member's state. It returns "" if there was nothing.
func spoil(r *rand.Rand, dir string) (what string, err error) {
	stores, err := filepath.Glob(filepath.Join(dir, "state-*"))
	if err != nil || len(stores) == 0 {
		return "", err
	}
	if r.IntN(3) == 0 {
		for _, s := range stores {
			err = os.RemoveAll(s)
		}
		return "all", err
	}
	names := []string{"*.sst", "CURRENT", "MANIFEST-*"}
	files, err := filepath.Glob(filepath.Join(stores[len(stores)-1], names[r.IntN(len(names))]))
	if err != nil || len(files) == 0 {
		return "", err
	}
	file := files[r.IntN(len(files))]
	info, err := os.Stat(file)
	if err != nil {
		return "", err
	}
	if r.IntN(2) == 0 {
		return "no " + file, os.Remove(file)
	}
	// A new file, for the old one may have other names.
	data, err := os.ReadFile(file)
	if err != nil {
		return "", err
	}
	if err := os.Remove(file); err != nil {
		return "", err
	}
	return "short " + file, os.WriteFile(file, data[:info.Size()/2], 0o600)
}
