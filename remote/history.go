package remote

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"sync"
	"time"

	"github.com/shaledb/shale/internal/base"
	"github.com/shaledb/shale/remote/internal/chain"
	"github.com/shaledb/shale/remote/internal/object"
	"golang.org/x/sync/errgroup"
)

// stepsAtOnce is the number of steps that are read at the same time. They are small, so the time goes
// into the way to the bucket and back.
const stepsAtOnce = 16

// stepsInMemory is how many steps a walk reads before it applies them.
const stepsInMemory = 256

// stateEvery is after how many steps an owner writes their state.
const stateEvery = 256

// A history is the chain of steps of a bucket, as a restore and Verify look back on it. Unlike a
// chain, it can be entered at any step that is still there. It does without steps and states that are damaged
// or missing, as far as others lead past them.
type history struct {
	b       Bucket
	storeID uint64
	newest  uint64   // the number of the newest step
	floor   uint64   // the first step that can be restored, at least 1
	states  []uint64 // the numbers of all states, ascending

	mu     sync.Mutex // protects the following field
	damage []Finding  // what it does without
}

// openHistory reads which steps and states a bucket has. Its error wraps fs.ErrNotExist if the bucket
// has no store, or no step yet.
func openHistory(ctx context.Context, b Bucket) (*history, error) {
	id, err := storeIn(ctx, b)
	if err != nil {
		return nil, err
	}
	h := &history{b: b, storeID: id}
	if h.newest, err = chain.NewestStep(ctx, b, 0); err != nil {
		return nil, err
	}
	if h.newest == 0 {
		return nil, fmt.Errorf("remote: the bucket has store %016x, and no step yet: %w", h.storeID, fs.ErrNotExist)
	}
	// Floors never sink. If newer steps can't be read, what is gone below the right floor is damage like any other.
	for n := h.newest; n > 0 && n+stateEvery > h.newest; n-- {
		s, err := h.step(ctx, n)
		if err != nil {
			return nil, err
		}
		if s != nil {
			h.floor = s.Floor
			break
		}
	}
	h.floor = max(h.floor, 1)
	for info, err := range b.List(ctx, object.StateFolder, "") {
		if err != nil {
			return nil, err
		}
		if n, ok := ParseName(info.Name); ok && n.Kind == KindState && n.Num <= h.newest {
			h.states = append(h.states, n.Num)
		}
	}
	return h, nil
}

// storeIn returns the id of the store in a bucket. If there is none, the error wraps fs.ErrNotExist.
func storeIn(ctx context.Context, b Bucket) (uint64, error) {
	id, err := chain.ReadIdentity(ctx, b)
	if errors.Is(err, fs.ErrNotExist) {
		err = fmt.Errorf("remote: the bucket has no store: look at its name and prefix: %w", err)
	}
	if err != nil {
		return 0, err
	}
	return id.StoreID, nil
}

// step reads step n, and returns nil if it is damaged. A step that is missing is damage: all at the floor and above
// must be there.
func (h *history) step(ctx context.Context, n uint64) (*Step, error) {
	s, err := chain.Twice(func() (*Step, error) { return chain.ReadStep(ctx, h.b, h.storeID, n) })
	return s, h.pass(missing(err, StepName(n), "step"))
}

// pass notes damage, once for each object, and returns nil. Any other error is returned as it is.
func (h *history) pass(err error) error {
	var damage *base.CorruptionError
	if !errors.As(err, &damage) {
		return err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if !slices.ContainsFunc(h.damage, func(f Finding) bool { return f.Object == damage.File }) {
		h.damage = append(h.damage, Finding{damage.File, damage})
	}
	return nil
}

// errMissing is in the damage of an object that should be there.
var errMissing = errors.New("the object is missing from the bucket")

// missing returns the error for an object that should be there: damage that names it, if it is not.
// Any other error is returned as it is.
func missing(err error, name, part string) error {
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return base.Corruption(name, -1, part, errMissing)
	case errors.Is(err, ErrChecksum):
		return base.Corruption(name, -1, part, err)
	}
	return err
}

// steps reads the steps from first to last, some at the same time. Those that are damaged are nil.
func (h *history) steps(ctx context.Context, first, last uint64) ([]*Step, error) {
	all := make([]*Step, last+1-first)
	reads, ctx := errgroup.WithContext(ctx)
	reads.SetLimit(stepsAtOnce)
	for i := range all {
		reads.Go(func() (err error) {
			all[i], err = h.step(ctx, first+uint64(i))
			return err
		})
	}
	return all, reads.Wait()
}

// base returns the newest state that is not after step n and can be read: one of the bucket, or that of an empty
// store before step 1.
func (h *history) base(ctx context.Context, n uint64) (*State, error) {
	for _, from := range slices.Backward(h.states) {
		if from > n {
			continue
		}
		s, err := chain.Twice(func() (*State, error) { return chain.ReadState(ctx, h.b, h.storeID, from) })
		if err = h.pass(missing(err, StateName(from), "state")); err != nil || s != nil {
			return s, err
		}
	}
	return object.EmptyState(h.storeID), nil
}

// A moment is a state with the step that leads to it.
type moment struct {
	state *State
	step  *Step     // nil: that of a pin, whose step may be gone, or of a state whose step is damaged
	at    time.Time // when the step was written, or one before it if the clock has gone back
}

// walk calls fn for each step from the one that a state was written for, or from the step after that
// if there is none, up to step n, or up to one that is damaged, or until fn returns an error.
func (h *history) walk(ctx context.Context, n uint64, fn func(m moment) error) (from uint64, err error) {
	state, err := h.base(ctx, n)
	if err != nil {
		return 0, err
	}
	from = state.N
	first := max(from, 1)
	if first < h.floor {
		return from, h.pass(base.Corruption(StateName(h.floor), -1, "state",
			fmt.Errorf("the object is missing: the steps before %d are gone, and no other state leads to step %d", h.floor, n)))
	}
	m := moment{state: state, at: state.Written}
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
				if m.state, err = object.StateAfter(m.state, step); err != nil {
					return from, h.pass(object.Damage(step.Name(), "step", err))
				}
			}
			if m.step = step; step != nil {
				m.at = later(m.at, step.Written)
			}
			if err := fn(m); err != nil {
				return from, err
			}
		}
	}
	return from, nil
}

// tableSeq returns the highest sequence number of an entry in the tables of m. A store does not replay
// what is up to it. The tables may have later writes, because compactions into the last level set numbers
// to 0.
func (m *moment) tableSeq() uint64 {
	highest := base.Seq(0)
	for t := range m.state.Tables.Version.Tables() {
		highest = max(highest, t.MaxSeq)
	}
	return uint64(highest)
}

// reach returns a sequence number up to which the tables of m have all writes. They may have more.
func (m *moment) reach() uint64 {
	reach := m.tableSeq()
	if m.step != nil {
		reach = max(reach, m.step.LastTableSeq)
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
