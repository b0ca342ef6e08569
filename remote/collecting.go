package remote

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"time"
)

// A collector raises the floor and deletes what nobody needs any more. A floor is a step whose state is in
// the bucket. So the publisher writes the state of the newest step each hour, if there are new
// steps, and remembers it: a collection is due when one of them is older than Options.Retain. A
// store that is idle has one last state, one last collection, and then makes no requests.
//
// Its fields are protected by publish.mu.
type collector struct {
	looked time.Time      // when a collection was last thought of
	listed bool           // states that earlier writers have written were looked for
	states []writtenState // above the floor, by this writer, in the order of their numbers
	floor  uint64         // the number of the newest step that only says what the floor is
}

// A writtenState is a state in the bucket.
type writtenState struct {
	n    uint64
	made time.Time // the time of its step
}

// Collect deletes from the bucket what no step since Options.Retain ago and no pin needs. It does that by
// itself, when there may be something.
func (s *Store) Collect(ctx context.Context) (Collected, error) {
	if err := s.begin(); err != nil {
		return Collected{}, err
	}
	defer s.calls.Done()
	if err := s.publish.mu.take(ctx); err != nil {
		return Collected{}, err
	}
	defer s.publish.mu.release()
	if err := s.stateNewest(ctx); err != nil {
		return Collected{}, err
	}
	return s.collect(ctx)
}

// collectDue collects if it is time and there may be something to collect.
func (s *Store) collectDue(ctx context.Context) error {
	if err := s.publish.mu.take(ctx); err != nil {
		return err
	}
	defer s.publish.mu.release()
	c := &s.publish.collector
	if s.opts.Retain < 0 || time.Since(c.looked) < s.opts.testing.collect {
		return nil
	}
	if err := s.stateNewest(ctx); err != nil {
		return err
	}
	if old := len(c.states) > 0 && time.Since(c.states[0].made) >= s.opts.Retain; old || !c.listed {
		if _, err := s.collect(ctx); err != nil {
			return err
		}
	}
	c.looked = time.Now()
	return nil
}

// stateNewest writes the state of the newest step, unless it has one or says nothing but the floor.
// Requires: publish.mu.
func (s *Store) stateNewest(ctx context.Context) error {
	p := &s.publish
	n := len(p.collector.states)
	if now := p.chain.n(); now == p.collector.floor || n > 0 && p.collector.states[n-1].n == now {
		return nil
	}
	p.state = true
	return s.putState(ctx)
}

// collect raises the floor as far as it can, and deletes what is needed no more. Requires: publish.mu.
func (s *Store) collect(ctx context.Context) (Collected, error) {
	p := &s.publish
	if err := s.Err(); err != nil {
		return Collected{}, err
	}
	floor, err := p.chain.chooseFloor(ctx, s.bucket, time.Now().Add(-max(0, s.opts.Retain)))
	if err != nil {
		return Collected{}, s.superseded(ctx, err)
	}
	noted := s.notedStep()
	unpublished, err := s.localFiles()
	if err != nil {
		return Collected{}, err
	}
	spare, err := p.chain.spareFiles(ctx, s.bucket, func(num uint64) bool { return p.uploaded[num] || unpublished[num] })
	if err != nil {
		return Collected{}, err
	}
	// Before a table is deleted there must be a step that no older copy of this directory has noted. There is one already if
	// the floor was raised, unless an earlier attempt to publish it has failed.
	for floor > p.chain.state.Floor || len(spare) > 0 && p.chain.n() <= noted {
		if err := s.publishFloor(ctx, floor); err != nil {
			return Collected{}, s.superseded(ctx, err)
		}
	}
	done, err := collect(ctx, s.bucket, p.chain, time.Now(), spare)
	if err == nil {
		err = s.letParentsGo(ctx)
	}
	if err != nil {
		return done, s.superseded(ctx, err)
	}
	p.collector.listed = true
	p.collector.states = slices.DeleteFunc(p.collector.states, func(st writtenState) bool { return st.n <= done.Floor })
	s.emit(Event{Kind: EventCollected, Step: done.Floor, Objects: done.Tables + done.Segments + done.Steps + done.States + done.Pins, Bytes: done.Bytes})
	return done, nil
}

// localFiles returns the tables and sidecars of the directory. Those that no step names are named by a later one. An
// earlier process may have uploaded some of them: they must not be deleted and PUT again, because a call that deletes may
// also be done late. Files that are made meanwhile are not among them, and are not in the bucket.
func (s *Store) localFiles() (map[uint64]bool, error) {
	h, err := s.db.Hold()
	if err != nil {
		return nil, fmt.Errorf("remote: collection: %w", local(err))
	}
	defer h.Release()
	nums := make(map[uint64]bool)
	for f := range filesOf(h.State().Version) {
		nums[f.num] = true
	}
	return nums, nil
}

// superseded returns err, the error of a call that has not found something. If another writer owns the
// store, that one has deleted it, and this one is fenced. Requires: publish.mu.
func (s *Store) superseded(ctx context.Context, err error) error {
	if !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, ErrSnapshotGone) {
		return err
	}
	if behind := s.publish.chain.lookBehind(ctx, s.bucket, s.publish.chain.n()); errors.Is(behind, ErrFenced) {
		return s.fenced(behind)
	}
	return err
}

// notedStep returns the number of the last step that the directory has noted. It may not have been PUT.
func (s *Store) notedStep() uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.notes.Step
}

// publishFloor publishes a step that says nothing but the floor. Requires: publish.mu.
func (s *Store) publishFloor(ctx context.Context, floor uint64) error {
	p := &s.publish
	step := &Step{Written: time.Now(), Kind: StepPublish, Floor: floor, LastTableSeq: p.chain.step.LastTableSeq, Parents: p.chain.state.Parents}
	err := p.chain.publish(ctx, s.bucket, step, s.noteStep)
	switch {
	case errors.Is(err, ErrFenced):
		return s.fenced(err)
	case err != nil:
		return fmt.Errorf("remote: collection: %w", err) // of an earlier attempt too: it is tried again
	}
	p.collector.floor = step.N
	s.published(step, p.chain.state.Tables.Version.NumTables())
	return nil
}
