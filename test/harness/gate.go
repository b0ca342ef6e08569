package harness

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"io/fs"
	"math/rand/v2"
	"sync/atomic"
	"syscall"

	"github.com/shaledb/shale"
)

// A Refusal is the error of a CommitGate that refuses. Its cause is one that would mean something
// else if it came from the disk of the store, and must not be taken for that.
type Refusal struct{ cause error }

func (r *Refusal) Error() string { return fmt.Sprintf("the gate refuses: %v", r.cause) }
func (r *Refusal) Unwrap() error { return r.cause }

// refusalCauses are the causes that DrawRefusal draws from.
var refusalCauses = []error{
	errors.New("not today"), syscall.ENOSPC, syscall.ENOSPC, syscall.EDQUOT, syscall.EMFILE, syscall.EIO, context.Canceled,
	context.DeadlineExceeded, shale.ErrClosed, shale.ErrReadOnly, fs.ErrNotExist,
	&shale.CorruptionError{File: "000001.sst", Offset: -1, Part: "data block", Err: errors.New("of somebody else")},
}

// DrawRefusal draws the error of a gate.
func DrawRefusal(r *rand.Rand) error { return &Refusal{refusalCauses[r.IntN(len(refusalCauses))]} }

// IsRefusal reports whether an error comes from a gate that has refused.
func IsRefusal(err error) bool {
	var r *Refusal
	return errors.As(err, &r)
}

// A Gate makes the CommitGate of a store refuse one group of writes when a test says so. The zero
// Gate refuses nothing. Its methods may be called concurrently.
type Gate struct {
	next    atomic.Pointer[refusal]
	Refused atomic.Int64 // groups so far
}

// A refusal is one that is to come.
type refusal struct {
	left atomic.Int64 // groups up to it
	err  error
}

// Refuse has the n-th group from now on refused, with err.
func (g *Gate) Refuse(n int64, err error) {
	next := &refusal{err: err}
	next.left.Store(n)
	g.next.Store(next)
}

// Pass has all groups pass from now on.
func (g *Gate) Pass() { g.next.Store(nil) }

// Over returns a CommitGate that asks gate first, which may be nil.
func (g *Gate) Over(gate func(shale.LogPosition) error) func(shale.LogPosition) error {
	return func(p shale.LogPosition) error {
		if gate != nil {
			if err := gate(p); err != nil {
				return err
			}
		}
		if next := g.next.Load(); next != nil && next.left.Add(-1) == 0 {
			g.Refused.Add(1)
			return next.err
		}
		return nil
	}
}

// This is how a Life refuses writes. It does so only in stores with a gate, so that there are also
// stores without one. What it does is drawn from the step, so that a program which is shortened
// still does it.

// chance returns what decides about a step.
func (l *Life) chance(s Step) *rand.Rand {
	h := fnv.New64a()
	_, _ = h.Write([]byte(s.String())) // never fails
	return rand.New(rand.NewPCG(h.Sum64(), uint64(l.opened)))
}

// armGate draws whether a step has one of its groups refused. Without a gate, nothing is.
func (l *Life) armGate(r *rand.Rand) {
	if l.Opts.Shipping.Gate != nil && !l.Trusting && r.IntN(12) == 0 {
		l.gate.Refuse(1+r.Int64N(3), DrawRefusal(r))
	}
}

// refused deals with a step that has met a refusal, and did its first calls. An ingestion is there
// all the same. Anything else is not seen. It is gone once the store has resumed, and may be there
// after a crash, a kill or a Close that come before.
func (l *Life) refused(s Step, r *rand.Rand) error {
	l.Refused++
	err := l.real.Err
	switch {
	case !IsRefusal(err) || !errors.Is(err, shale.ErrReadOnly):
		return fmt.Errorf("the gate has refused a group, and the step returned %w", err)
	case !IsRefusal(l.DB.Err()):
		return fmt.Errorf("the gate has refused a group, and the store takes writes: %w", l.DB.Err())
	case errors.Is(err, shale.ErrIngested):
		l.Model.Only(l.real.Wrote + 1)
		l.Model.Acknowledge()
	default:
		l.Model.Failed(l.real.Wrote)
	}
	if s.Name == txnName { // transactions of the model have begun after what was refused
		l.store.discardTxns()
		l.side.discardTxns()
	}
	switch r.IntN(8) {
	case 0:
		return l.Kill()
	case 1:
		configs := CrashConfigs(r.Uint64())
		return l.Crash(configs[r.IntN(len(configs))])
	case 2:
		shale.ShippingOf(l.DB).Fence(errors.New("another writer"))
		fallthrough
	case 3:
		return l.closeRefused()
	}
	if err := l.DB.Resume(); err != nil {
		return fmt.Errorf("a refusal and then Resume: %w", err)
	}
	l.Model.Undo()
	return nil
}

// closeRefused closes a store that takes no writes, and opens it.
func (l *Life) closeRefused() error {
	if err := l.LetGo(); err != nil {
		return err
	}
	err := l.DB.Close()
	l.DB = nil
	if !errors.Is(err, shale.ErrReadOnly) {
		return fmt.Errorf("Close after a refusal: %w", err)
	}
	if err := l.checkClosed(); err != nil {
		return err
	}
	return l.reopen(l.Model.Claim().AllSafe())
}
