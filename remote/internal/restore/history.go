// Package restore has what a restore is made of: the way back along the steps of a store, around those that are damaged
// (history.go), tables that are fetched and checked (fetchtable.go), and log files that are built of segments and end where
// the store must end (logbuilder.go). Readers and Verify use parts of it.
package restore

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"sync"
	"time"

	"github.com/shaledb/shale/internal/base"
	"github.com/shaledb/shale/remote/internal/bucket"
	"github.com/shaledb/shale/remote/internal/chain"
	"github.com/shaledb/shale/remote/internal/object"
	"golang.org/x/sync/errgroup"
)

// stepsAtOnce is the number of steps that are read at the same time. They are small, so the time goes
// into the way to the bucket and back.
const stepsAtOnce = 16

// stepsInMemory is how many steps a walk reads before it applies them.
// It is as many as lie between two states, so most walks read once.
const stepsInMemory = 256

// StateEvery is after how many steps an owner writes their state.
const StateEvery = 256

// A History is the chain of steps of a bucket, as a restore and Verify look back on it. Unlike a
// chain, it can be entered at any step that is still there. It does without steps and states that are damaged
// or missing, as far as others lead past them.
type History struct {
	Bucket  bucket.Bucket
	StoreID uint64
	Newest  uint64   // the number of the newest step
	Floor   uint64   // the first step that can be restored, at least 1
	States  []uint64 // the numbers of all states, ascending

	mu     sync.Mutex // protects the following field
	Damage []Finding  // what it does without
}

// OpenHistory reads which steps and states a bucket has. Its error wraps fs.ErrNotExist if the bucket
// has no store, or no step yet.
func OpenHistory(ctx context.Context, b bucket.Bucket) (*History, error) {
	id, err := StoreIn(ctx, b)
	if err != nil {
		return nil, err
	}
	h := &History{Bucket: b, StoreID: id}
	if h.Newest, err = chain.NewestStep(ctx, b, 0); err != nil {
		return nil, err
	}
	if h.Newest == 0 {
		return nil, fmt.Errorf("remote: the bucket has store %016x, and no step yet: %w", h.StoreID, fs.ErrNotExist)
	}
	// Floors never sink. If newer steps can't be read, objects that are gone below the right floor count as damage.
	// The floor comes from the newest step that can be read. It is not looked for further back than
	// one state is from the next.
	for n := h.Newest; n > 0 && n+StateEvery > h.Newest; n-- {
		s, err := h.Step(ctx, n)
		if err != nil {
			return nil, err
		}
		if s != nil {
			h.Floor = s.Floor
			break
		}
	}
	h.Floor = max(h.Floor, 1)
	for info, err := range b.List(ctx, object.StateFolder, "") {
		if err != nil {
			return nil, err
		}
		if n, ok := object.ParseName(info.Name); ok && n.Kind == object.KindState && n.Num <= h.Newest {
			h.States = append(h.States, n.Num)
		}
	}
	return h, nil
}

// StoreIn returns the id of the store in a bucket. If there is none, the error wraps fs.ErrNotExist.
func StoreIn(ctx context.Context, b bucket.Bucket) (uint64, error) {
	id, err := chain.ReadIdentity(ctx, b)
	if errors.Is(err, fs.ErrNotExist) {
		err = fmt.Errorf("remote: the bucket has no store: look at its name and prefix: %w", err)
	}
	if err != nil {
		return 0, err
	}
	return id.StoreID, nil
}

// Step reads step n, and returns nil if it is damaged. A step that is missing is damage: all at the floor and above
// must be there.
func (h *History) Step(ctx context.Context, n uint64) (*object.Step, error) {
	s, err := chain.ReadStep(ctx, h.Bucket, h.StoreID, n)
	return s, h.pass(IfMissing(err, object.StepName(n), "step"))
}

// pass notes damage, once for each object, and returns nil. Any other error is returned as it is.
// Walks from several states meet the same object, and one finding is enough.
func (h *History) pass(err error) error {
	var damage *base.CorruptionError
	if !errors.As(err, &damage) {
		return err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if !slices.ContainsFunc(h.Damage, func(f Finding) bool { return f.Object == damage.File }) {
		h.Damage = append(h.Damage, Finding{damage.File, damage})
	}
	return nil
}

// ErrMissing is in the damage of an object that should be there.
var ErrMissing = errors.New("the object is missing from the bucket")

// IfMissing returns the error for an object that should be there: damage that names it, if it is not.
// Any other error is returned as it is.
func IfMissing(err error, name, part string) error {
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return base.Corruption(name, -1, part, ErrMissing)
	case errors.Is(err, bucket.ErrChecksum):
		return base.Corruption(name, -1, part, err)
	}
	return err
}

// steps reads the steps from first to last, some at the same time. Those that are damaged are nil.
// The memory of a walk is that of stepsInMemory steps, however long the history is.
func (h *History) steps(ctx context.Context, first, last uint64) ([]*object.Step, error) {
	all := make([]*object.Step, last+1-first)
	reads, ctx := errgroup.WithContext(ctx)
	reads.SetLimit(stepsAtOnce)
	for i := range all {
		reads.Go(func() (err error) {
			all[i], err = h.Step(ctx, first+uint64(i))
			return err
		})
	}
	return all, reads.Wait()
}

// base returns the newest state that is not after step n and can be read: one of the bucket, or that of an empty
// store before step 1. If a state is damaged, an earlier one leads to the same
// place, as far as the steps in between are still there.
func (h *History) base(ctx context.Context, n uint64) (*object.State, error) {
	for _, from := range slices.Backward(h.States) {
		if from > n {
			continue
		}
		s, err := chain.ReadState(ctx, h.Bucket, h.StoreID, from)
		if err = h.pass(IfMissing(err, object.StateName(from), "state")); err != nil || s != nil {
			return s, err
		}
	}
	return object.EmptyState(h.StoreID), nil
}

// A Moment is a state with the step that leads to it.
type Moment struct {
	State *object.State
	Step  *object.Step // nil: that of a pin, whose step may be gone, or of a state whose step is damaged
	At    time.Time    // when the step was written, or one before it if the clock has gone back
}

// Walk calls fn for each step from the one that a state was written for, or from the step after that
// if there is none, up to step n, or up to one that is damaged, or until fn returns an error.
func (h *History) Walk(ctx context.Context, n uint64, fn func(m Moment) error) (from uint64, err error) {
	state, err := h.base(ctx, n)
	if err != nil {
		return 0, err
	}
	from = state.N
	first := max(from, 1)
	if first < h.Floor {
		return from, h.pass(base.Corruption(object.StateName(h.Floor), -1, "state",
			fmt.Errorf("the object is missing: the steps before %d are gone, and no other state leads to step %d", h.Floor, n)))
	}
	m := Moment{State: state, At: state.Written}
	for ; first <= n; first += stepsInMemory {
		steps, err := h.steps(ctx, first, min(n, first+stepsInMemory-1))
		if err != nil {
			return from, err
		}
		for i, step := range steps {
			if next := first + uint64(i); next > from { // a state has its own step already
				if step == nil {
					return from, nil // a later state goes on behind it
				}
				if m.State, err = object.StateAfter(m.State, step); err != nil {
					return from, h.pass(object.Damage(step.Name(), "step", err))
				}
			}
			if m.Step = step; step != nil {
				m.At = LaterOf(m.At, step.Written)
			}
			if err := fn(m); err != nil {
				return from, err
			}
		}
	}
	return from, nil
}

// TableSeq returns the highest sequence number of an entry in the tables of m. A store does not replay
// what is up to it. The tables may have later writes, because compactions into the last level set numbers
// to 0.
func (m *Moment) TableSeq() uint64 {
	highest := base.Seq(0)
	for t := range m.State.Tables.Version.Tables() {
		highest = max(highest, t.MaxSeq)
	}
	return uint64(highest)
}

// Reach returns a sequence number up to which the tables of m have all writes. They may have more.
func (m *Moment) Reach() uint64 {
	reach := m.TableSeq()
	if m.Step != nil {
		reach = max(reach, m.Step.LastTableSeq)
	}
	return reach
}

// A Finding is an object that is missing, or is not what it should be.
type Finding struct {
	Object string
	Err    error
}

// String returns the finding for people.
func (f Finding) String() string { return fmt.Sprintf("%s: %v", f.Object, f.Err) }
