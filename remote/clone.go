package remote

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/shaledb/shale/manifest"
)

// CloneOptions say where a clone finds what it does not copy.
type CloneOptions struct {
	// Prefix is the place of the parent's objects, as ReaderOptions.Parent and Options.Parent get it later: 1 to
	// 1,024 bytes of UTF-8.
	Prefix string
	// Parent returns the bucket of a parent of the parent, which must be given if the parent is a clone itself.
	Parent func(prefix string) (Bucket, error)
	// Owner says in the pin that keeps the parent's objects who the clone is, for people.
	Owner string
}

// Clone makes the state of a pin of one bucket the first step of another one, which must be empty. Nothing is
// copied: the clone reads the parent's tables and logs where they are, and a pin of its own keeps them there. Its
// writer's compactions let go of them, one after the other, and with the last the pin goes. Both stores may be
// written after that, and neither sees the other's writes.
//
// If Clone fails or is ended, it can be called again.
func Clone(ctx context.Context, from Bucket, pin string, to Bucket, o CloneOptions) error {
	if err := clone(ctx, retrying(from), pin, retrying(to), o); err != nil {
		return fmt.Errorf("remote: clone pin %q: %w", pin, err)
	}
	return nil
}

// clone carries out the steps of Clone:
//
//  1. It reads the pin, and looks whether the other bucket is free.
//  2. It pins the same state for the clone: in the parent, and in each parent of that which has tables of it.
//  3. It writes the identity and then the step. Of two clones to one bucket one fails at the step.
func clone(ctx context.Context, from Bucket, pin string, to Bucket, o CloneOptions) error {
	if err := checkText("prefix", o.Prefix, maxPrefix); err != nil {
		return err
	}
	id, err := readIdentity(ctx, from)
	if err != nil {
		return err
	}
	p, err := findPin(ctx, from, id.StoreID, pin)
	if err != nil {
		return err
	}
	if err := checkFree(ctx, to, id.StoreID); err != nil {
		return err
	}
	parents, undo, err := pinParents(ctx, from, p, o)
	if err == nil {
		err = putClone(ctx, to, p, parents)
	}
	if err != nil {
		undo()
	}
	return err
}

// checkFree returns an error if a bucket has a store, unless it is a clone that was begun.
func checkFree(ctx context.Context, b Bucket, storeID uint64) error {
	id, err := readIdentity(ctx, b)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return err
	case id.StoreID != storeID:
		return fmt.Errorf("the bucket for the clone: %w", ErrOtherStore)
	}
	if n, err := newestStep(ctx, b, 0); err != nil || n > 0 {
		return errors.Join(err, errors.New("the bucket for the clone has a store already: give the clone another prefix"))
	}
	return nil
}

// cloneEpoch returns the epoch of a clone's first step: no file of the parent, or of its parents, has a number of the
// next one.
func cloneEpoch(p *Pin) uint64 {
	epoch := max(uint64(p.Tables.NextFileNum), lastLog(p.Extents))>>EpochShift + 1
	if n := len(p.Parents); n > 0 {
		epoch = max(epoch, p.Parents[n-1].Below>>EpochShift)
	}
	return epoch
}

// lastLog returns the number of the last log, or 0.
func lastLog(extents []Extent) uint64 {
	if len(extents) == 0 {
		return 0
	}
	return extents[len(extents)-1].Log
}

// pinParents pins the state of p in all buckets that have a part of it, and returns them as the parents of a clone. undo
// removes these pins.
func pinParents(ctx context.Context, from Bucket, p *Pin, o CloneOptions) (parents []Parent, undo func(), err error) {
	var undos []func()
	undo = func() {
		for _, fn := range undos {
			fn()
		}
	}
	add := func(b Bucket, old *Pin, parent Parent) error {
		next, err := old.again(ctx, b, o.Owner)
		if err != nil {
			return err
		}
		// If this fails, the pin costs room and does no harm.
		undos = append(undos, func() { _ = unpin(context.WithoutCancel(ctx), b, next.Label) })
		parent.Pin = next.Label
		parents = append(parents, parent)
		return nil
	}
	for i, parent := range p.Parents {
		if !uses(&p.State, i) {
			continue
		}
		if o.Parent == nil {
			return nil, undo, fmt.Errorf("the parent is itself a clone of %q: CloneOptions.Parent must say where that is", parent.Prefix)
		}
		b, err := o.Parent(parent.Prefix)
		if err != nil {
			return nil, undo, fmt.Errorf("the parent %q: %w", parent.Prefix, err)
		}
		old, err := readPin(ctx, retrying(b), p.StoreID, parent.Pin)
		if err == nil {
			err = add(retrying(b), old, parent)
		}
		if err != nil {
			return nil, undo, fmt.Errorf("the pin of the parent %q: %w", parent.Prefix, err)
		}
	}
	return parents, undo, add(from, p, Parent{Below: (cloneEpoch(p) + 1) << EpochShift, Prefix: o.Prefix})
}

// uses reports whether a state needs a file of one of its parents.
func uses(s *State, i int) bool {
	from := uint64(0)
	if i > 0 {
		from = s.Parents[i-1].Below
	}
	in := func(num uint64) bool { return num >= from && num < s.Parents[i].Below }
	for f := range filesOf(s.Tables.Version) {
		if in(f.num) {
			return true
		}
	}
	return slices.ContainsFunc(s.Extents, func(e Extent) bool { return in(e.Log) && e.Log >= uint64(s.Tables.MinLog) })
}

// again makes another pin of the same state, which never expires. The old one is looked for afterwards: if it is still
// there, every collection sees one of the two.
func (p *Pin) again(ctx context.Context, b Bucket, owner string) (*Pin, error) {
	next := *p
	next.Label = pinLabel(fmt.Sprintf("clone-%016x", rand.Uint64()), rand.Uint64N(1<<63))
	next.Owner, next.Expires = owner, time.Time{}
	if err := next.put(ctx, b); err != nil {
		return nil, err
	}
	_, err := b.Stat(ctx, p.Name())
	if errors.Is(err, fs.ErrNotExist) || err == nil && !p.Expires.IsZero() && !time.Now().Before(p.Expires) {
		err = checkFloorOf(ctx, b, p.StoreID, p.N, p.N)
	}
	if err := next.keepIf(ctx, b, err); err != nil {
		return nil, err
	}
	return &next, nil
}

// putClone writes the first objects of a clone.
func putClone(ctx context.Context, to Bucket, p *Pin, parents []Parent) error {
	now := time.Now()
	id, err := (&Identity{StoreID: p.StoreID, Created: now}).Encode(nil)
	if err != nil {
		return err
	}
	if err := PutObject(ctx, to, IdentityName, id, true); err != nil && !errors.Is(err, ErrExists) {
		return err
	}
	edit := &manifest.Edit{NextFileNum: p.Tables.NextFileNum, LastSeq: p.Tables.LastSeq, MinLog: p.Tables.MinLog}
	for level := range p.Tables.Version.Levels {
		for _, run := range p.Tables.Version.Levels[level].Runs {
			for _, t := range run.Tables {
				edit.Added = append(edit.Added, manifest.Added{Level: level, Run: run.ID, Table: t})
			}
		}
	}
	step := &Step{
		StoreID: p.StoreID, N: 1, Epoch: cloneEpoch(p), Writer: rand.Uint64() | 1, Written: now, Kind: StepPublish,
		Edit: edit, Extents: cloneExtents(p.Extents), LastTableSeq: p.inTables(), Parents: parents,
	}
	src, err := step.Encode(nil)
	if err != nil {
		return err
	}
	if err := PutObject(ctx, to, step.Name(), src, true); err != nil {
		return err
	}
	state := emptyState(p.StoreID)
	if err := state.apply(step); err != nil {
		return err
	}
	if src, err = state.Encode(nil); err != nil {
		return err
	}
	return PutObject(ctx, to, state.Name(), src, false)
}

// cloneExtents returns the extents of a clone's first step. Its list of segments goes on behind the last one, in its
// own bucket, whatever stands there in the parent's.
func cloneExtents(extents []Extent) []Extent {
	extents = slices.Clone(extents)
	if n := len(extents); n > 0 {
		extents[n-1].Sealed = false
	}
	return extents
}

// inTables returns a sequence number up to which the tables of a state have everything. That of the entries alone does
// not say it, because a compaction sets the numbers of old entries to 0.
func (s *State) inTables() uint64 {
	seq := uint64(0)
	for t := range s.Tables.Version.Tables() {
		seq = max(seq, uint64(t.MaxSeq))
	}
	for _, e := range s.Extents {
		if e.Log < uint64(s.Tables.MinLog) {
			seq = max(seq, e.LastSeq)
		}
	}
	return seq
}

// releaseParents gives up the parents of a clone that nothing needs any more: no step at the floor or above, and no pin. It removes
// their pins and returns the parents that are left, for the next step. Only the owner calls it, after a collection.
func releaseParents(ctx context.Context, b Bucket, c *chain, parent func(prefix string) (Bucket, error)) ([]Parent, error) {
	if len(c.state.Parents) == 0 {
		return nil, nil
	}
	needed := make(map[string]bool) // by prefix and pin
	need := func(s *State) {
		for i, p := range s.Parents {
			if uses(s, i) {
				needed[p.Prefix+"\x00"+p.Pin] = true
			}
		}
	}
	at := &chain{storeID: c.storeID, state: emptyState(c.storeID)}
	if c.state.Floor > 0 {
		var err error
		if at, err = loadChain(ctx, b, c.storeID, c.state.Floor); err != nil {
			return nil, err
		}
	}
	for need(at.state); at.n() < c.n(); need(at.state) {
		step, err := readStep(ctx, b, c.storeID, at.n()+1)
		if err != nil {
			return nil, err
		}
		if err := at.apply(step); err != nil {
			return nil, err
		}
	}
	pins, err := listPins(ctx, b, c.storeID)
	if err != nil {
		return nil, err
	}
	for _, p := range pins {
		need(&p.State)
	}
	var left []Parent
	for _, p := range c.state.Parents {
		if needed[p.Prefix+"\x00"+p.Pin] || parent == nil {
			left = append(left, p)
			continue
		}
		from, err := parent(p.Prefix)
		if err != nil {
			return nil, fmt.Errorf("the parent %q: %w", p.Prefix, err)
		}
		if err := unpin(ctx, retrying(from), p.Pin); err != nil {
			return nil, fmt.Errorf("the pin of the parent %q: %w", p.Prefix, err)
		}
	}
	return left, nil
}

// letParentsGo gives up the parents of a clone that nothing needs any more, after a collection. Requires: publish.mu.
func (s *Store) letParentsGo(ctx context.Context) error {
	p := &s.publish
	left, err := releaseParents(ctx, s.bucket, p.chain, s.opts.Parent)
	if err != nil || len(left) == len(p.chain.state.Parents) {
		return err
	}
	step := &Step{Written: time.Now(), Kind: StepPublish, LastTableSeq: p.chain.step.LastTableSeq, Parents: left}
	err = p.chain.publish(ctx, s.bucket, step, s.noteStep)
	if errors.Is(err, ErrFenced) {
		return s.fenced(err)
	}
	if err != nil {
		return fmt.Errorf("remote: give up the parent of a clone: %w", err)
	}
	p.collector.floor = step.N // it is no reason for another collection
	s.published(step, p.chain.state.Tables.Version.NumTables())
	return nil
}
