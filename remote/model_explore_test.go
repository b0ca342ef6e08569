package remote

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/shaledb/shale/internal/testenv"
	"github.com/shaledb/shale/remote/internal/object"
)

// The explorer runs programs that share a bucket, called actors, in every order of their calls. An actor is
// stopped before each call of a method of its bucket, and the explorer chooses who goes on. A list is one call, or,
// in a scenario that says so, one for each object, because a list may show objects as they were at different
// times. After each call the scenario checks what must always hold. This includes that an actor is stopped
// for ever at any point: nobody needs to choose it again while the others go on to their ends.
//
// There may also be some faults, each at every point: a call that changes the bucket takes effect but its answer
// is lost; or it is lost, and takes effect at any later time, or never; or it takes effect twice, now and later.
//
// An actor decides by nothing but the answers that it has got. So it is run only once for each sequence of answers, and
// what it does then is remembered (actorState). A state of the world is what is in the bucket, where each actor stands, and
// which calls may still come late. The explorer goes from state to state without running any program, and to each state
// once, from whichever of the orders that lead there.
//
// Four more things keep the number of states small, and leave out no answer that an actor can get, and nothing that
// the checks can find. TestExplore_LosesNothing compares them with an exploration that does without.
//
//   - What an actor does from some points on depends only on what it remembers there: its fields, and what the checks know of
//     it (phase). Actors that have come there by other answers are one from then on, and so are those that have ended.
//   - It makes no difference when an actor reads what no other one changes from then on. Such a read happens at once, and
//     nothing else is tried before it: every order that begins with calls of others leads to the same state with the read
//     before them. The checks only see the actor's belief earlier, which makes them stricter. The same
//     holds for a call that can change nothing, such as to create what is there and nobody deletes, unless it may meet a
//     fault.
//   - What is changed, and by which call of whom, is not known before (reach). So an exploration that finds a change that
//     it did not know of is repeated with what it knows then, until it finds no more. Then no read was taken too early: a
//     change that comes before it in some order would come after it in the order that was followed instead, at the same
//     place among the calls of its actor, and so would have been found.
//   - A late call that would change nothing where it is may as well never come, and that is always tried.
//
// Where there are too many orders for the time, those with few switches come first: an actor goes on until it is
// stopped for another one, at most once, then at most twice and so on. Most mistakes in programs need one or two such stops.
// What is always followed whole is one stop: each actor is stopped before each call while another one runs to its end.

// A fate is what becomes of a call.
type fate int

const (
	fateRun   fate = iota // it happens
	fateLose              // it happens, and the answer is lost
	fateLate              // it is lost, and may happen later
	fateTwice             // it happens, and may happen again later
	numFates
)

// A scenario describes what is explored.
type scenario struct {
	name    string
	faults  int                // faults in one execution
	slow    bool               // lists take a call for each object
	prepare func(b Bucket)     // fills the bucket
	parts   []part             // what the actors do
	allow   func(f fault) bool // which faults are tried; nil: all
	plain   bool               // every order is followed to the end: see TestExplore_LosesNothing
}

// A fault says what happens to a call of an actor, and to which, counted from 1.
type fault struct {
	actor, call int
	fate        fate
}

// A move is what the explorer lets happen next: a call of an actor, with its fate, or a late call.
type move struct {
	actor int // -1: a late call
	late  int
	fate  fate
	free  bool // it can happen at any time: nobody is stopped for it
}

// An exploration is all executions of a scenario.
type exploration struct {
	sc       *scenario
	stores   *stores
	reaches  *reaches
	actors   []*actor
	begin    *bucketState
	before   *creation // what was created before anything happens
	grown    bool      // reaches has grown
	seen     map[uint64]float64
	path     []move
	longest  int
	deadline time.Time
	partial  bool
	visits   int
	ends     map[uint64]bool // what was there when all actors had ended, with what they took for done
	random   *rand.Rand
	switches int // how often an actor may be stopped for another
}

// anySwitches is more than there can be.
const anySwitches = 1 << 20

// maxStates is how many states an exploration may have: they take up to 50 bytes each.
const maxStates = 100_000_000

// newExploration prepares an exploration.
func newExploration(sc *scenario, seed uint64) *exploration {
	e := &exploration{sc: sc, stores: newStores(), reaches: newReaches(), ends: make(map[uint64]bool), random: rand.New(rand.NewPCG(seed, 0))}
	b := NewMem()
	sc.prepare(b)
	e.begin = e.stores.of(b)
	for _, o := range e.begin.entries {
		e.before = e.before.with(o)
	}
	owner := findOwner(b)
	for i, p := range sc.parts {
		e.actors = append(e.actors, &actor{
			name: string(rune('A' + i)), index: i, part: p, slow: sc.slow, plain: sc.plain, prepared: b, owner: owner, stores: e.stores, reaches: e.reaches,
		})
	}
	return e
}

// end ends all programs.
func (e *exploration) end() {
	for _, a := range e.actors {
		a.end()
	}
}

// start returns the state in which nothing has happened.
func (e *exploration) start() state {
	s := state{at: e.begin, faults: e.sc.faults, created: e.before, last: -1, left: e.switches}
	for i, a := range e.actors {
		s.locals[i] = a.begin()
	}
	return s
}

// AtOnce returns a call that makes no difference to others, and that no other can make a difference to, if an
// actor is about to make one.
func (e *exploration) atOnce(s *state) (move, bool) {
	if e.sc.plain {
		return move{}, false
	}
	for i, l := range s.locals {
		if l == nil || l.call == nil || l.call.writes() && (s.faults > 0 && faulty(l.call) || e.changes(s, l.call)) {
			continue
		}
		if !e.isChanged(s, i) {
			return move{actor: i, free: true}, true
		}
	}
	return move{}, false
}

// changes reports whether a call that writes changes the bucket as it is.
func (e *exploration) changes(s *state, k *call) bool {
	switch was := s.at.find(k.name); k.method {
	case "create":
		return was == nil
	default:
		return was != k.object
	}
}

// isChanged reports whether another actor, or a late call, changes what the next call of actor i is about.
func (e *exploration) isChanged(s *state, i int) bool {
	k := s.locals[i].call
	for j, l := range s.locals {
		if j != i && l != nil && l.call != nil && k.reach[j] >= l.calls {
			return true
		}
	}
	for _, late := range s.late {
		if k.about(late.name) {
			return true
		}
	}
	return s.faults > 0 && k.reach[maxActors] >= 0
}

// faulty reports whether a call may meet a fault: those of a disk do not.
func faulty(k *call) bool { return k.writes() && !strings.HasPrefix(k.name, diskFolder) }

// moves returns what can happen next.
func (e *exploration) moves(s *state) []move {
	var all []move
	for i, l := range s.locals {
		if l == nil || l.call == nil || s.left == 0 && s.stops(i) {
			continue
		}
		all = append(all, move{actor: i})
		if s.faults == 0 || !faulty(l.call) {
			continue
		}
		for f := fateLose; f < numFates; f++ {
			if e.sc.allow == nil || e.sc.allow(fault{i, l.calls + 1, f}) {
				all = append(all, move{actor: i, fate: f})
			}
		}
	}
	for i, k := range s.late {
		if e.sc.plain || e.changes(s, k) {
			all = append(all, move{actor: -1, late: i})
		}
	}
	return all
}

// make returns the state after a move. The error is what the move breaks.
func (e *exploration) make(s state, m move) (state, error) {
	if m.actor < 0 {
		k := s.late[m.late]
		s.late = slices.Delete(slices.Clone(s.late), m.late, m.late+1)
		_, _, err := e.write(&s, k, maxActors, 0)
		return s, err
	}
	if !m.free {
		if s.left < anySwitches && s.stops(m.actor) {
			s.left--
		}
		s.last = m.actor
	}
	l := s.locals[m.actor]
	k := l.call
	if m.fate != fateRun {
		s.faults--
	}
	var (
		a   answer
		key uint64
		err error
	)
	switch {
	case !k.writes():
		a, key = s.at.ask(k)
	case m.fate != fateLate:
		a, key, err = e.write(&s, k, m.actor, l.calls)
	}
	if m.fate == fateLose || m.fate == fateLate {
		a, key = answer{err: errLost}, keyLost
	}
	if m.fate == fateLate || m.fate == fateTwice {
		s.late = append(slices.Clone(s.late), k)
	}
	if err != nil {
		return s, err
	}
	next := l.after(a, key)
	s.locals[m.actor] = next.to
	return s, s.believes(l, next)
}

// write makes a call that changes the bucket: number n of an actor, or a late one.
func (e *exploration) write(s *state, k *call, actor, n int) (a answer, key uint64, err error) {
	was := s.at
	s.at, a, key = e.stores.apply(s.at, k)
	if s.at == was {
		return a, key, nil
	}
	e.grown = e.reaches.note(k.name, actor, n) || e.grown
	if k.object != nil {
		if first := s.created.first(k.name); first != nil && first != k.object && strings.HasPrefix(k.name, object.TableFolder) {
			err = fmt.Errorf("table %s is written with other bytes than before", k.name)
		}
		s.created = s.created.with(k.object)
	}
	return a, key, err
}

// explored is what an exploration has found.
type explored struct {
	states   int
	visits   int
	locals   int
	contents int
	orders   float64
	longest  int
	switches int // the largest number of switches of which all orders were followed; -1: none
	took     time.Duration
}

func (e explored) String() string {
	part := "all"
	switch {
	case e.switches < 0:
		part = "a part"
	case e.switches < anySwitches:
		part = fmt.Sprintf("all with up to %d stops", e.switches)
	}
	return fmt.Sprintf("%.3g orders of up to %d calls, %d states, %d ways to a state, %d contents of the bucket, %d states of an actor; %s; %v",
		e.orders, e.longest, e.states, e.visits, e.contents, e.locals, part, e.took.Round(time.Millisecond))
}

// explore runs the scenario in every order of calls, or, if it takes longer than patience, in many, chosen by seed. It
// returns the first violation, with the calls that lead to it.
func (e *exploration) explore(patience time.Duration) (explored, error) {
	defer e.end()
	begun := time.Now()
	e.deadline = begun.Add(patience)
	found := explored{switches: -1}
	for _, e.switches = range []int{1, 2, 3, anySwitches} {
		for e.grown = true; e.grown && !e.partial; {
			e.grown, e.seen, e.path, e.visits = false, make(map[uint64]float64), nil, 0
			orders, err := e.follow(e.start())
			if err == nil {
				found.orders = max(found.orders, orders)
			}
			found.states, found.visits, found.longest = max(found.states, len(e.seen)), max(found.visits, e.visits), max(found.longest, e.longest)
			found.took, found.contents, found.locals = time.Since(begun), len(e.stores.contents), 0
			for _, a := range e.actors {
				found.locals += a.locals
			}
			if err != nil {
				return found, err
			}
		}
		if e.partial {
			break
		}
		found.switches = e.switches
	}
	return found, nil
}

// follow explores everything that can happen in s, which e.path has led to, and returns in how many orders.
func (e *exploration) follow(s state) (float64, error) {
	defer func(n int) { e.path = e.path[:n] }(len(e.path))
	e.visits++
	err := s.check()
	for err == nil {
		m, ok := e.atOnce(&s)
		if !ok {
			break
		}
		e.path = append(e.path, m)
		if s, err = e.make(s, m); err == nil {
			err = s.check()
		}
	}
	if err != nil {
		return 0, e.violation(err)
	}
	e.longest = max(e.longest, len(e.path))
	key := s.key()
	if orders, ok := e.seen[key]; ok {
		return orders, nil
	}
	e.noteEnd(&s)
	moves := e.moves(&s)
	e.random.Shuffle(len(moves), func(i, j int) { moves[i], moves[j] = moves[j], moves[i] })
	if e.switches > 1 && !e.partial && e.visits%64 == 0 && (time.Now().After(e.deadline) || len(e.seen) > maxStates) {
		e.partial = true
	}
	if e.partial {
		moves = nil
	}
	orders := 0.0
	for _, m := range moves {
		e.path = append(e.path, m)
		next, err := e.make(s, m)
		if err != nil {
			return 0, e.violation(err)
		}
		n, err := e.follow(next)
		if err != nil {
			return 0, err
		}
		orders += n
		e.path = e.path[:len(e.path)-1]
	}
	e.seen[key] = max(orders, 1)
	return max(orders, 1), nil
}

// noteEnd notes what is there if all actors have ended.
func (e *exploration) noteEnd(s *state) {
	end := s.at.sum
	for _, l := range s.locals {
		if l != nil && l.call != nil {
			return
		}
		if l != nil {
			end = mix(end, l.ended)
		}
	}
	e.ends[end] = true
}

// violation returns err with the calls of e.path, one a line.
func (e *exploration) violation(err error) error {
	var lines []string
	s := e.start()
	for _, m := range e.path {
		var k *call
		text := "late: "
		if m.actor < 0 {
			k = s.late[m.late]
		} else {
			k = s.locals[m.actor].call
			text = e.actors[m.actor].name + ": "
		}
		lines = append(lines, "  "+text+k.String()+[numFates]string{"", " (answer lost)", " (late)", " (twice)"}[m.fate])
		s, _ = e.make(s, m)
	}
	return fmt.Errorf("%w\nafter\n%s", err, strings.Join(lines, "\n"))
}

// runScenario explores a scenario, with as many faults as it says, at a share of the places. It is brief, and takes
// all places with SHALE_LONG, for at most that long.
func runScenario(t *testing.T, sc *scenario, brief float64) {
	t.Helper()
	seed := testenv.Seed(t)
	share := testenv.ShareOf(t, seed, brief)
	patience := time.Second
	if testing.Short() {
		patience /= 4
	}
	if long := testenv.Long(t); long > 0 {
		patience, share.Part = long, 1
	}
	if sc.faults > 0 {
		sc.allow = func(f fault) bool {
			return share.Takes(digestFault(f))
		}
	}
	e := newExploration(sc, seed)
	found, err := e.explore(patience)
	if err != nil {
		t.Fatalf("%s: %v", sc.name, err)
	}
	t.Logf("%s: %v", sc.name, found)
}

// digestFault numbers the faults.
func digestFault(f fault) uint64 {
	return uint64(f.actor)<<32 | uint64(f.call)<<8 | uint64(f.fate)
}
