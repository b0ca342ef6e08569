package remote

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/shaledb/shale/internal/base"
	"github.com/shaledb/shale/vfs"
)

// An At is a point in the life of a store. As a target, the zero At is the newest point. Else one field
// is set, or Step and Seq both: the tables of this step, and the logs up to Seq, or as far as the tables
// may reach. Points that Restore returns have all three.
type At struct {
	// Step is the number of a step: its tables, and the logs as far as they were shipped then.
	Step uint64
	// Seq is a sequence number, as DB.LogPosition gives it: all batches up to it, and no other. In a
	// Restored, the tables may have later ones if they had come into the bucket before their logs.
	Seq uint64
	// Time is when it was in the bucket: all that was shipped until then, exact to one shipment.
	Time time.Time
}

// String returns the point for people.
func (a At) String() string {
	switch {
	case a == At{}:
		return "the newest point"
	case a.Step > 0 && a.Seq == 0 && a.Time.IsZero():
		return fmt.Sprintf("step %d", a.Step)
	case a.Step == 0 && a.Time.IsZero():
		return fmt.Sprintf("sequence number %d", a.Seq)
	case a.Step == 0 && a.Seq == 0:
		return a.Time.UTC().Format(time.RFC3339Nano)
	case a.Time.IsZero():
		return fmt.Sprintf("sequence number %d on step %d", a.Seq, a.Step)
	}
	return fmt.Sprintf("sequence number %d on step %d, of %s", a.Seq, a.Step, a.Time.UTC().Format(time.RFC3339Nano))
}

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
	// Parent opens the bucket of a clone's parent, whose prefix is as the clone's steps name it. nil: a
	// clone that still needs files of its parent can't be restored.
	Parent func(prefix string) (Bucket, error)

	warm *warmth // what this process has fetched into the directory already; nil: nothing
}

// A Restored says what Restore has made.
type Restored struct {
	StoreID uint64
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
	// Left is what the bucket has of later times, and was left out.
	Left LeftOut
}

// A LeftOut is the newer part of a bucket, which a restore has left out.
type LeftOut struct {
	Steps    uint64
	Segments int
	Bytes    int64  // of the segments' logs
	LastSeq  uint64 // the last sequence number in the segments; 0: they have none
	// Why says why the logs end where they do, if that was not asked for: not all that the logs have can
	// be used. "" otherwise.
	Why string
	// Lost says that the newest point was asked for, and what is left out waits for tables that the bucket lacks. If
	// the machine that has these is lost, so is that, and the restored store goes on in the same bucket.
	Lost bool
}

// A PointError says that a store can't be restored to a point, and which points nearby it can be
// restored to.
type PointError struct {
	Want At
	Why  string
	Err  error // the damage that is in the way, if it is that
	// Before and After are the nearest good points; nil: there is none. Their Step and Seq together
	// are a target.
	Before, After *At
}

// Unwrap returns the damage.
func (e *PointError) Unwrap() error { return e.Err }

// Error returns a text with the nearest good points.
func (e *PointError) Error() string {
	text := fmt.Sprintf("remote: can't restore %v: %s", e.Want, e.Why)
	for _, p := range []struct {
		what string
		at   *At
	}{{"before", e.Before}, {"after", e.After}} {
		if p.at != nil {
			text += fmt.Sprintf("; the nearest good point %s is %v", p.what, *p.at)
		}
	}
	return text
}

const (
	// fetchesDefault is RestoreOptions.Fetches, if it is 0.
	fetchesDefault = 16
	// checkedLogs is up to how many bytes of logs are read into memory to check a restored store.
	checkedLogs = 1 << 30
	// restoringName is the file that marks a directory in which a restore is under way. It is no name
	// of shale's, and is removed at the end.
	restoringName = "RESTORING"
)

const restoringText = `A store is being restored into this directory, or that was interrupted. It can't be opened yet.
Restore it again, which goes on with what is here already, or remove the directory.
`

// Restore makes a store in the directory dir as it was at a point of its life, from what is in a bucket.
// nil options are the defaults. The store is durable and complete when Restore returns.
//
// The tables come from the newest step whose tables have nothing beyond the target, and the logs give
// the writes after it. It is exact to a batch by sequence number, and to a shipment by time. If the
// writes up to the target can't all be found in the bucket, the error is a *PointError with the
// nearest points that can be restored. The newest point is the last that can be. Damaged and missing
// objects are a *shale.CorruptionError with the name of the object.
//
// The directory must be empty, or not exist, or be one in which a Restore was interrupted. Until
// Restore is nearly done it has no store that opens. After an error, the files that were fetched stay
// for the next attempt. The store is a copy: it has the store's id, and remote.Open takes the bucket
// over with it only if nothing was left out, or what was is lost for everybody (LeftOut.Lost). Otherwise it goes on in
// another prefix.
func Restore(ctx context.Context, b Bucket, dir string, at At, o *RestoreOptions) (Restored, error) {
	r := newRestore(b, dir, at, o)
	if err := r.run(ctx); err != nil {
		err = r.explain(ctx, err)
		return Restored{}, fmt.Errorf("remote: restore %v into %s: %w", at, dir, err)
	}
	return r.done, nil
}

// newRestore returns a restore that has not begun.
func newRestore(b Bucket, dir string, at At, o *RestoreOptions) *restore {
	r := &restore{dir: dir, want: at}
	if o != nil {
		r.opts = *o
	}
	if r.opts.FS == nil {
		r.opts.FS = vfs.Default
	}
	if r.opts.Fetches <= 0 {
		r.opts.Fetches = fetchesDefault
	}
	r.fs = r.opts.FS
	r.b = retrying(b)
	return r
}

// explain returns the error of a restore. If objects are missing because the step was collected meanwhile,
// it says so, with ErrSnapshotGone.
func (r *restore) explain(ctx context.Context, err error) error {
	if errors.Is(err, syscall.ENOSPC) {
		return fmt.Errorf("%w (make room on the local disk, and restore again: that goes on with what is there)", err)
	}
	if r.moment == nil || r.opts.Pin != "" || !errors.Is(err, errMissing) {
		return err
	}
	newest, lookErr := readNewest(ctx, r.b, r.done.StoreID, 0)
	if lookErr != nil || newest == nil || newest.Floor <= r.moment.state.N {
		return err
	}
	return fmt.Errorf("step %d was collected meanwhile, steps from %d on are kept: restore again, or pin what shall stay: %w (%w)",
		r.moment.state.N, newest.Floor, ErrSnapshotGone, err)
}

// A restore is one call of Restore.
type restore struct {
	// Constant.
	opts RestoreOptions
	fs   vfs.FS
	b    Bucket
	dir  string
	want At

	history *history
	moment  *moment // whose tables are restored
	later   *moment // the first one after it; nil: there is none
	limit   limit
	parents map[string]Bucket // those that were opened, by prefix

	laying *laying
	behind place // where the list of segments ended, if what is behind the laying can't be restored by anybody
	done   Restored

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
func (r *restore) run(ctx context.Context) error { return r.within(ctx, r.fill) }

// within takes the steps 1 and 2 of run, and then calls fn with the directory locked.
func (r *restore) within(ctx context.Context, fn func(context.Context) error) error {
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
func (r *restore) fill(ctx context.Context) error {
	if err := r.lay(ctx); err != nil {
		return err
	}
	if err := r.leave(ctx); err != nil {
		return err
	}
	if err := r.fetch(ctx); err != nil {
		return err
	}
	return r.finish()
}

// choose finds the newest step that the target can be restored from.
func (r *restore) choose(ctx context.Context) (err error) {
	if err := r.want.check(); err != nil {
		return err
	}
	if r.history, err = openHistory(ctx, r.b); err != nil {
		return err
	}
	r.done.StoreID = r.history.storeID
	if r.opts.Pin != "" {
		return r.choosePin(ctx)
	}
	to := r.history.newest
	if n := r.want.Step; n > 0 {
		if n < r.history.floor || n > to {
			return &PointError{Want: r.want, Why: fmt.Sprintf("steps %d to %d can be restored", r.history.floor, to)}
		}
		to = n
	}
	for r.moment == nil && to >= r.history.floor {
		from, err := r.history.walk(ctx, to, func(m moment) bool {
			switch fits := r.fits(m); {
			case fits && m.state.N >= r.history.floor:
				r.moment, r.later = m.clone(), nil
			case !fits && r.later == nil || !fits && r.later.state.N > m.state.N:
				r.later = m.clone()
			}
			return true
		})
		if err != nil {
			return err
		}
		to = max(from, 1) - 1
	}
	if r.moment == nil {
		why := "it is earlier than all that is kept"
		if r.later != nil {
			why += fmt.Sprintf(", which begins with step %d, of %s", r.later.state.N, r.later.at.UTC().Format(time.RFC3339Nano))
		}
		return r.pointError(why, nil)
	}
	r.setLimit()
	return nil
}

// check returns an error if a is no target.
func (a At) check() error {
	if !a.Time.IsZero() && (a.Step > 0 || a.Seq > 0) {
		return errors.New("a target is a time, or a step, or a sequence number")
	}
	return nil
}

// fits reports whether the target can be restored from a moment, as far as its tables go. By sequence
// number, the tables must have nothing beyond it. What compactions have dropped counts too, and only the
// manifest's LastSeq covers that. It may also be higher than needed; then an earlier step is used.
func (r *restore) fits(m moment) bool {
	switch {
	case r.want.Step > 0:
		return m.state.N == r.want.Step
	case r.want.Seq > 0:
		return uint64(m.state.Tables.LastSeq) <= r.want.Seq
	case !r.want.Time.IsZero():
		return !m.at.After(r.want.Time)
	}
	return true
}

// setLimit sets where the logs have to end. Requires: the moment is chosen.
func (r *restore) setLimit() {
	r.limit = limit{seq: r.want.Seq, time: r.want.Time}
	switch {
	case r.want.Step > 0 && r.want.Seq == 0:
		r.limitToStep()
	case r.want.Step > 0:
		// The tables may have all up to there. Logs that end earlier would not show that.
		r.limit.seq = max(r.want.Seq, uint64(r.moment.state.Tables.LastSeq))
	}
}

// limitToStep makes the logs end where they had been shipped to when the step was written.
func (r *restore) limitToStep() {
	r.limit.at = r.shipped()
	r.limit.none = r.limit.at == place{}
}

// shipped returns the place up to which the logs of the moment were shipped: the zero place if none was.
func (r *restore) shipped() place {
	extents := r.moment.state.Extents
	if len(extents) == 0 {
		return place{}
	}
	last := extents[len(extents)-1]
	return place{last.Log, last.Length}
}

// choosePin chooses what a pin keeps.
func (r *restore) choosePin(ctx context.Context) error {
	if r.want != (At{}) {
		return errors.New("a pin is a point by itself: ask for no other")
	}
	p, err := findPin(ctx, r.b, r.history.storeID, r.opts.Pin)
	if err != nil {
		return err
	}
	r.moment = &moment{state: &p.State, at: p.Written}
	r.limitToStep()
	return nil
}

// pointError returns the error for a target that can't be restored. before may be nil.
func (r *restore) pointError(why string, before *At) *PointError {
	e := &PointError{Want: r.want, Why: why, Before: before}
	if r.later == nil {
		return e
	}
	switch p := r.later.point(); {
	case p.Seq == 0: // it has no tables
	case r.want.Seq == 0 || p.Seq > r.want.Seq:
		e.After = &p
	case before == nil || before.Seq < p.Seq:
		e.Before = &p // fits was more careful than it had to be
	}
	return e
}

// prepare makes the directory and locks it. A directory that has anything else than what an interrupted
// restore leaves is refused.
func (r *restore) prepare() (lock interface{ Close() error }, err error) {
	if err := r.refuse(); err != nil { // before anything is made
		return nil, err
	}
	if err := r.fs.MkdirAll(r.dir); err != nil {
		return nil, err
	}
	if lock, err = r.fs.Lock(r.path(base.LockName)); err != nil {
		return nil, err
	}
	if err = r.refuse(); err == nil {
		err = r.mark()
	}
	if err == nil {
		err = r.sweep()
	}
	if err != nil {
		return nil, errors.Join(err, lock.Close())
	}
	return lock, nil
}

// refuse returns an error if the directory has a store, or files of others.
func (r *restore) refuse() error {
	names, err := r.fs.List(r.dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	names = slices.DeleteFunc(names, func(name string) bool { return name == base.LockName })
	switch {
	case slices.Contains(names, base.CurrentName):
		return fmt.Errorf("the directory has a store already: choose another, or remove it: %w", fs.ErrExist)
	case len(names) > 0 && !slices.Contains(names, restoringName):
		return fmt.Errorf("the directory is not empty, it has %s: choose another: %w", names[0], fs.ErrExist)
	}
	return nil
}

// mark marks the directory, durably. A mark that is there stays: it may be a second name of another
// directory's.
func (r *restore) mark() error {
	switch _, err := r.fs.Stat(r.path(restoringName)); {
	case err == nil:
		return r.fs.SyncDir(r.dir)
	case !errors.Is(err, fs.ErrNotExist):
		return err
	}
	f, err := r.fs.Create(r.path(restoringName))
	if err != nil {
		return err
	}
	_, err = f.Write([]byte(restoringText))
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return err
	}
	return r.fs.SyncDir(r.dir)
}

// sweep removes the files of an interrupted restore that this one does not need. Tables and sidecars
// that it needs stay, and are checked before they are used.
func (r *restore) sweep() error {
	names, err := r.fs.List(r.dir)
	if err != nil {
		return err
	}
	needed := map[string]bool{restoringName: true, base.LockName: true}
	for t := range r.moment.state.Tables.Version.Tables() {
		needed[base.TableName(t.Num)] = true
		if t.Sidecar != nil {
			needed[base.FilterName(t.Sidecar.Num)] = true
		}
	}
	for _, name := range names {
		if !needed[name] {
			err = errors.Join(err, r.fs.Remove(r.path(name)))
		}
	}
	return err
}

func (r *restore) path(name string) string { return filepath.Join(r.dir, name) }
