package remote

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"time"

	"github.com/shaledb/shale"
	"github.com/shaledb/shale/remote/internal/chain"
	"github.com/shaledb/shale/remote/internal/collect"
	"github.com/shaledb/shale/remote/internal/object"
	"github.com/shaledb/shale/remote/internal/tablefs"
)

// When a writer collects, and what it must know for that. Which objects go, and why they may, is in
// the package collect.

// A collector raises the floor and deletes what nobody needs any more. A floor is a step whose state is in
// the bucket. So the owner writes the state of the newest step each hour, if there are new
// steps, and remembers it: a collection is due when one of them is older than Options.Retain. A
// store that is idle has one last state, a few collections, and then only looks for its tables.
//
// What steps need is found out while no step is made. The rest takes a request an object, and does not hold up anybody.
type collector struct {
	mu lock // held during a collection; taken before publish.mu

	// Protected by publish.mu.
	looked time.Time       // when a collection was last thought of, by this process or an earlier one
	listed bool            // a collection has looked for states that earlier writers have written
	states []writtenState  // above the floor, by this writer, in the order of their numbers; the first one may be by an earlier one
	floor  uint64          // the number of the newest step that only says what the floor is
	fences map[string]bool // segments that are known to be fences
}

// A writtenState is a state in the bucket.
// age takes its time from made, so a clock on the wall that is set forward makes none of its own
// states old.
type writtenState struct {
	n    uint64
	made time.Time // when its step was made, by the monotonic clock of this process
}

// collected returns about when the bucket was collected last, or its first step was written: then the floor became older
// than Options.Retain.
func (o *opening) collected(c *chain.Chain) time.Time {
	now := time.Now()
	floor, err := chain.ReadStep(o.ctx, o.b, o.id, max(c.Step.Floor, 1))
	if err != nil || floor.Written.After(now) {
		return time.Time{} // a clock was wrong, or somebody deletes steps: a collection looks
	}
	if t := floor.Written.Add(o.opts.Retain); t.Before(now) {
		return t
	}
	return now
}

// Collect deletes from the bucket what no step since [Options.Retain] ago and no pin needs. It does that by
// itself, when there may be something.
//
// One call raises the oldest point that can be restored by two hours, or two states, at most: a clock that is wrong
// does not take the history away.
func (s *Store) Collect(ctx context.Context) (Collected, error) {
	if err := s.begin(); err != nil {
		return Collected{}, err
	}
	defer s.calls.Done()
	return s.collect(ctx, true)
}

// CollectDue is Collect if nobody has done it for an hour and there may be something to delete. A Store does that by itself;
// a program that has its store open for less than an hour each time calls it before Close.
func (s *Store) CollectDue(ctx context.Context) (Collected, error) {
	if err := s.begin(); err != nil {
		return Collected{}, err
	}
	defer s.calls.Done()
	return s.collect(ctx, false)
}

// collectLoop collects each hour, the first time after first. A collection that fails is tried again soon: what is left of it
// costs room and nothing else.
func (s *Store) collectLoop(ctx context.Context, first time.Duration) {
	retry, wait := backoff{}, first
	for {
		if !waitFor(ctx, wait, nil) {
			return
		}
		_, err := s.collect(ctx, false)
		if ctx.Err() != nil {
			return
		}
		s.report("collect", err)
		if retry.tried(err); err == nil {
			wait = s.opts.testing.collect
		} else {
			wait = retry.delay()
		}
	}
}

// collect raises the floor as far as it can, and deletes the objects that nobody needs. Without always it
// does that only if it is time, and there may be something to collect.
func (s *Store) collect(ctx context.Context, always bool) (Collected, error) {
	p := &s.publish
	c := &p.collector
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(s.loops, cancel)() // Close does not wait for all of it
	if err := c.mu.take(ctx); err != nil {
		return Collected{}, err
	}
	defer c.mu.release()
	k, err := s.choose(ctx, always)
	for errors.Is(err, chain.ErrOtherStep) { // it is the newest step now, and may need other objects
		k, err = s.choose(ctx, always)
	}
	if err != nil || k == nil {
		return Collected{}, err
	}
	// This takes a request for each object, and no lock of the publisher is held. Collection says
	// why that does no harm to what is uploaded meanwhile.
	done, err := k.Delete(ctx, time.Now())
	if lerr := p.mu.take(ctx); lerr != nil {
		return done, errors.Join(err, lerr)
	}
	defer p.mu.release()
	for _, name := range k.Fences {
		c.fences[name] = true
	}
	if k.Refusal != nil && !always {
		err = nil // the floor is raised, which is all that another process needs: see the function Collect
	}
	if err != nil {
		return done, s.superseded(ctx, err)
	}
	// Only a collection that has succeeded counts. One that has failed is due again soon.
	c.looked, c.listed = time.Now(), true
	c.states = slices.DeleteFunc(c.states, func(st writtenState) bool { return st.n <= done.Floor })
	if k.Next != nil && (len(c.states) == 0 || k.Next.N < c.states[0].n) {
		c.states = slices.Insert(c.states, 0, writtenState{k.Next.N, k.Next.Written})
	}
	s.emit(Event{Kind: EventCollected, Step: done.Floor, Objects: done.Tables + done.Segments + done.Steps + done.States + done.Pins, Bytes: done.Bytes, Err: k.Refusal})
	return done, nil
}

// choose raises the floor and finds out what may be deleted. It returns nil if it is not time. Requires: collector.mu.
func (s *Store) choose(ctx context.Context, always bool) (*collect.Collection, error) {
	p := &s.publish
	c := &p.collector
	if err := p.mu.take(ctx); err != nil {
		return nil, err
	}
	defer p.mu.release()
	if !always && (s.opts.Retain < 0 || time.Since(c.looked) < s.opts.testing.collect) {
		return nil, nil
	}
	if !always && !c.listed {
		raised, err := s.raised(ctx)
		if err != nil {
			return nil, s.superseded(ctx, err)
		}
		if since := time.Since(raised); since >= 0 && since < s.opts.testing.collect {
			c.looked = raised
			return nil, nil
		}
	}
	if err := errors.Join(s.Err(), s.stateNewest(ctx)); err != nil {
		return nil, err
	}
	if old := len(c.states) > 0 && time.Since(c.states[0].made) >= s.opts.Retain; !always && !old && c.listed {
		c.looked = time.Now()
		return nil, nil
	}
	floor, next, err := collect.ChooseFloor(ctx, s.bucket, p.chain, max(0, s.opts.Retain), s.age)
	if err != nil {
		return nil, s.superseded(ctx, err)
	}
	// The order is that of rule 3 of Collection: the number that was noted last, the files of the
	// directory, the tables of the bucket, and then a step with a number above the one that was
	// noted.
	noted := s.notedStep()
	unpublished, err := s.localFiles()
	if err != nil {
		return nil, err
	}
	spare, err := collect.SpareFiles(ctx, s.bucket, p.chain, func(num uint64) bool {
		// An iterator may read a state that needs a table which the newest one lacks, and which was evicted.
		return p.uploaded[num] || unpublished[num] || s.evicting != nil && shale.ShippingOf(s.db).Needs(num)
	})
	if err != nil {
		return nil, err
	}
	// Before a table is deleted there must be a step that no older copy of this directory has noted. There is one already if
	// the floor was raised, unless an earlier attempt to publish it has failed.
	for floor > p.chain.State.Floor || len(spare) > 0 && p.chain.N() <= noted {
		if err := s.publishFloor(ctx, floor); err != nil {
			return nil, s.superseded(ctx, err)
		}
	}
	if c.fences == nil {
		c.fences = make(map[string]bool)
	}
	k, err := collect.Choose(ctx, s.bucket, p.chain, spare, c.fences)
	if err != nil {
		return nil, s.superseded(ctx, err)
	}
	k.Next = next
	return k, nil
}

// raised returns when an earlier process raised the floor, by the clock of then; the zero Time: none did
// since this one has, or none ever. Programs that are called every few minutes, with a clock that is far
// ahead, would raise it each time otherwise. All steps above the floor are there, and floors never sink, so
// it takes some requests. Requires: publish.mu.
func (s *Store) raised(ctx context.Context) (at time.Time, err error) {
	floor := s.publish.chain.State.Floor
	if floor == 0 {
		return at, nil
	}
	last := s.publish.chain.Step
	for low, high := floor, s.publish.chain.N(); low < high; {
		mid := low + (high-low)/2
		step, err := chain.ReadStep(ctx, s.bucket, s.id, mid)
		if err != nil {
			return at, err
		}
		if step.Floor < floor {
			low = mid + 1
		} else {
			high, last = mid, step
		}
	}
	if last.Epoch < s.epoch {
		at = last.Written
	}
	return at, nil
}

// age returns how old a step is, for collect.ChooseFloor. Of a step whose state this process has written, the
// monotonic clock says it, whatever was done to the clock on the wall. Of others only the times say it that
// they were written with.
func (s *Store) age(step *object.Step) time.Duration {
	for _, st := range s.publish.collector.states {
		if st.n == step.N {
			return time.Since(st.made)
		}
	}
	return time.Since(step.Written)
}

// stateNewest writes the state of the newest step, unless it has one or says nothing but the floor.
// Requires: publish.mu.
func (s *Store) stateNewest(ctx context.Context) error {
	p := &s.publish
	n := len(p.collector.states)
	if now := p.chain.N(); now == p.collector.floor || n > 0 && p.collector.states[n-1].n == now {
		return nil
	}
	p.state = true
	return s.putState(ctx, s.bucket)
}

// localFiles returns the tables and sidecars of the directory. Those that no step names are named by a later one. An
// earlier process may have uploaded some of them: they must not be deleted and PUT again, because a call that deletes may
// also be done late. Files that are made meanwhile are not among them, and are not in the bucket.
func (s *Store) localFiles() (map[uint64]bool, error) {
	state, err := s.state()
	if err != nil {
		return nil, fmt.Errorf("remote: collection: %w", err)
	}
	return tablefs.NumsOf(state.Version), nil
}

// superseded returns err, the error of a call that has not found something, or has found steps behind the newest one. If
// another writer owns the store, this one is fenced. If it is an own step, the error wraps
// chain.ErrOtherStep. Requires: publish.mu.
func (s *Store) superseded(ctx context.Context, err error) error {
	if !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, ErrSnapshotGone) && !errors.Is(err, ErrFenced) || s.Err() != nil {
		return err
	}
	c := s.publish.chain
	behind := c.LookBehind(ctx, s.bucket, c.N())
	if behind == nil {
		return err
	}
	if !errors.Is(behind, ErrFenced) {
		return behind
	}
	// A PUT may arrive after all attempts to publish a step were given up.
	switch step, rerr := chain.ReadStep(ctx, s.bucket, s.id, c.N()+1); {
	case rerr != nil && !errors.Is(rerr, fs.ErrNotExist):
		return rerr
	case rerr != nil || step.Epoch != c.Epoch || step.Writer != c.Writer:
		return s.fenced(behind)
	default:
		if aerr := c.Apply(step); aerr != nil {
			return aerr
		}
		s.tellNewest()
		return fmt.Errorf("%w: %w", chain.ErrOtherStep, err)
	}
}

// tellNewest passes the number of the newest step to the ledger and the status, and so to waiting writers.
// Requires: publish.mu. Writers of a strict store and of one with MaxLag wait for this.
func (s *Store) tellNewest() {
	now := s.publish.chain.Step
	s.publishedSeq.Store(now.LastTableSeq)
	s.ledger.published(now.LastTableSeq)
	s.published(now, s.publish.chain.State.Tables.Version.NumTables())
	s.named.Store(s.publish.chain.State.Tables.Version)
	s.evicting.wake()
}

// notedStep returns the number of the last step that the directory has noted. It may not have been PUT.
func (s *Store) notedStep() uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.notes.Step
}

// publishFloor publishes a step that raises the floor and changes nothing else. It returns the errors of
// appendStep. Requires: publish.mu.
func (s *Store) publishFloor(ctx context.Context, floor uint64) error {
	p := &s.publish
	step := &object.Step{Written: time.Now(), Kind: object.StepPublish, Floor: floor, LastTableSeq: p.chain.Step.LastTableSeq}
	err := s.appendStep(ctx, s.bucket, step)
	// stateNewest writes no state for such a step. An idle store would otherwise write states and
	// raise floors for ever.
	if err == nil {
		p.collector.floor = step.N
	}
	return err
}
