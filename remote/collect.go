package remote

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"time"

	"github.com/shaledb/shale/manifest"
)

// Collected says what a collection has deleted.
type Collected struct {
	Floor    uint64 // the first step that is kept
	Tables   int    // tables and sidecars
	Segments int
	Steps    int
	States   int
	Pins     int // that had expired
	Bytes    int64
}

// chooseFloor returns the step that the floor may be raised to so that everything since a time can be
// restored: the newest one that is not younger and whose state has been written. A time to come says nothing. If there is none, it returns the
// floor that there is. The owner publishes it in a step, and collects after that.
func (c *chain) chooseFloor(ctx context.Context, b Bucket, since time.Time) (uint64, error) {
	floor, now := c.state.Floor, time.Now()
	for info, err := range b.List(ctx, stateFolder, "") {
		if err != nil {
			return 0, err
		}
		name, ok := ParseName(info.Name)
		if !ok || name.Num <= floor || name.Num > c.n() {
			continue
		}
		step, err := readStep(ctx, b, c.storeID, name.Num)
		if err != nil {
			return 0, err
		}
		if step.Written.After(now) {
			continue // the clock was wrong then: those behind it say how old it is at least
		}
		if step.Written.After(since) {
			break // so are those behind it
		}
		floor = name.Num
	}
	return floor, nil
}

// putState writes the state after c's newest step, so that restores and readers need not read the steps before.
func (c *chain) putState(ctx context.Context, b Bucket) error {
	src, err := c.state.Encode(nil)
	if err != nil {
		return err
	}
	// If the name is taken, an earlier attempt or an earlier owner has written the same state.
	if err := PutObject(ctx, b, c.state.Name(), src, true); !errors.Is(err, ErrExists) {
		return err
	}
	return nil
}

// spareFiles lists the tables and sidecars that c's newest step does not name and keep does not report for: those that
// collect may delete. keep says of a number that the owner's directory has the file, or that it is uploaded, for a step that
// is not published yet.
func (c *chain) spareFiles(ctx context.Context, b Bucket, keep func(num uint64) bool) ([]Info, error) {
	named := make(map[uint64]bool)
	for f := range filesOf(c.state.Tables.Version) {
		named[f.num] = true
	}
	var spare []Info
	for info, err := range b.List(ctx, tableFolder, "") {
		if err != nil {
			return nil, fmt.Errorf("remote: collection: %w", err)
		}
		name, ok := ParseName(info.Name)
		if ok && !named[name.Num] && name.Num>>EpochShift <= c.epoch && !keep(name.Num) {
			spare = append(spare, info)
		}
	}
	return spare, nil
}

// collect deletes what nobody can need any more: no step at the floor or above, and no pin. Only the owner calls
// it, after the step with the floor is published. spare are the tables and sidecars that may be deleted. They were listed
// by spareFiles, and after that a step was published whose number this directory had not noted before. Nothing is uploaded,
// and no step published, in the meantime.
//
// An owner may be stopped here for any time and go on when it is not the owner any more. So what it
// deletes was determined by what it knew as the owner, and must be of no use to any later owner:
//
//  1. Tables, sidecars and logs of later epochs are not touched.
//  2. Those of its own epoch and of earlier ones that its newest step does not need are needed by a later owner
//     only for going back to a step above the floor, or to a pin. Both are kept.
//  3. The later owner may have this one's directory, or a copy of it, and name a table of an earlier epoch that no step has
//     named before. If the copy was made before the step behind spareFiles was noted, it is refused when that step is there.
//     Otherwise it has no file of spare: what has gone from a directory never comes back. And what the later owner uploads
//     was not there when spare was listed, since its claim stands behind that step.
//  4. The later owner needs the logs behind the newest step, too. They have higher numbers than those that are
//     deleted.
//  5. Steps and states below the floor are never needed again, because floors never sink.
//  6. Fences stay. Without them, a writer that was fenced could append again.
func collect(ctx context.Context, b Bucket, c *chain, now time.Time, spare []Info) (Collected, error) {
	k := &collection{b: b, c: c, done: Collected{Floor: c.state.Floor}, files: make(map[uint64]bool), logs: make(map[uint64]bool)}
	for _, part := range []func(context.Context) error{
		k.needOfSteps,
		func(ctx context.Context) error { return k.needOfPins(ctx, now) },
		func(ctx context.Context) error { return k.deleteFiles(ctx, spare) },
		k.deleteSegments,
		func(ctx context.Context) error { return k.deleteBelow(ctx, stepFolder, &k.done.Steps) },
		func(ctx context.Context) error { return k.deleteBelow(ctx, stateFolder, &k.done.States) },
	} {
		if err := part(ctx); err != nil {
			return k.done, fmt.Errorf("remote: collection: %w", err)
		}
	}
	return k.done, nil
}

// A collection is one call of collect.
type collection struct {
	b    Bucket
	c    *chain
	done Collected

	files    map[uint64]bool // tables and sidecars that are needed
	logs     map[uint64]bool // logs that are needed by pins
	firstLog uint64          // all logs from this one on are needed
}

// needOfSteps finds out what the steps at the floor and above need.
func (k *collection) needOfSteps(ctx context.Context) error {
	c := &chain{storeID: k.c.storeID, state: emptyState(k.c.storeID)}
	if k.done.Floor > 0 {
		var err error
		if c, err = loadChain(ctx, k.b, c.storeID, k.done.Floor); err != nil {
			return err
		}
		k.needFiles(c.state.Tables)
		k.firstLog = firstLog(c.state.Extents)
	}
	known := k.c.needs
	for c.n() < k.c.n() && (len(known) == 0 || c.n()+1 < known[0].n) {
		step, err := readStep(ctx, k.b, c.storeID, c.n()+1)
		if err != nil {
			return err
		}
		if err := c.apply(step); err != nil {
			return err
		}
		k.need(needsOf(step))
	}
	for _, needs := range known {
		if needs.n > k.done.Floor {
			k.need(needs)
		}
	}
	newest, err := readStep(ctx, k.b, c.storeID, k.c.n())
	if err != nil {
		return err
	}
	if newest.Writer != k.c.step.Writer || newest.Epoch != k.c.step.Epoch {
		return fmt.Errorf("step %d is not the one that this owner has published: %w", k.c.n(), ErrFenced)
	}
	// The steps were believed when they were published. They still are unless they are below a higher floor, and then a
	// later owner has published that.
	return k.c.lookBehind(ctx, k.b, k.c.n())
}

// firstLog returns the first of the logs that a step needs. Logs behind it are needed too: for restores to a later time,
// and for writers that look for the end of the list.
func firstLog(extents []Extent) uint64 {
	if len(extents) == 0 {
		return 0
	}
	return extents[0].Log
}

// A stepNeeds is what a step needs that the step before it does not.
type stepNeeds struct {
	n        uint64
	files    []uint64 // the tables and sidecars that it adds
	firstLog uint64
}

// needsOf returns what a step needs.
func needsOf(step *Step) stepNeeds {
	needs := stepNeeds{n: step.N, firstLog: firstLog(step.Extents)}
	if step.Edit == nil {
		return needs
	}
	for _, a := range step.Edit.Added {
		needs.files = append(needs.files, uint64(a.Table.Num))
		if a.Table.Sidecar != nil {
			needs.files = append(needs.files, uint64(a.Table.Sidecar.Num))
		}
	}
	for _, s := range step.Edit.Sidecars {
		needs.files = append(needs.files, uint64(s.Sidecar.Num))
	}
	return needs
}

// keepNeeds notes what a step of this owner needs, and forgets the steps that the state at the floor stands for.
func (c *chain) keepNeeds(step *Step) {
	if len(c.needs) > 0 && c.needs[0].n <= c.state.Floor {
		c.needs = slices.DeleteFunc(c.needs, func(s stepNeeds) bool { return s.n <= c.state.Floor })
	}
	c.needs = append(c.needs, needsOf(step))
}

// need marks what a step needs.
func (k *collection) need(needs stepNeeds) {
	for _, num := range needs.files {
		k.files[num] = true
	}
	k.firstLog = min(k.firstLog, needs.firstLog)
}

// needFiles marks the tables and sidecars of a state as needed.
func (k *collection) needFiles(s *manifest.State) {
	for t := range s.Version.Tables() {
		k.files[uint64(t.Num)] = true
		if t.Sidecar != nil {
			k.files[uint64(t.Sidecar.Num)] = true
		}
	}
}

// needOfPins finds out what the pins need, and deletes those that have expired. An expired pin keeps what it needs
// this once: while it is there, its reader may put another one in its place, which the list has not seen.
func (k *collection) needOfPins(ctx context.Context, now time.Time) error {
	pins, err := listPins(ctx, k.b, k.c.storeID)
	if err != nil {
		return err
	}
	for _, p := range pins {
		k.needFiles(p.Tables)
		for _, e := range p.Extents {
			k.logs[e.Log] = true
		}
		if p.Expires.IsZero() || now.Before(p.Expires) {
			continue
		}
		if err := k.b.Delete(ctx, p.Name()); err != nil {
			return err
		}
		k.done.Pins++
	}
	return nil
}

// deleteFiles deletes the tables and sidecars that are spare and that no step and no pin needs.
func (k *collection) deleteFiles(ctx context.Context, spare []Info) error {
	for _, info := range spare {
		if name, _ := ParseName(info.Name); k.files[name.Num] {
			continue
		}
		if err := k.delete(ctx, info, &k.done.Tables); err != nil {
			return err
		}
	}
	return nil
}

// deleteSegments deletes the segments of logs that are not needed, except for fences.
func (k *collection) deleteSegments(ctx context.Context) error {
	return k.each(ctx, segmentFolder, func(name Name, info Info) (*int, error) {
		if name.Num >= k.firstLog || k.logs[name.Num] {
			return nil, nil
		}
		if info.Size > segmentHeader {
			return &k.done.Segments, nil // a fence has no body
		}
		s, _, err := readSegmentHeader(ctx, k.b, k.c.storeID, place{name.Num, name.Offset})
		if errors.Is(err, fs.ErrNotExist) || err == nil && s.Kind == SegmentFence {
			return nil, nil
		}
		return &k.done.Segments, err
	})
}

// deleteBelow deletes the objects of a folder whose numbers are below the floor, in ascending order.
func (k *collection) deleteBelow(ctx context.Context, folder string, count *int) error {
	return k.each(ctx, folder, func(name Name, _ Info) (*int, error) {
		if name.Num >= k.done.Floor {
			return nil, errEnough
		}
		return count, nil
	})
}

// errEnough is returned by the function that each calls when it needs no more objects.
var errEnough = errors.New("enough")

// each calls fn for the objects of a folder, and deletes those for which it returns a counter. Objects whose names are not
// shale's are left alone.
func (k *collection) each(ctx context.Context, folder string, fn func(Name, Info) (*int, error)) error {
	for info, err := range k.b.List(ctx, folder, "") {
		if err != nil {
			return err
		}
		name, ok := ParseName(info.Name)
		if !ok {
			continue
		}
		count, err := fn(name, info)
		if err == errEnough {
			return nil
		}
		if err != nil {
			return err
		}
		if count == nil {
			continue
		}
		if err := k.delete(ctx, info, count); err != nil {
			return err
		}
	}
	return nil
}

// delete deletes an object, and counts it.
func (k *collection) delete(ctx context.Context, info Info, count *int) error {
	if err := k.b.Delete(ctx, info.Name); err != nil {
		return err
	}
	*count++
	k.done.Bytes += info.Size
	return nil
}
