package remote

import (
	"context"
	"fmt"
	"iter"
	"slices"
	"strings"
	"time"

	"github.com/shaledb/shale/remote/internal/buckets"
	"github.com/shaledb/shale/remote/internal/remotetest"
)

// A running is a program that runs up to its next call of the bucket, and waits there.
type running struct {
	of     *actor
	model  *model
	resume func() (*call, bool)
	stop   func()
	answer answer // to the call that it waits with
}

// start starts the program of an actor.
func (a *actor) start() *running {
	r := &running{of: a, model: newModel(a.prepared, a.owner)}
	r.model.drawn = uint64(a.index) * 1000
	body := func(yield func(*call) bool) {
		defer func() {
			if v := recover(); v != nil && v != errModelOver {
				panic(v)
			}
		}()
		patient := buckets.Retrying(&modelBucket{r, yield})
		patient.Now = func() time.Time { return remotetest.ExampleTime }
		patient.Sleep = func(context.Context, time.Duration) error { return nil }
		a.part(r.model, patient)
	}
	r.resume, r.stop = iter.Pull(iter.Seq[*call](body))
	return r
}

// A reach says who changes an object, or any object whose name begins with some prefix: for each actor the number of its
// last call that does, and -1 if there is none. The last element stands for calls that come late, of whomever.
type reach [maxActors + 1]int

// reaches are the reaches of all objects and prefixes that calls are about.
type reaches struct {
	names, prefixes map[string]*reach
}

func newReaches() *reaches {
	return &reaches{names: make(map[string]*reach), prefixes: make(map[string]*reach)}
}

// of returns what an exploration knows of who changes what a call is about.
func (r *reaches) of(k *call) *reach {
	all := r.names
	if k.lists() {
		all = r.prefixes
	}
	found := all[k.name]
	if found == nil {
		found = new(reach)
		for i := range found {
			found[i] = -1
		}
		all[k.name] = found
		if k.lists() {
			for name, o := range r.names {
				if strings.HasPrefix(name, k.name) {
					found.join(o)
				}
			}
		}
	}
	return found
}

// join adds what o says, and reports whether r has changed.
func (r *reach) join(o *reach) (grown bool) {
	for i := range r {
		if o[i] > r[i] {
			r[i], grown = o[i], true
		}
	}
	return grown
}

// note remembers that call number n of an actor changes an object, and reports whether that is new.
func (r *reaches) note(name string, actor, n int) bool {
	o := r.of(&call{name: name})
	if o[actor] >= n {
		return false
	}
	o[actor] = n
	for prefix, p := range r.prefixes {
		if strings.HasPrefix(name, prefix) {
			p.join(o)
		}
	}
	return true
}

// An actor is a program that takes part in a scenario. What it does next depends on nothing but the answers that it has
// got, so each sequence of answers leads to one actorState.
type actor struct {
	name     string
	index    int
	part     part
	slow     bool // its lists take a call for each object
	plain    bool // its states are not merged
	prepared Bucket
	owner    *modelWriter // what resume finds in prepared
	stores   *stores
	reaches  *reaches
	root     *actorState
	locals   int
	merged   map[uint64]*actorState // the first state with each hash of all that matters
	parked   []*actorState          // those that may have a running
}

// An actorState is an actor that has got certain answers, and waits for another.
type actorState struct {
	of     *actor
	parent *actorState
	answer answer // the last one
	calls  int    // that were answered
	id     uint64
	call   *call  // nil: the actor has ended
	ended  uint64 // if it has ended, a hash of what is still checked
	next   map[uint64]edge
	parked *running // a running that waits here, or nil

	// What the actor has taken for done.
	acked  []string
	pins   []*Pin
	claims []uint64
	broken error
}

// An edge says what an answer leads to, and which steps the actor begins to believe in then.
type edge struct {
	to      *actorState
	beliefs []belief
}

// begin returns the state before the first answer.
func (a *actor) begin() *actorState {
	if a.root == nil {
		a.merged = make(map[uint64]*actorState)
		a.root = a.stands(a.start(), new(actorState))
	}
	return a.root
}

const (
	// maxParked is how many programs of an actor wait at most.
	maxParked = 4096
	// phaseCalls is more than an actor makes calls in one phase.
	phaseCalls = 1 << 20
)

// stands lets a program run up to its next call, and fills in l, which describes it then. If the program comes to a phase on
// the way, or to its end, and there is a state that is equal in all that still matters, it returns that one.
func (a *actor) stands(r *running, l *actorState) *actorState {
	m := r.model
	var hashes []uint64 // of what the program passes: they lead to the result
	pass := func(hash uint64) *actorState {
		if a.plain {
			return l
		}
		hashes = append(hashes, hash)
		first := a.merged[hash]
		if first == nil {
			first = l
		}
		for _, h := range hashes {
			a.merged[h] = first
		}
		return first
	}
	k, more := r.resume()
	for more && k.method == phaseMethod {
		l.calls = (l.calls/phaseCalls + 1) * phaseCalls
		if first := pass(mix(mix(k.id, m.digest()), uint64(l.calls))); first != l {
			r.stop()
			return first
		}
		k, more = r.resume()
	}
	if !more {
		r.stop()
		l.ended = m.digest()
		if first := pass(l.ended); first != l {
			return first
		}
	}
	a.locals++
	l.of, l.id = a, uint64(a.locals)
	l.acked, l.pins, l.claims = m.acked, m.pins, m.claims
	if len(m.broken) > 0 {
		l.broken = m.broken[0]
	}
	if !more {
		return l
	}
	if k.object != nil {
		k.object = a.stores.entry(k.name, k.object.data, k.object.sum)
		k.id = k.object.id
	}
	k.id = mix(mix(hashOf(k.method), hashOf(k.name)), k.id)
	k.reach = a.reaches.of(k)
	l.call, l.parked = k, r
	if a.parked = append(a.parked, l); len(a.parked) > maxParked {
		for _, old := range a.parked[:maxParked/2] {
			old.leave()
		}
		a.parked = slices.Delete(a.parked, 0, maxParked/2)
	}
	return l
}

// leave ends the program that waits at l.
func (l *actorState) leave() {
	if l.parked != nil {
		l.parked.stop()
		l.parked = nil
	}
}

// end ends all programs of an actor.
func (a *actor) end() {
	for _, l := range a.parked {
		l.leave()
	}
	a.parked = nil
}

// after returns what an answer leads to. key is that of the answer.
func (l *actorState) after(a answer, key uint64) edge {
	if next, ok := l.next[key]; ok {
		return next
	}
	r := l.parked
	l.parked = nil
	if r == nil {
		r = l.repeat()
	}
	r.answer = a
	r.model.beliefs = nil
	next := edge{to: l.of.stands(r, &actorState{parent: l, answer: a, calls: l.calls + 1})}
	next.beliefs = r.model.beliefs
	if l.next == nil {
		l.next = make(map[uint64]edge, 1)
	}
	l.next[key] = next
	return next
}

// repeat runs the program once more up to l.
func (l *actorState) repeat() *running {
	var way []*actorState
	for at := l; at.parent != nil; at = at.parent {
		way = append(way, at)
	}
	r := l.of.start()
	for _, at := range slices.Backward(way) {
		r.repeats(at.parent.call)
		r.answer = at.answer
	}
	r.repeats(l.call)
	return r
}

// repeats lets a program run up to a call that it has made before.
func (r *running) repeats(before *call) {
	k, more := r.resume()
	for more && k.method == phaseMethod {
		k, more = r.resume()
	}
	if !more || k.method != before.method || k.name != before.name {
		panic(fmt.Sprintf("%s makes the call %v after the same answers as before, which was %v", r.of.name, k, before))
	}
}
