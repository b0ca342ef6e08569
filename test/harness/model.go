package harness

import (
	"fmt"
	"slices"
	"sync/atomic"

	"github.com/shaledb/shale"
)

// A Commit is a change of a store that is there as a whole or not at all.
type Commit struct {
	Ops []shale.Op
	// A commit whose call failed is uncertain: after the next Open it may be there or not. Its
	// marker, a key that only this commit puts, shows which. The last commit needs no marker.
	Uncertain bool
	Marker    string
	// Early says that the commit is durable when its call returns, and that readers may see it before
	// that: a batch has chosen more durability than its store.
	Early bool
	// seen says of an uncertain commit that readers see it before the next Open: only its sync failed.
	seen bool
}

// A Claim says what may be found in a store after a crash: the state Base with some of the commits
// after it. The first Safe commits must be there. Those that follow are there up to some point and
// not beyond it. Uncertain ones before that point may be missing, whether safe or not. A Claim never
// changes.
type Claim struct {
	Base    State
	Commits []Commit
	Safe    int
	Copies  []Copy // that are durable
	Floor   int64  // the earliest time at which a store may be opened for that
	epoch   int    // how often Base was replaced
	asOf    int64  // see At
}

// At returns the claim for a store whose time is ms when it is read.
func (c Claim) At(ms int64) Claim {
	c.asOf = ms
	return c
}

// A Copy is a checkpoint and what it holds.
type Copy struct {
	Dir   string
	State State
}

// Check returns how many of the commits found shows, or an error if no number explains it.
func (c Claim) Check(found State) (n int, err error) {
	base := c.Base.At(c.asOf)
	s, safest := base.builder(), base
	s.asOf = max(s.asOf, c.asOf)
	for n := 0; ; n++ {
		if n == c.Safe {
			safest = s.state()
		}
		if n >= min(c.Safe, c.marked()) && s.sum == found.sum && slices.Equal(s.entries, found.entries) {
			return n, nil
		}
		if n == len(c.Commits) {
			break
		}
		if commit := &c.Commits[n]; n >= c.marked() || commit.there(found) {
			s.apply(commit.Ops...)
		}
	}
	return 0, fmt.Errorf("of %d commits %d are safe, and what is found shows no number of them; against the safe ones: %w; against all: %w",
		len(c.Commits), c.Safe, safest.Diff(found), s.Diff(found))
}

// marked returns how many commits there are but for a last one that is uncertain without a marker:
// of that one there may be everything or nothing.
func (c Claim) marked() int {
	if last := len(c.Commits) - 1; last >= 0 && c.Commits[last].Uncertain && c.Commits[last].Marker == "" {
		return last
	}
	return len(c.Commits)
}

// there reports whether the commit is part of a state, which shows it if it is uncertain.
func (c *Commit) there(found State) bool {
	if !c.Uncertain {
		return true
	}
	if c.Marker == "" {
		panic("harness: an uncertain commit needs a marker")
	}
	_, ok := found.Get(c.Marker)
	return ok
}

// AllSafe returns the claim of a store none of whose commits can be lost: its process has died, but
// not the machine.
func (c Claim) AllSafe() Claim {
	c.Safe = len(c.Commits)
	return c
}

// Between returns what a crash may leave that happened after the moment of c and before that of
// later: what was safe at c is there, and what was begun by later may be.
func (c Claim) Between(later Claim) Claim {
	if c.epoch != later.epoch {
		return Claim{Base: later.Base, Commits: later.Commits, Copies: c.Copies, Floor: later.Floor}
	}
	c.Commits, c.Floor = later.Commits, later.Floor
	return c
}

// States returns the state after each number of commits.
func (c Claim) States() []State {
	states := []State{c.Base}
	for i := range c.Commits {
		states = append(states, states[i].With(c.Commits[i].Ops...))
	}
	return states
}

// A Model is what a store must hold. It is a Store itself, so that a step can be done by it.
//
// For each step the model goes first, so that a crash in the middle of the step finds the step's
// commits begun. Acknowledge, after the store has done the step, makes safe what the step promised;
// Failed says that the store could not do it.
//
// One goroutine uses a model. Others may call Claim.
type Model struct {
	// Durability is that of the store's options.
	Durability shale.Durability

	now       State
	time      int64 // of the store; 0: Epoch
	floor     int64 // see Claim.Floor
	base      State
	epoch     int // of base
	commits   []Commit
	safe      int
	copies    map[string]*Model // of the checkpoints, by directory
	durable   []Copy
	published atomic.Pointer[Claim]

	// Of transactions: how many are open, and the keys of the commits since the first of them began.
	txns    int
	changes [][]shale.Op

	// Of the present step: its first commit, and its first change; how many are safe when it is acknowledged, and the
	// checkpoint that is durable then.
	first, promised int
	firstChange     int
	promises        bool // the step makes what there is durable
	made            *Copy
}

// NewModelAt returns the model of a store that holds s.
func NewModelAt(s State, d shale.Durability) *Model { return &Model{now: s, base: s, Durability: d} }

// Commits returns the commits that a crash may take back, and whether all of them, and all before
// them, are durable once the step that made them is acknowledged.
func (m *Model) Commits() (commits []Commit, promised bool) {
	return m.commits, m.promised == len(m.commits) && m.promises
}

// Now returns what readers must see.
func (m *Model) Now() State { return m.now.At(m.clock()) }

// Claim returns what a crash at this moment may leave. Any goroutine may call it.
func (m *Model) Claim() Claim {
	if c := m.published.Load(); c != nil {
		return *c
	}
	return Claim{}
}

func (m *Model) publish() {
	m.published.Store(&Claim{Base: m.base, Commits: slices.Clip(m.commits), Safe: m.safe, Copies: slices.Clip(m.durable), Floor: m.floor, epoch: m.epoch})
}

// begin begins a step.
func (m *Model) begin() {
	m.first, m.promised, m.promises, m.made = len(m.commits), m.safe, false, nil
	m.firstChange = len(m.changes)
}

// commit adds a commit, which is safe once it is acknowledged if it is synced.
func (m *Model) commit(c Commit, synced bool) {
	m.now = m.now.With(c.Ops...)
	m.commits = append(m.commits, c)
	m.changed(c.Ops)
	if synced {
		m.promise()
	}
	m.publish()
}

// promise makes all commits so far safe once the step is acknowledged.
func (m *Model) promise() { m.promised, m.promises = len(m.commits), true }

// Acknowledge says that the store has done the step.
func (m *Model) Acknowledge() {
	m.safe = max(m.safe, m.promised)
	if m.made != nil {
		m.durable = append(m.durable, *m.made)
	}
	m.publish()
}

// Failed says that the store did only the first done calls of the step that write, and that the next
// one failed. Its commit is uncertain from now on, and not seen unless Seen says so. Failed returns
// the commit's marker, or "" if there is no such commit.
func (m *Model) Failed(done int) (marker string) {
	commits := slices.Clone(m.commits[:min(len(m.commits), m.first+done+1)])
	if last := m.first + done; last < len(commits) {
		commits[last].Uncertain = true
		marker = commits[last].Marker
	}
	m.commits = commits
	m.changes = m.changes[:min(len(m.changes), m.firstChange+done)] // what was refused is no conflict
	m.recount()
	return marker
}

// Only says that the store did only the first done calls of the step that write.
func (m *Model) Only(done int) {
	m.commits = slices.Clone(m.commits[:min(len(m.commits), m.first+done)])
	m.changes = m.changes[:min(len(m.changes), m.firstChange+done)]
	m.promised = min(m.promised, len(m.commits))
	m.recount()
}

// Seen says that readers see the uncertain commit with the marker: only its sync has failed.
func (m *Model) Seen(marker string) {
	for i := range m.commits {
		if m.commits[i].Marker == marker {
			m.commits = slices.Clone(m.commits)
			m.commits[i].seen = true
		}
	}
	m.recount()
}

// AllSafe says that no commit so far can be lost.
func (m *Model) AllSafe() {
	m.safe = len(m.commits)
	m.publish()
}

// recount computes what readers must see from the commits.
func (m *Model) recount() {
	s := m.base.builder()
	for _, c := range m.commits {
		if !c.Uncertain || c.seen {
			s.apply(c.Ops...)
		}
	}
	m.now = s.state()
	m.publish()
}

// Undo says that uncertain commits which no reader has seen are gone for good, and that all others
// are safe: the store has resumed with a new log.
func (m *Model) Undo() {
	m.rebase(m.now)
}

// Found says what a store holds after an Open, and checks it against the claim, which may be that
// of an earlier moment. The model goes on from there: what was found is durable.
func (m *Model) Found(c Claim, found State) error {
	if _, err := c.At(m.clock()).Check(found); err != nil {
		return err
	}
	m.floor = max(m.floor, m.clock()) // what is over was not found
	m.rebase(found)
	return nil
}

// rebase makes s what the store holds for good.
func (m *Model) rebase(s State) {
	m.base, m.now, m.commits, m.safe = s, s, nil, 0
	m.epoch++
	m.publish()
}
