package remote

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/shaledb/shale/internal/base"
	"github.com/shaledb/shale/manifest"
	"github.com/shaledb/shale/remote/internal/buckets"
	"github.com/shaledb/shale/remote/internal/chain"
	"github.com/shaledb/shale/remote/internal/object"
	"github.com/shaledb/shale/remote/internal/restore"
	"github.com/shaledb/shale/vfs"
)

// Restore is a plan and its execution. This file has the calls and the choice of the step whose
// tables are restored. restorelogs.go lays the logs and finishes the store, restorefetch.go brings
// the tables, and restoredir.go prepares the directory.

// RestoreOptions are the choices of Restore. The zero value is fine.
type RestoreOptions struct {
	FS vfs.FS // that the directory is made on; nil: vfs.Default
	// Pin restores what a pin keeps, instead of a point in the life of the store. Then At is the zero At.
	Pin string
	// Fetches is how many objects are fetched at the same time: 0 means 16. Each takes 4 MiB of memory.
	Fetches int
	// Progress, if it is not nil, is called as bytes of tables arrive: those that are there, and those
	// that are needed. The calls come from several goroutines, but one after the other.
	Progress func(done, total int64)
	// Salvage is for a damaged bucket. The tables are those of the newest step that the target allows, and are fetched
	// as they are, damaged or not. Restored.Damage lists those that are; if there are any, the directory is one for
	// repair.Run (`shale repair`), which saves what is provably correct into another one.
	Salvage bool

	// warm lists the tables that this process has fetched into the directory already. It is set for Promote and Warm, which
	// need the newest step. nil: an earlier step will do.
	warm *warmth
	// local is how many bytes of tables are fetched at most, for a store that reads the others from the bucket. 0: all are.
	local int64
}

// A Restored says what Restore has made.
type Restored struct {
	StoreID uint64 // the same in all files and objects of a store
	// At is the point that the store was restored to. Its Time is when the newest part of it was
	// written to the bucket.
	At      At
	Tables  int
	Filters int   // sidecars
	Logs    int   // log files
	Bytes   int64 // of all files
	Kept    int64 // bytes of tables that an interrupted restore had fetched
	// Missing has the names of sidecars that could not be fetched. The store does without them:
	// lookups use the filters in the tables.
	Missing []string
	// Checked reports that the store was opened once. Logs of more than 1 GiB are not read again for
	// that: their records were checked when they were written.
	Checked bool
	// Damage are objects that the restore needed first, and that are damaged or missing. It has taken the tables of
	// an earlier step instead, and more of the logs. If the newest point was asked for, Left.Why says whether the store
	// lacks anything for that. A store that was made with damage goes on in another prefix.
	Damage []Finding
	// Left is what the bucket has of later times, and was left out.
	Left LeftOut
}

// A LeftOut is the newer part of a bucket, which a restore has left out.
type LeftOut struct {
	Steps    uint64 // how many
	Segments int    // how many
	Bytes    int64  // of the segments' logs
	LastSeq  uint64 // the last sequence number in the segments and in tables that are damaged; 0: they have none
	// Why says why the store ends before the newest point, if that was asked for: not all that the bucket has can
	// be used, or nobody can tell. "" otherwise.
	Why string
	// Lost says that what is left out waits for tables that the bucket lacks. If the machine that has these is lost, so
	// is what is left out, and the restored store goes on in the same bucket. It is set only if the newest point was
	// asked for.
	Lost bool
}

const (
	// fetchesDefault is RestoreOptions.Fetches, if it is 0.
	fetchesDefault = 16
	// checkedLogs is up to how many bytes of logs are read into memory to check a restored store.
	checkedLogs = 1 << 30
)

// Restore makes a store in the directory dir as it was at a point of its life, from what is in a bucket.
// nil options are the defaults. The store is durable and complete when Restore returns.
//
// The tables come from the newest step whose tables have nothing beyond the target and are whole, and the logs give
// the writes after it. It is exact to a batch by sequence number, and to a shipment by time. If the
// writes up to the target can't all be found in the bucket, the error is a *PointError with the
// nearest points that can be restored. The newest point is the last that can be: [Restored.Damage] and Left.Why say
// whether it was the last that there was. A [PointError] wraps a *shale.CorruptionError with the name of an object if
// damage is in the way.
//
// The directory must be empty, or not exist, or be one in which a Restore was interrupted. Until Restore is nearly done
// it has no store that opens. After an error, the files that were fetched stay for the next attempt. The store is a
// copy: it has the store's id, and remote.Open takes the bucket over with it only if nothing was left out, or what was
// is lost for everybody ([LeftOut.Lost]). Otherwise it goes on in another prefix.
func Restore(ctx context.Context, b Bucket, dir string, at At, o *RestoreOptions) (Restored, error) {
	r := newRestore(b, dir, at, o)
	if err := r.run(ctx); err != nil {
		if err = r.explain(ctx, err); errors.As(err, new(*PointError)) {
			return Restored{}, err // it says that it is about a restore, and of what
		}
		return Restored{}, fmt.Errorf("remote: restore %v into %s: %w", at, dir, err)
	}
	return r.done, nil
}

// newRestore returns a restore that has not begun.
func newRestore(b Bucket, dir string, at At, o *RestoreOptions) *restoration {
	r := &restoration{dir: dir, want: at}
	if o != nil {
		r.opts = *o
	}
	setDefault(&r.opts.FS, vfs.Default)
	if r.opts.Fetches <= 0 {
		r.opts.Fetches = fetchesDefault
	}
	r.fs = r.opts.FS
	r.b = buckets.Retrying(b)
	return r
}

// explain returns the error of a restore. If objects are missing because the step was collected meanwhile,
// it says so, with ErrSnapshotGone.
func (r *restoration) explain(ctx context.Context, err error) error {
	if errors.Is(err, syscall.ENOSPC) {
		return fmt.Errorf("%w (make room on the local disk, and restore again: that goes on with what is there)", err)
	}
	if r.goal == nil || r.opts.Pin != "" || !errors.Is(err, restore.ErrMissing) {
		return err
	}
	// An object that is missing is damage, unless the floor has passed the step meanwhile. Then a
	// collection has deleted the object, as it may, and another restore finds a newer step.
	newest, lookErr := chain.ReadNewest(ctx, r.b, r.done.StoreID, 0)
	if lookErr != nil || newest == nil || newest.Floor <= r.goal.State.N {
		return err
	}
	return fmt.Errorf("step %d was collected meanwhile, steps from %d on are kept: restore again, or pin what shall stay: %w (%w)",
		r.goal.State.N, newest.Floor, ErrSnapshotGone, err)
}

// A restoration is one call of Restore.
// It is used once. One goroutine has it, but for the fetches, which share what mu protects.
type restoration struct {
	// Constant.
	opts RestoreOptions
	fs   vfs.FS
	b    Bucket
	dir  string
	want At

	// What choose and pick have found. goal and moment differ if tables of the goal are damaged or
	// missing: then an earlier moment is restored, and more of the logs. pick sets all of them
	// again each time that a table turns out to be damaged. bad only grows, so each attempt has
	// fewer moments to choose from, and fill comes to an end.
	history *restore.History
	sizes   map[string]int64 // of the tables and sidecars in the bucket, by name
	bad     map[string]error // tables that were found damaged; guarded by mu during fetch
	goal    *restore.Moment  // the newest moment that fits the target
	moment  *restore.Moment  // the newest one that fits and whose tables are whole; they are restored
	later   *restore.Moment  // the first one after it that is whole; nil: there is none
	limit   restore.Limit

	builder *restore.LogBuilder
	partial bool            // tables stay in the bucket
	behind  object.Position // where the list of segments ended, if what is behind its logs can't be restored by anybody
	done    Restored

	mu      sync.Mutex // protects what follows
	arrived int64
	missing []string
}

// run carries out the steps of a restore:
//
//  1. choose finds the step whose tables are needed. It touches nothing on disk.
//  2. prepare makes the directory and locks it, marks it, and removes what an interrupted restore has left
//     and this one does not need.
//  3. lay writes the logs, durably, and finds out whether the target can be restored.
//  4. fetch brings the tables and their sidecars, durably.
//  5. finish writes the manifest, and CURRENT last, opens the store to check it, and removes the mark.
//
// If a table turns out to be damaged, it begins again with step 1, without the steps that need this table.
func (r *restoration) run(ctx context.Context) error { return r.within(ctx, r.fill) }

// within takes the steps 1 and 2 of run, and then calls fn with the directory locked.
// After an error the mark stays, and the directory is one in which a restore was interrupted.
func (r *restoration) within(ctx context.Context, fn func(context.Context) error) error {
	if err := r.choose(ctx); err != nil {
		return err
	}
	lock, err := r.prepare()
	if err != nil {
		return err
	}
	return errors.Join(fn(ctx), lock.Close())
}

// fill takes the steps 3 to 5 of run. The logs come first, because they show whether the target can be
// restored, and take less time than the tables. Requires: the directory is prepared.
func (r *restoration) fill(ctx context.Context) error {
	for {
		if err := r.lay(ctx); err != nil {
			return err
		}
		if err := r.leave(ctx); err != nil {
			return err
		}
		// An error of the network or the disk ends the restore, and the next one goes on with the
		// files that are there. Damage leads to an earlier step, but not for Promote and Warm,
		// which need the newest, and not for a pin, which is one moment only.
		err := r.fetch(ctx)
		switch {
		case err == nil:
			return r.finish()
		case !object.IsDamage(err) || r.opts.warm != nil:
			return err
		case r.opts.Pin != "":
			return r.pointError("a table of the pin can't be used", nil)
		}
		// The tables that were fetched stay, because the earlier step most likely needs them too.
		// sweep removes those that it does not need, and the logs, which lay writes again.
		if err := r.pick(ctx); err != nil {
			return err
		}
		if err := r.sweep(); err != nil {
			return err
		}
	}
}

// choose finds out what the bucket has, and picks the step whose tables are restored.
func (r *restoration) choose(ctx context.Context) (err error) {
	if err := r.want.check(); err != nil {
		return err
	}
	if r.history, err = restore.OpenHistory(ctx, r.b); err != nil {
		return err
	}
	r.done.StoreID = r.history.StoreID
	if r.bad == nil {
		r.bad = make(map[string]error)
	}
	// The list is made after the newest step is known, so it has the tables of all steps.
	if err := r.list(ctx); err != nil {
		return err
	}
	if r.opts.Pin == "" {
		return r.pick(ctx)
	}
	err = r.choosePin(ctx)
	if r.goal = r.moment; err == nil {
		r.limitToStep()
	}
	return err
}

// list finds out which tables and sidecars the bucket has.
func (r *restoration) list(ctx context.Context) error {
	r.sizes = make(map[string]int64)
	for info, err := range r.b.List(ctx, object.TableFolder, "") {
		if err != nil {
			return err
		}
		r.sizes[info.Name] = info.Size
	}
	return nil
}

// pick finds the newest step that the target can be restored from.
func (r *restoration) pick(ctx context.Context) error {
	h := r.history
	if n := r.want.Step; n > 0 && (n < h.Floor || n > h.Newest) {
		return &PointError{Want: r.want, Why: fmt.Sprintf("steps %d to %d can be restored", h.Floor, h.Newest)}
	}
	r.done = Restored{StoreID: h.StoreID}
	r.goal, r.moment, r.later, r.builder = nil, nil, nil, nil
	// A walk leads from the newest state that is not behind the step to, up to that step or to one
	// that is damaged. Later moments replace earlier ones, so the newest that fits and is whole
	// stays. If the walk has found none, the next one begins below the state from which this one
	// began.
	for to := h.Newest; r.moment == nil && to >= h.Floor; {
		from, err := h.Walk(ctx, to, func(m restore.Moment) error {
			n, fits, whole := m.State.N, r.fits(m), r.whole(m)
			if n >= h.Floor && fits && (r.goal == nil || r.goal.State.N < n) {
				r.goal = &m
			}
			switch {
			case n < h.Floor || !whole:
			case fits:
				r.moment, r.later = &m, nil
			case r.later == nil || r.later.State.N > n:
				r.later = &m
			}
			return nil
		})
		if err != nil {
			return err
		}
		to = max(from, 1) - 1
	}
	switch {
	case r.goal == nil && r.later != nil:
		return r.pointError(fmt.Sprintf("it is earlier than all that is kept, which begins with step %d, of %s",
			r.later.State.N, r.later.At.UTC().Format(time.RFC3339Nano)), nil)
	case r.goal == nil:
		return r.pointError("it is earlier than all that is kept and can be read", nil)
	case r.moment == nil:
		return r.pointError("every step from which it could be restored needs what is damaged or missing", nil)
	case r.opts.warm != nil && r.goal.State.N != h.Newest:
		return r.pointError("the newest step can't be read", nil)
	}
	r.setLimit()
	return nil
}

// wholeChain returns the chain up to the newest step whose tables are whole: they are in the bucket, and not in bad.
// A Reader begins with the choice of a restore, so both show the same state of a damaged bucket.
func wholeChain(ctx context.Context, b Bucket, bad map[string]error) (*chain.Chain, error) {
	r := newRestore(b, "", At{}, nil)
	r.bad = bad
	if err := r.choose(ctx); err != nil {
		return nil, err
	}
	return &chain.Chain{StoreID: r.history.StoreID, Step: r.moment.Step, State: r.moment.State}, nil
}

// whole reports whether a moment can be restored, as far as it is known: its tables are there and were not found damaged.
// To salvage, and to take a store over, it is the newest moment or none.
func (r *restoration) whole(m restore.Moment) bool {
	if r.opts.Salvage || r.opts.warm != nil {
		return true
	}
	for t := range m.State.Tables.Version.Tables() {
		if r.lost(&m, t) != nil {
			return false
		}
	}
	return true
}

// lost returns why a table of a moment can't be used. nil: no reason is known.
// The size in the LIST is all that is looked at here. What the bytes are worth is found by fetch,
// which adds the table to bad.
func (r *restoration) lost(m *restore.Moment, t *manifest.Table) error {
	name := object.TableName(uint64(t.Num))
	switch size, there := r.sizes[name]; {
	case r.bad[name] != nil:
		return r.bad[name]
	case !there:
		return base.Corruption(name, -1, "table named by a step", restore.ErrMissing)
	case size != t.Size:
		return base.Corruption(name, -1, "size", fmt.Errorf("the object has %d bytes, its step states %d", size, t.Size))
	}
	return nil
}

// damage lists the objects that the restore needed first and can't use.
func (r *restoration) damage() []Finding {
	// All tables of the goal are looked at, and not only the one at which the choice gave up:
	// whoever mends the bucket needs the whole list.
	found := slices.Clone(r.history.Damage)
	if r.goal != nil {
		for t := range r.goal.State.Tables.Version.Tables() {
			if err := r.lost(r.goal, t); err != nil {
				r.bad[object.TableName(uint64(t.Num))] = err
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(r.bad)) {
		found = append(found, Finding{Object: name, Err: r.bad[name]})
	}
	if r.builder != nil && r.builder.End.Err != nil {
		found = append(found, Finding{Object: r.builder.End.Err.File, Err: r.builder.End.Err})
	}
	return found
}

// fits reports whether the target can be restored from a moment, as far as its tables go. By sequence
// number, the tables must have nothing beyond it. What compactions have dropped counts too, and only the
// manifest's LastSeq covers that. It may also be higher than needed; then an earlier step is used.
func (r *restoration) fits(m restore.Moment) bool {
	switch {
	case r.want.Step > 0:
		return m.State.N <= r.want.Step
	case r.want.Seq > 0:
		return uint64(m.State.Tables.LastSeq) <= r.want.Seq
	case !r.want.Time.IsZero():
		// m.At never goes back from one step to the next, whatever the writer's clock did. So all
		// moments that fit come before those that do not.
		return !m.At.After(r.want.Time)
	}
	return true
}

// setLimit sets where the logs have to end. Requires: the moment is chosen.
// A step alone means its logs as far as they had been shipped then, although the bucket may have
// more: so a restore of a step gives the same store at any later time.
func (r *restoration) setLimit() {
	r.limit = restore.Limit{Seq: r.want.Seq, Time: r.want.Time}
	switch {
	case r.want.Step > 0 && r.want.Seq == 0:
		r.limitToStep()
	case r.want.Step > 0:
		// The tables may have all up to there. Logs that end earlier would not show that.
		r.limit.Seq = max(r.want.Seq, uint64(r.goal.State.Tables.LastSeq))
	}
}

// limitToStep makes the logs end where they had been shipped to when the step was written.
func (r *restoration) limitToStep() {
	r.limit.At = object.ShippedUpTo(r.goal.State)
	// A step without extents was written before anything was shipped. Its zero place would be no
	// limit at all.
	r.limit.None = r.limit.At == object.Position{}
}

// choosePin chooses what a pin keeps.
func (r *restoration) choosePin(ctx context.Context) error {
	if r.want != (At{}) {
		return errors.New("a pin is a point by itself: ask for no other")
	}
	p, err := chain.FindPin(ctx, r.b, r.history.StoreID, r.opts.Pin)
	if err != nil {
		return err
	}
	state, _, err := chain.PinnedState(ctx, r.b, p)
	if err != nil {
		return err
	}
	// The step may be gone, and with it what it says about numbers that are missing. sure takes
	// that from the state.
	r.moment = &restore.Moment{State: state, At: p.Written}
	return nil
}
