// Package collect finds out what no step and no pin in a bucket needs, and deletes that. It says why what an
// owner chose may be deleted even when it is not the owner any more: see Collection.
package collect

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/shaledb/shale/remote/internal/bucket"
	"github.com/shaledb/shale/remote/internal/buckets"
	"github.com/shaledb/shale/remote/internal/chain"
	"github.com/shaledb/shale/remote/internal/object"
	"github.com/shaledb/shale/remote/internal/tablefs"
)

// Deleted says what a collection has deleted: see remote.Collected.
// After an error it says what was deleted up to there.
type Deleted struct {
	Floor    uint64 // the first step that is kept
	Tables   int    // tables and sidecars
	Segments int
	Steps    int
	States   int
	Pins     int // that had expired
	Bytes    int64
}

const (
	// raiseStates and raiseSpan limit how far one collection raises the floor: by two states, or by all that were written
	// within two hours, whichever is more. So a clock that is wrong at one collection takes two hours of the history away
	// at most, and a collection each hour still keeps up with the states that are written.
	raiseStates = 2
	raiseSpan   = 2 * time.Hour
)

// ChooseFloor returns the step that the floor may be raised to so that everything younger than retain can be restored: the
// newest one that is not younger and whose state has been written, within raiseStates and raiseSpan. age says how old a step
// is; it is negative if the clock was wrong when the step was written, which says nothing. If there is none, ChooseFloor
// returns the floor that there is. The owner publishes it in a step, and collects after that. next is the
// step behind the floor that may be the next one: nil if there is none yet.
func ChooseFloor(ctx context.Context, b bucket.Bucket, c *chain.Chain, retain time.Duration, age func(*object.Step) time.Duration) (floor uint64, next *object.Step, err error) {
	floor = c.State.Floor
	raised, first := 0, time.Duration(0)
	for info, err := range b.List(ctx, object.StateFolder, "") {
		if err != nil {
			return 0, nil, err
		}
		name, ok := object.ParseName(info.Name)
		if !ok || name.Num <= floor || name.Num > c.N() {
			continue
		}
		step, err := chain.ReadStep(ctx, b, c.StoreID, name.Num)
		if err != nil {
			return 0, nil, err
		}
		old := age(step)
		if old < 0 {
			continue // those behind it say how old it is at least
		}
		// raiseSpan is measured from the first state that the floor may be raised to.
		if raised++; raised == 1 {
			first = old
		}
		if old < retain || raised > raiseStates && first-old > raiseSpan {
			return floor, step, nil // it is too young, and so are those behind it; or that is enough for this time
		}
		floor = name.Num
	}
	return floor, nil, nil
}

// SpareFiles lists the tables and sidecars that c's newest step does not name and keep does not report for: those that
// collect may delete. keep says of a number that the owner's directory has the file, or that it is uploaded, for a step that
// is not published yet.
func SpareFiles(ctx context.Context, b bucket.Bucket, c *chain.Chain, keep func(num uint64) bool) ([]bucket.Info, error) {
	named := tablefs.NumsOf(c.State.Tables.Version)
	var spare []bucket.Info
	for info, err := range b.List(ctx, object.TableFolder, "") {
		if err != nil {
			return nil, fmt.Errorf("remote: collection: %w", err)
		}
		name, ok := object.ParseName(info.Name)
		if ok && !named[name.Num] && name.Num>>object.EpochShift <= c.Epoch && !keep(name.Num) {
			spare = append(spare, info)
		}
	}
	return spare, nil
}

// A Collection is what one owner deletes: choose finds out what steps need, and delete deletes the rest.
//
// An owner may be stopped between the two, or in the midst of delete, for any time, and go on when it is not the owner any
// more. So what it deletes was determined by what it knew as the owner, and must be of no use to any later owner. For the
// same reasons it is of no use to this one, which may upload and publish while it deletes:
//
//  1. Tables, sidecars and logs of later epochs are not touched.
//  2. Those of its own epoch and of earlier ones that its newest step does not need are needed by a later owner
//     only for going back to a step above the floor, or to a pin. Both are kept.
//  3. The later owner may have this one's directory, or a copy of it, and name a table of an earlier epoch that no step has
//     named before. If the copy was made before the step behind SpareFiles was noted, it is refused when that step is there.
//     Otherwise it has no file of spare: what has gone from a directory never comes back. And what the later owner uploads
//     was not there when spare was listed, since its claim stands behind that step.
//  4. The later owner needs the logs behind the newest step, too. They have higher numbers than those that are
//     deleted.
//  5. Steps and states below the floor are never needed again but by pins, because floors never sink.
//  6. Fences stay. Without them, a writer that was fenced could append again.
type Collection struct {
	b     bucket.Bucket
	c     *chain.Chain
	spare []bucket.Info
	known map[string]bool // fences
	Next  *object.Step    // see ChooseFloor

	files    map[uint64]bool // tables and sidecars that are needed
	logs     map[uint64]bool // logs that are needed by pins
	pinned   [][2]uint64     // the first and the last step that a pin needs
	firstLog uint64          // all logs from this one on are needed

	garbage []garbage

	mu      sync.Mutex // protects the following fields while objects are deleted
	done    Deleted
	Fences  []string // those that were met
	Refusal error    // of a DELETE
}

// A garbage is an object that nobody needs, or a segment without a body, which may be a fence.
// A pin has no size here, because it was read and not listed: its bytes are not counted.
type garbage struct {
	bucket.Info
	name  object.Name
	count *int // in deleted
}

// Choose finds out what the steps at the floor and above need. Only the owner calls
// it, after the step with the floor is published. spare are the tables and sidecars that may be deleted. They were listed
// by SpareFiles, and after that a step was published whose number this directory had not noted before. fences are segments
// that are known to be fences. Nothing is uploaded, and no step published, until it returns.
func Choose(ctx context.Context, b bucket.Bucket, c *chain.Chain, spare []bucket.Info, fences map[string]bool) (*Collection, error) {
	k := &Collection{
		b: b, c: c, spare: spare, known: fences,
		done: Deleted{Floor: c.State.Floor}, files: make(map[uint64]bool), logs: make(map[uint64]bool),
	}
	if err := k.needOfSteps(ctx); err != nil {
		return nil, fmt.Errorf("remote: collection: %w", err)
	}
	return k, nil
}

// Delete finds out what the pins need, and deletes what nobody needs, several objects at the same time.
func (k *Collection) Delete(ctx context.Context, now time.Time) (Deleted, error) {
	// The pins are listed after the floor was published, and before anything is deleted. That is
	// what a pin relies on: docs/REMOTE.md, section 13, rule 1 of deletion.
	err := k.needOfPins(ctx, now)
	if err == nil {
		err = k.list(ctx)
	}
	if err == nil {
		err = k.c.Each(ctx, len(k.garbage), func(ctx context.Context, i int) error { return k.deleteOne(ctx, k.garbage[i]) })
	}
	if err != nil {
		err = fmt.Errorf("remote: collection: %w", err)
	}
	return k.done, err
}

// list lists what nobody needs.
func (k *Collection) list(ctx context.Context) error {
	for _, info := range k.spare {
		if name, _ := object.ParseName(info.Name); !k.files[name.Num] {
			k.garbage = append(k.garbage, garbage{info, name, &k.done.Tables})
		}
	}
	for _, f := range []struct {
		folder string
		count  *int
		until  uint64 // neither this number is garbage nor those behind it
	}{
		{object.SegmentFolder, &k.done.Segments, k.firstLog}, {object.StepFolder, &k.done.Steps, k.done.Floor}, {object.StateFolder, &k.done.States, k.done.Floor},
	} {
		for info, err := range k.b.List(ctx, f.folder, "") {
			if err != nil {
				return err
			}
			name, ok := object.ParseName(info.Name)
			// A list is in the order of numbers, so this object and all behind it are kept.
			if ok && name.Num >= f.until {
				break
			}
			if ok && !k.isPinned(name) && !k.known[info.Name] {
				k.garbage = append(k.garbage, garbage{info, name, f.count})
			}
		}
	}
	return nil
}

// deleteOne deletes an object, unless it is a fence. A segment without a body may be one, which only its
// header says. A DELETE that is refused is remembered apart: the owner goes on without collecting then, and
// another process collects.
func (k *Collection) deleteOne(ctx context.Context, g garbage) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if g.name.Kind == object.KindSegment && g.Size == object.SegmentHeader {
		switch s, err := chain.ReadHead(ctx, k.b, k.c.StoreID, object.Position{Log: g.name.Num, Offset: g.name.Offset}); {
		case errors.Is(err, fs.ErrNotExist):
			return nil
		case err != nil:
			return err
		case s.Kind == object.SegmentFence:
			k.mu.Lock()
			defer k.mu.Unlock()
			k.Fences = append(k.Fences, g.Info.Name)
			return nil
		}
	}
	// The call may take effect late, or twice. Nothing that was garbage once is ever needed or made
	// again, so it does no harm: docs/REMOTE.md, section 13, rule 5 of deletion.
	err := k.b.Delete(ctx, g.Info.Name)
	k.mu.Lock()
	defer k.mu.Unlock()
	if buckets.Refused(err) {
		k.Refusal = err
	}
	if err != nil {
		return err
	}
	*g.count++
	k.done.Bytes += g.Size
	return nil
}

// needOfSteps finds out what the steps at the floor and above need.
func (k *Collection) needOfSteps(ctx context.Context) error {
	c := &chain.Chain{StoreID: k.c.StoreID, State: object.EmptyState(k.c.StoreID), AtOnce: k.c.AtOnce}
	if k.done.Floor > 0 {
		var err error
		if c, err = chain.LoadChain(ctx, k.b, c.StoreID, k.done.Floor); err != nil {
			return err
		}
		c.AtOnce = k.c.AtOnce
		maps.Copy(k.files, tablefs.NumsOf(c.State.Tables.Version))
		k.firstLog = chain.FirstLog(c.State.Extents)
	}
	// The owner remembers what its own steps need. Only those between the floor and the first of
	// these are read.
	known := k.c.Needs
	for c.N() < k.c.N() && (len(known) == 0 || c.N()+1 < known[0].N) {
		until := k.c.N()
		if len(known) > 0 {
			until = known[0].N - 1
		}
		if err := c.Advance(ctx, k.b, min(until, c.N()+chain.CallsAtOnce), k.need); err != nil {
			return err
		}
	}
	for _, needs := range known {
		if needs.N > k.done.Floor {
			k.need(needs)
		}
	}
	// What was chosen is right only if the caller still is the owner: its newest step must stand
	// where it has put it, with nothing behind it.
	newest, err := chain.ReadStep(ctx, k.b, c.StoreID, k.c.N())
	if err != nil {
		return err
	}
	if newest.Writer != k.c.Step.Writer || newest.Epoch != k.c.Step.Epoch {
		return fmt.Errorf("step %d is not the one that this owner has published: %w", k.c.N(), chain.ErrFenced)
	}
	// The steps were believed when they were published. They still are unless they are below a higher floor, and then a
	// later owner has published that.
	return k.c.LookBehind(ctx, k.b, k.c.N())
}

// need marks what a step needs.
func (k *Collection) need(needs chain.StepNeeds) {
	for _, num := range needs.Files {
		k.files[num] = true
	}
	k.firstLog = min(k.firstLog, needs.FirstLog)
}

// needOfPins finds out what the pins need, one after the other, and chooses those that have expired. An
// expired pin keeps what it needs this once: while it is there, its reader may put another one in its place,
// which the list has not seen.
func (k *Collection) needOfPins(ctx context.Context, now time.Time) error {
	pins, err := chain.ListPins(ctx, k.b, k.c.StoreID)
	if err != nil {
		return err
	}
	for _, p := range pins {
		if !p.Expires.IsZero() && !now.Before(p.Expires) {
			k.garbage = append(k.garbage, garbage{bucket.Info{Name: p.Name()}, object.Name{Kind: object.KindPin}, &k.done.Pins})
		}
		err := k.needPin(ctx, p)
		if errors.Is(err, chain.ErrSnapshotGone) && !p.Expires.IsZero() {
			continue // whoever wrote it was told so, or has ended before that
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// needPin marks what a pin needs. What steps at the floor and above need is marked already.
func (k *Collection) needPin(ctx context.Context, p *object.Pin) error {
	if p.N >= k.done.Floor {
		return nil
	}
	state, from, err := chain.PinnedState(ctx, k.b, p)
	if err != nil {
		return err
	}
	maps.Copy(k.files, tablefs.NumsOf(state.Tables.Version))
	for _, e := range state.Extents {
		k.logs[e.Log] = true
	}
	k.pinned = append(k.pinned, [2]uint64{from, p.N})
	return nil
}

// isPinned reports whether a pin needs an object: a log, or a state or step from the one that its state is
// made from up to its own. What lies between the two stays too, also a state that was not there when the pin
// was read: another collection may have read the pin by way of that.
func (k *Collection) isPinned(name object.Name) bool {
	if name.Kind == object.KindSegment {
		return k.logs[name.Num]
	}
	return slices.ContainsFunc(k.pinned, func(p [2]uint64) bool { return p[0] <= name.Num && name.Num <= p[1] })
}

// ByAnother is one attempt of Collect. A table that was named, and that no step at the floor or above needs, is never named
// again. What names it below the floor is deleted behind it.
func ByAnother(ctx context.Context, b bucket.Bucket, storeID uint64) (Deleted, error) {
	c, err := chain.LoadChain(ctx, b, storeID, 0)
	if err != nil || c.State.Floor == 0 {
		return Deleted{}, err
	}
	// The caller owns nothing. It stands in for the owner of this epoch, so objects of later ones
	// are not touched.
	c.Epoch = c.Step.Epoch
	named := make(map[uint64]bool)
	// Only a table that is named below the floor may go. Any other that no step names may be an
	// upload whose step is still to come.
	for _, folder := range []string{object.StateFolder, object.StepFolder} {
		for info, err := range b.List(ctx, folder, "") {
			name, ok := object.ParseName(info.Name)
			if err == nil && ok && name.Num < c.State.Floor {
				err = addNamedBy(ctx, b, c, name, named)
			}
			if err != nil {
				return Deleted{}, fmt.Errorf("remote: collection: %w", err)
			}
			if ok && name.Num >= c.State.Floor {
				break
			}
		}
	}
	spare, err := SpareFiles(ctx, b, c, func(num uint64) bool { return !named[num] })
	if err != nil {
		return Deleted{}, err
	}
	k, err := Choose(ctx, b, c, spare, nil)
	if err != nil {
		return Deleted{}, err
	}
	return k.Delete(ctx, time.Now())
}

// addNamedBy adds the tables and sidecars that a state or step names.
func addNamedBy(ctx context.Context, b bucket.Bucket, c *chain.Chain, name object.Name, named map[uint64]bool) error {
	if name.Kind == object.KindStep {
		step, err := chain.ReadStep(ctx, b, c.StoreID, name.Num)
		if err != nil {
			// If it is gone, another collection has deleted it, after the tables that it named.
			return bucket.IgnoreAbsence(err)
		}
		for _, num := range chain.NeedsOf(step).Files {
			named[num] = true
		}
		return nil
	}
	state, err := chain.ReadState(ctx, b, c.StoreID, name.Num)
	if err != nil {
		return bucket.IgnoreAbsence(err)
	}
	maps.Copy(named, tablefs.NumsOf(state.Tables.Version))
	return nil
}
