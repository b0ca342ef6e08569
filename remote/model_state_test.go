package remote

import (
	"fmt"
	"slices"
	"strings"

	"github.com/shaledb/shale/remote/internal/chain"
	"github.com/shaledb/shale/remote/internal/object"
)

// maxActors is how many actors a scenario may have.
const maxActors = 4

// A state is one that the world can be in, in so far as it matters for what can happen and for what is checked.
type state struct {
	at      *bucketState
	locals  [maxActors]*actorState // as many as there are actors
	late    []*call                // calls that may still happen; never changed in place
	faults  int                    // how many there may still be
	created *creation              // the steps and tables that were created, the last one first

	last int // index of the writer that made the last move; -1: none
	left int // how often one may still be stopped for another
}

// A creation says with which bytes an object was created for the first time.
type creation struct {
	object *entry
	before *creation
	sum    uint64 // of the ids of all
}

// first returns the object that was the first with a name, or nil.
func (c *creation) first(name string) *entry {
	for ; c != nil; c = c.before {
		if c.object.name == name {
			return c.object
		}
	}
	return nil
}

// key returns a hash that identifies the state. With 10 million states the chance that any two have the same one is one in
// 400,000.
func (s *state) key() uint64 {
	h := mix(s.at.sum, uint64(s.faults)<<32|uint64(s.left))
	if s.left < anySwitches {
		h = mix(h, uint64(s.last))
	}
	if s.created != nil {
		h = mix(h, s.created.sum)
	}
	for _, l := range s.locals {
		if l != nil {
			h = mix(h, l.id)
		}
	}
	late := uint64(0)
	for _, k := range s.late {
		late += mix(k.id, 1)
	}
	return mix(h, late)
}

// with returns what was created when an object is created, too.
func (c *creation) with(o *entry) *creation {
	if !strings.HasPrefix(o.name, object.StepFolder) && !strings.HasPrefix(o.name, object.TableFolder) || c.first(o.name) != nil {
		return c
	}
	next := &creation{object: o, before: c, sum: mix(o.id, 2)}
	if c != nil {
		next.sum += c.sum
	}
	return next
}

// stops reports whether an actor is stopped when actor i goes on.
func (s *state) stops(i int) bool {
	return s.last >= 0 && s.last != i && s.locals[s.last].call != nil
}

// believes checks what an actor believes since its last answer.
func (s *state) believes(before *actorState, e edge) error {
	now := e.to
	if now.broken != nil {
		return now.broken
	}
	for _, b := range e.beliefs {
		if first := s.created.first(b.name); first == nil || first.bytes != b.bytes {
			return fmt.Errorf("%s of epoch %d, writer %x, is believed but was not the first of its name", b.name, b.epoch, b.writer)
		}
	}
	if len(now.claims) == len(before.claims) {
		return nil
	}
	for _, l := range s.locals {
		if l != nil && l != now && slices.Contains(l.claims, now.claims[len(now.claims)-1]) {
			return fmt.Errorf("two writers own epoch %d", now.claims[len(now.claims)-1])
		}
	}
	return nil
}

// check returns what is wrong in a state.
func (s *state) check() error {
	c := s.at
	if !c.checked {
		c.records, c.err = readStore(c.mem())
		c.checked = true
	}
	if c.err != nil {
		return c.err
	}
	for _, l := range s.locals {
		if l == nil {
			continue
		}
		for _, r := range l.acked {
			if !slices.Contains(c.records, r) {
				return fmt.Errorf("record %s was acknowledged and is lost; there are %v", r, c.records)
			}
		}
		for _, p := range l.pins {
			if err := c.checkPin(p); err != nil {
				return err
			}
		}
	}
	return nil
}

// object.CheckPin returns an error if something is missing that a pin keeps.
func (c *bucketState) checkPin(p *Pin) error {
	err, known := c.pins[p]
	if known {
		return err
	}
	if there := c.find(p.Name()); there != nil || p.Expires.IsZero() { // otherwise it has expired
		var kept *object.State
		if kept, _, err = chain.PinnedState(ctxModel, c.mem(), p); err == nil {
			err = checkNeeded(c.mem(), kept, true)
		}
		if err != nil {
			err = fmt.Errorf("pin %s of step %d: %w", p.Label, p.N, err)
		}
	}
	if c.pins == nil {
		c.pins = make(map[*Pin]error)
	}
	c.pins[p] = err
	return err
}
