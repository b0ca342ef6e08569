package remote

import (
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"io"
	"io/fs"
	"iter"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/shaledb/shale/internal/testenv"
)

// The explorer runs programs that share a bucket, called actors, in every order of their calls. An actor is
// stopped before each call of a method of its bucket, and the explorer chooses who goes on. A list is one call, or,
// in a scenario that says so, one for each object, because a list may show objects as they were at different
// times. After each call the scenario checks what must always hold. This includes that an actor is stopped
// for ever at any point: nobody needs to choose it again while the others go on to their ends.
//
// Two things keep the number of executions small, and leave out no answer that an actor can get:
//
//   - What has happened so far is determined by what is in the bucket and by the answers that each actor has got,
//     since an actor decides by nothing else. So of the orders that lead to the same bucket and the same answers one
//     is followed.
//   - It makes no difference when an actor reads what no other one ever changes. Such a read happens at once. What is
//     changed is not known before, so an exploration that finds a change of something that it took for unchanged
//     is repeated with what it knows then, until it finds no more.
//
// Where there are too many orders for the time, those with few switches come first: an actor goes on until it is
// stopped for another one, at most once, then at most twice and so on. Most mistakes in programs need one or two such stops.
// What is always followed whole is one stop: each actor is stopped before each call while another one runs to its end.
//
// There may also be some faults, each at every point: a call that changes the bucket takes effect but its answer
// is lost; or it is lost, and takes effect at any later time, or never; or it takes effect twice, now and later.

// A fate is what becomes of a call.
type fate int

const (
	fateRun   fate = iota // it happens
	fateLose              // it happens, and the answer is lost
	fateLate              // it is lost, and may happen later
	fateTwice             // it happens, and may happen again later
	numFates
)

var errLost = errors.New("the answer was lost")

// A call is a call of a method of a bucket, or the next object of a list.
type call struct {
	method string
	name   string
	write  bool
	do     func() // of a write: changes the bucket, drops the answer
}

func (c call) String() string { return c.method + " " + c.name }

// An actor is a running program.
type actor struct {
	name    string
	resume  func() (call, bool)
	stop    func()
	pending call
	done    bool
	fate    fate   // of the pending call
	answers uint64 // the hash of all answers so far
	calls   int
}

// A world is one execution of a scenario.
type world struct {
	*memBucket
	actors []*actor
	late   []call // calls that may still happen
	faults int    // how many there may still be
	check  func() error
	last   int // who has made the last move
	left   int // how often one may still be stopped for another
	// created, if it is set, is called for each object that is created.
	created func(name string, sum uint32)
	sc      *scenario
}

// A scenario describes what is explored.
type scenario struct {
	name    string
	faults  int                // faults in one execution
	slow    bool               // lists take a call for each object
	prepare func(w *world)     // fills the bucket; it is called once, and later worlds get a copy
	begin   func(w *world)     // starts the actors and sets check
	allow   func(f fault) bool // which faults are tried; nil: all
}

// A fault says what happens to a call of an actor, and to which, counted from 1.
type fault struct {
	actor, call int
	fate        fate
}

var modelSeed = maphash.MakeSeed()

// digest returns a hash of values.
func digest(values ...any) uint64 {
	var h maphash.Hash
	h.SetSeed(modelSeed)
	for _, v := range values {
		switch v := v.(type) {
		case uint64:
			maphash.WriteComparable(&h, v)
		case string:
			h.WriteString(v)
			h.WriteByte(0)
		case []byte:
			h.Write(v)
			h.WriteByte(0)
		case error:
			h.WriteString(answerOf(v))
			h.WriteByte(0)
		case nil:
			h.WriteByte(1)
		default:
			panic(fmt.Sprintf("digest of a %T", v))
		}
	}
	return h.Sum64()
}

// answerOf returns what an actor can make of an error.
func answerOf(err error) string {
	for _, known := range []error{ErrExists, fs.ErrNotExist, io.EOF, errLost} {
		if errors.Is(err, known) {
			return known.Error()
		}
	}
	return err.Error()
}

// errModelOver ends an actor that is not needed any more.
var errModelOver = errors.New("the execution is over")

// act starts an actor and lets it run up to its first call. b is the actor's bucket.
func (w *world) act(name string, run func(b Bucket)) *actor {
	a := &actor{name: name}
	body := func(yield func(call) bool) {
		defer func() {
			if r := recover(); r != nil && r != errModelOver {
				panic(r)
			}
		}()
		patient := retrying(&modelBucket{w, a, yield})
		patient.now = func() time.Time { return exampleTime }
		patient.sleep = func(context.Context, time.Duration) error { return nil }
		run(patient)
	}
	a.resume, a.stop = iter.Pull(iter.Seq[call](body))
	w.actors = append(w.actors, a)
	a.goOn()
	return a
}

// goOn lets an actor run up to its next call.
func (a *actor) goOn() {
	pending, ok := a.resume()
	a.pending, a.done = pending, !ok
	a.calls++
}

// end stops all actors.
func (w *world) end() {
	for _, a := range w.actors {
		a.stop()
	}
}

// A modelBucket stops its actor before each call.
type modelBucket struct {
	w     *world
	a     *actor
	yield func(call) bool
}

// before waits until the explorer lets the call happen, and returns its fate.
func (b *modelBucket) before(method, name string, do func()) fate {
	if !b.yield(call{method, name, do != nil, do}) {
		panic(errModelOver)
	}
	return b.a.fate
}

// after notes the answer of a call.
func (b *modelBucket) after(answer ...any) {
	b.a.answers = digest(append(answer, b.a.answers)...)
}

// change makes a call that changes the bucket.
func (b *modelBucket) change(method, name string, do func() error) (err error) {
	drop := func() { _ = do() } // nobody hears the answer
	switch b.before(method, name, drop) {
	case fateLose:
		drop()
		err = errLost
	case fateLate:
		b.w.late = append(b.w.late, call{method, name, true, drop})
		err = errLost
	case fateTwice:
		err = do()
		b.w.late = append(b.w.late, call{method, name, true, drop})
	default:
		err = do()
	}
	b.after(err)
	return err
}

func (b *modelBucket) Put(ctx context.Context, name string, body io.ReaderAt, size int64, crc32c uint32, absent bool) error {
	data, err := readBody(body, size, crc32c)
	if err != nil {
		return err
	}
	method := "put"
	if absent {
		method = "create"
	}
	return b.change(method, name, func() error {
		err := b.w.install(name, memObject{data, crc32c}, absent)
		if err == nil && b.w.created != nil {
			b.w.created(name, crc32c)
		}
		return err
	})
}

func (b *modelBucket) Delete(ctx context.Context, name string) error {
	return b.change("delete", name, func() error { return b.w.memBucket.Delete(ctx, name) })
}

func (b *modelBucket) ReadAt(ctx context.Context, name string, p []byte, off int64) (int, error) {
	b.before("read", name, nil)
	n, err := b.w.memBucket.ReadAt(ctx, name, p, off)
	b.after(p[:n], err)
	return n, err
}

func (b *modelBucket) Stat(ctx context.Context, name string) (Info, error) {
	b.before("stat", name, nil)
	info, err := b.w.memBucket.Stat(ctx, name)
	b.after(uint64(info.Size), uint64(info.CRC32C), err)
	return info, err
}

func (b *modelBucket) List(ctx context.Context, prefix, after string) iter.Seq2[Info, error] {
	return func(yield func(Info, error) bool) {
		if b.w.sc.slow {
			b.slowList(prefix, after, yield)
			return
		}
		b.before("list", prefix, nil)
		var all []Info
		for {
			info, there := b.w.memBucket.next(prefix, after)
			if !there {
				break
			}
			all, after = append(all, info), info.Name
			b.after(info.Name, uint64(info.Size))
		}
		b.after("end")
		for _, info := range all {
			if !yield(info, nil) {
				return
			}
		}
	}
}

// slowList passes each object as it is when the caller gets it.
func (b *modelBucket) slowList(prefix, after string, yield func(Info, error) bool) {
	for {
		b.before("list", prefix, nil)
		info, there := b.w.memBucket.next(prefix, after)
		b.after(info.Name, uint64(info.Size))
		if !there || !yield(info, nil) {
			return
		}
		after = info.Name
	}
}

// copyMem returns a copy of a bucket.
func copyMem(b *memBucket) *memBucket {
	return &memBucket{names: slices.Clone(b.names), objects: maps.Clone(b.objects)}
}

// contents returns a hash of all objects.
func (w *world) contents() uint64 {
	var sum uint64
	for name, o := range w.objects {
		sum += digest(name, uint64(o.sum), uint64(len(o.data)))
	}
	return sum
}

// A stateKey identifies what has happened so far, in so far as it matters for what can happen.
type stateKey [2]uint64

func (w *world) key() stateKey {
	bucket, rest := w.contents(), digest(uint64(w.faults), uint64(w.left))
	if w.left < anySwitches {
		rest = digest(rest, uint64(w.last))
	}
	for _, a := range w.actors {
		rest = digest(rest, a.answers, uint64(a.calls))
	}
	late := uint64(0)
	for _, c := range w.late {
		late += digest(c.method, c.name)
	}
	return stateKey{bucket, digest(rest, late)}
}

// A move is what the explorer lets happen next: a call of an actor, with its fate, or a late call.
type move struct {
	actor int // -1: a late call
	late  int
	fate  fate
	free  bool // a read that can happen at any time: nobody is stopped for it
}

// moves returns what can happen next.
func (w *world) moves() []move {
	var all []move
	for i, a := range w.actors {
		if a.done || w.left == 0 && w.stops(i) {
			continue
		}
		all = append(all, move{actor: i})
		if w.faults == 0 || !a.pending.write {
			continue
		}
		for f := fateLose; f < numFates; f++ {
			if w.sc.allow == nil || w.sc.allow(fault{i, a.calls, f}) {
				all = append(all, move{actor: i, fate: f})
			}
		}
	}
	for i := range w.late {
		all = append(all, move{actor: -1, late: i})
	}
	return all
}

// make makes a move, and returns its notation.
func (w *world) make(m move) string {
	if m.actor < 0 {
		c := w.late[m.late]
		w.late = slices.Delete(slices.Clone(w.late), m.late, m.late+1)
		c.do()
		return "late: " + c.String()
	}
	a := w.actors[m.actor]
	text := a.name + ": " + a.pending.String()
	if m.fate != fateRun {
		w.faults--
		text += [numFates]string{"", " (answer lost)", " (late)", " (twice)"}[m.fate]
	}
	a.fate = m.fate
	a.goOn()
	return text
}

// anySwitches is more than there can be.
const anySwitches = 1 << 20

// stops reports whether an actor is stopped when actor i goes on.
func (w *world) stops(i int) bool {
	return w.last >= 0 && w.last != i && !w.actors[w.last].done
}

// choose makes a move, and counts whether it stops an actor.
func (w *world) choose(m move) string {
	if m.actor >= 0 {
		if w.left < anySwitches && w.stops(m.actor) {
			w.left--
		}
		w.last = m.actor
	}
	return w.make(m)
}

// replay makes a move of another execution again.
func (w *world) replay(m move) string {
	if m.free {
		return w.make(m)
	}
	return w.choose(m)
}

// An exploration is all executions of a scenario.
type exploration struct {
	sc         *scenario
	prepared   *memBucket
	changed    map[touched]bool
	grown      bool                 // changed has grown
	seen       map[stateKey]float64 // how many orders there are from here to the end
	path       []move
	longest    int
	deadline   time.Time
	partial    bool
	executions int
	random     *rand.Rand
	switches   int // how often an actor may be stopped for another
}

// A touched object says that an actor changes an object at some time.
type touched struct {
	actor int // -1: a late call, of whomever
	name  string
}

// note remembers what a move changes.
func (e *exploration) note(w *world, m move) {
	c := touched{m.actor, ""}
	if m.actor < 0 {
		c.name = w.late[m.late].name
	} else if p := w.actors[m.actor].pending; p.write {
		c.name = p.name
	} else {
		return
	}
	if !e.changed[c] {
		e.changed[c], e.grown = true, true
	}
}

// atOnce returns a read of what no other actor changes, if an actor is about to make one.
func (e *exploration) atOnce(w *world) (move, bool) {
	for i, a := range w.actors {
		if !a.done && !a.pending.write && !e.isChanged(i, a.pending) {
			return move{actor: i}, true
		}
	}
	return move{}, false
}

// isChanged reports whether another actor changes what a call of actor i reads.
func (e *exploration) isChanged(i int, c call) bool {
	for other := range e.changed {
		if other.actor != i && (other.name == c.name || c.method == "list" && strings.HasPrefix(other.name, c.name)) {
			return true
		}
	}
	return false
}

// explored is what an exploration has found.
type explored struct {
	states     int
	executions int
	orders     float64
	longest    int
	switches   int // the largest number of switches of which all orders were followed; -1: none
}

func (e explored) String() string {
	part := "all"
	switch {
	case e.switches < 0:
		part = "a part"
	case e.switches < anySwitches:
		part = fmt.Sprintf("all with up to %d stops", e.switches)
	}
	return fmt.Sprintf("%.3g orders of up to %d calls by %d executions, %d states; %s", e.orders, e.longest, e.executions, e.states, part)
}

// explore runs a scenario in every order of calls, or, if it takes longer than patience, in many, chosen by seed. It returns
// the first violation, with the calls that lead to it.
func explore(sc *scenario, patience time.Duration, seed uint64) (explored, error) {
	e := &exploration{sc: sc, random: rand.New(rand.NewPCG(seed, 0)), changed: make(map[touched]bool), deadline: time.Now().Add(patience)}
	first := &world{memBucket: NewMem().(*memBucket), sc: sc}
	if sc.prepare != nil {
		sc.prepare(first)
	}
	e.prepared = first.memBucket
	found := explored{switches: -1}
	for _, e.switches = range []int{1, 2, 3, 4, 8, anySwitches} {
		for e.grown = true; e.grown && !e.partial; {
			e.grown, e.seen, e.path = false, make(map[stateKey]float64), nil
			orders, err := e.follow(e.start(nil))
			found.states, found.executions, found.longest = max(found.states, len(e.seen)), e.executions, max(found.longest, e.longest)
			if err != nil {
				return found, err
			}
			found.orders = max(found.orders, orders)
		}
		if e.partial {
			break
		}
		found.switches = e.switches
	}
	return found, nil
}

// start begins an execution and makes the moves of path.
func (e *exploration) start(path []move) *world {
	e.executions++
	w := &world{memBucket: copyMem(e.prepared), faults: e.sc.faults, sc: e.sc, last: -1, left: e.switches}
	e.sc.begin(w)
	for _, m := range path {
		w.replay(m)
	}
	return w
}

// follow explores everything that can happen in w, which e.path has led to, and returns in how many orders. It
// ends w.
func (e *exploration) follow(w *world) (float64, error) {
	defer func(n int) { e.path = e.path[:n] }(len(e.path))
	for {
		if err := w.check(); err != nil {
			w.end()
			return 0, fmt.Errorf("%w\nafter\n%s", err, e.story())
		}
		m, ok := e.atOnce(w)
		if !ok {
			break
		}
		m.free = true
		e.path = append(e.path, m)
		w.make(m)
	}
	e.longest = max(e.longest, len(e.path))
	key := w.key()
	if orders, ok := e.seen[key]; ok {
		w.end()
		return orders, nil
	}
	moves := w.moves()
	e.random.Shuffle(len(moves), func(i, j int) { moves[i], moves[j] = moves[j], moves[i] })
	if len(moves) > 0 && (e.switches > 1 || e.sc.faults > 0) && time.Now().After(e.deadline) {
		e.partial, moves = true, nil
	}
	if len(moves) == 0 {
		w.end()
		e.seen[key] = 1
		return 1, nil
	}
	orders := 0.0
	for i, m := range moves {
		if i > 0 {
			w = e.start(e.path)
		}
		e.note(w, m)
		w.choose(m)
		e.path = append(e.path, m)
		n, err := e.follow(w)
		if err != nil {
			return 0, err
		}
		orders += n
		e.path = e.path[:len(e.path)-1]
	}
	e.seen[key] = orders
	return orders, nil
}

// story returns the calls of e.path, one a line.
func (e *exploration) story() string {
	var lines []string
	w := e.start(nil)
	defer w.end()
	for _, m := range e.path {
		lines = append(lines, "  "+w.replay(m))
	}
	return strings.Join(lines, "\n")
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
	found, err := explore(sc, patience, seed)
	if err != nil {
		t.Fatalf("%s: %v", sc.name, err)
	}
	t.Logf("%s: %v", sc.name, found)
}

// digestFault numbers the faults.
func digestFault(f fault) uint64 {
	return uint64(f.actor)<<32 | uint64(f.call)<<8 | uint64(f.fate)
}
