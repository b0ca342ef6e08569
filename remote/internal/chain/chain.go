package chain

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"time"

	"github.com/shaledb/shale/remote/internal/bucket"
	"github.com/shaledb/shale/remote/internal/object"
)

// The chain of steps: how it is read, from a state up, and how its owner appends to it. A step is
// PUT only if its name is free, and is believed only if nothing stands behind it. docs/REMOTE.md,
// section 13, argues why that suffices, whatever calls arrive late or twice.

// A Chain is what a program knows of the steps of a store: the newest one that it has read or written, and
// the sum of all up to it. Owners, readers and restores each have one.
//
// Only the newest step is never deleted. So a writer that was stopped for a long time may create a step
// under a name that was superseded and deleted meanwhile. All who read steps must not believe in such
// a stray. It can be told by this: a step is deleted only when a later one says that the floor is above it,
// floors never sink, and the newest step stays. So a step that was read is not a stray if the newest
// step, looked for afterwards, has a floor that is not above it.
type Chain struct {
	StoreID uint64
	Step    *object.Step  // nil: there is none yet
	State   *object.State // after step
	Stated  uint64        // the number of the newest state that is known to be in the bucket; 0: there is none

	// Of an owner: set by claim.
	Epoch, Writer uint64
	Now           func() time.Time
	Needs         []StepNeeds // of its own steps above the floor: collections need not read these again
	AtOnce        int         // how many requests its fence and collection make at the same time; 0: as many as are good

	Misses int // how often in a row next has found nothing
}

const (
	// stepGuess is how many bytes are asked for first, when a step is read. One with fewer takes
	// one request.
	// A table takes some hundred bytes of a step, so this is one with dozens of new tables.
	stepGuess = 16 << 10
	// stateGuess is the same for states and pins.
	stateGuess = 64 << 10
	// maxObject is the size of the largest step, state or pin that is read, in bytes. A table takes some
	// hundred bytes of a state.
	maxObject = 1 << 30
	// MissesToList is after how many answers that there is no next step a reader makes sure of it with a list: the
	// step may have been there and be deleted again.
	// With a poll each second that is a LIST a minute.
	MissesToList = 60
	// ChainTries is how often a chain is read that changes meanwhile.
	// A try fails only if the floor has risen meanwhile, which an owner does once an hour.
	ChainTries = 20
)

// N returns the number of the newest step of c, and 0 if there is none.
func (c *Chain) N() uint64 { return c.State.N }

// ReadChecked returns all bytes of an object that has a checksum of its own, which the caller checks. It
// takes one request if the object has fewer than guess bytes, and refuses one of more than most bytes. If there
// is no such object, the error wraps fs.ErrNotExist.
func ReadChecked(ctx context.Context, b bucket.Bucket, name string, guess int, most int64) ([]byte, error) {
	// Most objects are shorter than guess, and a read that meets the end has all of them. Only for
	// a longer one is the size asked for, and then the rest.
	src := make([]byte, guess)
	n, err := b.ReadAt(ctx, name, src, 0)
	if err == io.EOF {
		return src[:n], nil
	}
	if err != nil {
		return nil, err
	}
	info, err := b.Stat(ctx, name)
	switch {
	case err != nil:
		return nil, err
	case info.Size > most:
		return nil, bucket.CallError("read", name, fmt.Errorf("it has %d bytes, at most %d are expected", info.Size, most))
	case info.Size <= int64(guess):
		return src[:min(int64(guess), max(0, info.Size))], nil
	}
	src = append(src, make([]byte, info.Size-int64(guess))...)
	// The object may be replaced between the two reads. Then its checksum is wrong, which the
	// caller finds.
	if _, err := b.ReadAt(ctx, name, src[guess:], int64(guess)); err != nil {
		if err == io.EOF {
			err = bucket.CallError("read", name, io.ErrUnexpectedEOF)
		}
		return nil, err
	}
	return src, nil
}

// readObject reads an object and decodes it, and does so once more if it is damaged: see Twice.
func readObject[T any](ctx context.Context, b bucket.Bucket, name string, guess int, most int64, decode func(src []byte) (T, error)) (T, error) {
	return Twice(func() (o T, err error) {
		src, err := ReadChecked(ctx, b, name, guess, most)
		if err != nil {
			return o, err
		}
		return decode(src)
	})
}

// ReadIdentity reads which store the bucket has. If nobody has used the bucket yet, the error wraps
// fs.ErrNotExist.
func ReadIdentity(ctx context.Context, b bucket.Bucket) (*object.Identity, error) {
	return readObject(ctx, b, object.IdentityName, object.IdentitySize+1, object.IdentitySize, object.DecodeIdentity)
}

// ReadStep reads step n. If it is not there, the error wraps fs.ErrNotExist. Whether the step is a
// stray is not checked.
func ReadStep(ctx context.Context, b bucket.Bucket, storeID, n uint64) (*object.Step, error) {
	name := object.StepName(n)
	return readObject(ctx, b, name, stepGuess, maxObject, func(src []byte) (*object.Step, error) { return object.DecodeStep(name, storeID, src) })
}

// NewestStep returns the number of the newest step, by a list of those behind step after. It returns
// after if there is none.
func NewestStep(ctx context.Context, b bucket.Bucket, after uint64) (uint64, error) {
	newest := after
	for info, err := range b.List(ctx, object.StepFolder, object.StepName(after)) {
		if err != nil {
			return 0, err
		}
		if name, ok := object.ParseName(info.Name); ok {
			newest = max(newest, name.Num)
		}
	}
	return newest, nil
}

// ReadNewest reads the newest step behind step after, and returns nil if there is none. The step was the newest
// one at some time during the call.
func ReadNewest(ctx context.Context, b bucket.Bucket, storeID, after uint64) (*object.Step, error) {
	n, err := NewestStep(ctx, b, after)
	for err == nil && n != after {
		step, readErr := ReadStep(ctx, b, storeID, n)
		if readErr != nil && !errors.Is(readErr, fs.ErrNotExist) {
			return nil, readErr
		}
		// If there is none behind it now, then it was the newest when it was read, and no stray.
		var later uint64
		later, err = NewestStep(ctx, b, n)
		switch {
		case err == nil && later == n && readErr == nil:
			return step, nil
		case err == nil && later == n:
			return nil, fmt.Errorf("remote: the newest step was listed but can't be read: %w", readErr)
		}
		n = later
	}
	return nil, err
}

// checkFloorOf returns an error that wraps ErrSnapshotGone if step n and those after it, which the caller has read,
// may be gone or strays: the floor is above n. newest is the newest of them.
// It takes one LIST, and more only if there are newer steps.
func checkFloorOf(ctx context.Context, b bucket.Bucket, storeID, n, newest uint64) error {
	step, err := ReadNewest(ctx, b, storeID, newest)
	if err == nil && step != nil && step.Floor > n {
		err = fmt.Errorf("remote: step %d is below the floor, which is step %d now: %w", n, step.Floor, ErrSnapshotGone)
	}
	return err
}

// LoadChain reads the chain up to step n, or up to the newest step if n is 0. If the store has no steps then, the
// chain has none. It begins with the newest state that is not behind n.
//
// If step n is below the floor, the error wraps ErrSnapshotGone. Nothing keeps the objects that the state names
// from being deleted, once the floor is above it: see pin.
func LoadChain(ctx context.Context, b bucket.Bucket, storeID, n uint64) (*Chain, error) {
	var err error
	for range ChainTries {
		var c *Chain
		c, err = tryLoadChain(ctx, b, storeID, n)
		if err == nil {
			return c, nil
		}
		if !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, ErrSnapshotGone) {
			return nil, err
		}
		// A listed object is gone: the floor was raised meanwhile. Nothing is ever made again below the floor.
		if n == 0 {
			continue
		}
		newest, floorErr := ReadNewest(ctx, b, storeID, 0)
		if floorErr == nil && newest != nil && newest.Floor > n {
			floorErr = fmt.Errorf("remote: step %d is below the floor, which is step %d: %w", n, newest.Floor, ErrSnapshotGone)
		}
		if floorErr != nil {
			return nil, floorErr
		}
		if newest == nil {
			return nil, fmt.Errorf("remote: there is no step %d yet, and no other one: publish first: %w", n, fs.ErrNotExist)
		}
		if newest.N < n {
			return nil, fmt.Errorf("remote: there is no step %d yet, the newest is step %d: %w", n, newest.N, fs.ErrNotExist)
		}
	}
	return nil, err
}

// tryLoadChain is LoadChain. If the floor is raised meanwhile, it may fail with an error that wraps
// fs.ErrNotExist or ErrSnapshotGone.
func tryLoadChain(ctx context.Context, b bucket.Bucket, storeID, n uint64) (*Chain, error) {
	if n == 0 {
		var err error
		if n, err = NewestStep(ctx, b, 0); err != nil {
			return nil, err
		}
	}
	if n == 0 {
		return &Chain{StoreID: storeID, State: object.EmptyState(storeID)}, nil
	}
	c, begin, err := readChain(ctx, b, storeID, n)
	first := begin + 1 // the first step that was read and must be no stray
	if begin == n {
		first = n
	}
	switch {
	case object.IsDamage(err):
		// A stray does not fit to the others. Then this says that it is gone.
		return nil, errors.Join(checkFloorOf(ctx, b, storeID, first, n), err)
	case err != nil:
		return nil, err
	case c.State.Floor > first:
		return nil, fmt.Errorf("remote: step %d is below the floor, which is step %d: %w", first, c.State.Floor, ErrSnapshotGone)
	}
	return c, checkFloorOf(ctx, b, storeID, first, n)
}

// readChain reads the newest state that is not behind step n, whose number is begin, and the steps from there
// up to n. It does not look whether these are strays. If something is not there, the error wraps
// fs.ErrNotExist. Requires: n is not 0.
func readChain(ctx context.Context, b bucket.Bucket, storeID, n uint64) (c *Chain, begin uint64, err error) {
	c = &Chain{StoreID: storeID, State: object.EmptyState(storeID)}
	if begin, err = newestState(ctx, b, n); err != nil {
		return nil, 0, err
	}
	if c.Stated = begin; begin > 0 {
		if c.State, err = ReadState(ctx, b, storeID, begin); err != nil {
			return nil, begin, err
		}
	}
	// A state says neither the epoch nor the writer of its step, so the step is read too.
	if begin == n {
		if c.Step, err = ReadStep(ctx, b, storeID, n); err != nil {
			return nil, begin, err
		}
	}
	for c.N() < n {
		step, err := ReadStep(ctx, b, storeID, c.N()+1)
		if err == nil {
			err = c.Apply(step)
		}
		if err != nil {
			return nil, begin, err
		}
	}
	return c, begin, nil
}

// newestState returns the number of the newest state that is not behind step n, and 0 if there is none.
func newestState(ctx context.Context, b bucket.Bucket, n uint64) (uint64, error) {
	newest := uint64(0)
	for info, err := range b.List(ctx, object.StateFolder, "") {
		if err != nil {
			return 0, err
		}
		name, ok := object.ParseName(info.Name)
		if ok && name.Num > n {
			break
		}
		if ok {
			newest = name.Num
		}
	}
	return newest, nil
}

// ReadState reads the state after step n. If it is not there, the error wraps fs.ErrNotExist.
func ReadState(ctx context.Context, b bucket.Bucket, storeID, n uint64) (*object.State, error) {
	name := object.StateName(n)
	return readObject(ctx, b, name, stateGuess, maxObject, func(src []byte) (*object.State, error) { return object.DecodeState(name, storeID, src) })
}

// Apply makes step the newest one of c. If it returns an error, c has not changed.
func (c *Chain) Apply(step *object.Step) error {
	next, err := object.StateAfter(c.State, step)
	// Each claim raises the epoch, and between two claims all steps are of one writer. A step that
	// breaks this is a stray or damaged.
	if c.Step != nil && err == nil {
		switch claim := step.Kind == object.StepClaim; {
		case claim && step.Epoch <= c.Step.Epoch:
			err = fmt.Errorf("it claims epoch %d after epoch %d", step.Epoch, c.Step.Epoch)
		case !claim && (step.Epoch != c.Step.Epoch || step.Writer != c.Step.Writer):
			err = fmt.Errorf("it is of epoch %d, writer %016x, after epoch %d, writer %016x, without a claim", step.Epoch, step.Writer, c.Step.Epoch, c.Step.Writer)
		}
	}
	if err != nil {
		return object.Damage(step.Name(), "step", err)
	}
	c.Step, c.State, c.Misses = step, next, 0
	if c.Writer != 0 {
		c.keepNeeds(step)
	}
	return nil
}

// Next reads the step behind c's newest one and applies it. It returns nil if there is none yet. If c is
// below the floor, the error wraps ErrSnapshotGone, and the caller has to load the chain again.
func (c *Chain) Next(ctx context.Context, b bucket.Bucket) (*object.Step, error) {
	n := c.N() + 1
	step, err := ReadStep(ctx, b, c.StoreID, n)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		// Nothing new is the usual answer to a poll. It may also mean that the step was there and
		// is collected, and then no later poll would ever find it. So now and then a list looks for
		// steps behind it.
		c.Misses++
		if c.Misses%MissesToList != 0 {
			return nil, nil
		}
		return nil, checkFloorOf(ctx, b, c.StoreID, n, n-1)
	case err != nil:
		return nil, err
	}
	if err := checkFloorOf(ctx, b, c.StoreID, n, n); err != nil {
		return nil, err
	}
	return step, c.Apply(step)
}

// ErrOtherStep is returned by publish if an earlier attempt of the same owner stands at the place of the step. The
// chain goes up to that one now, and the caller publishes the rest.
var ErrOtherStep = errors.New("remote: an earlier attempt to publish has succeeded")

// Publish appends a step to the chain of an owner. The caller sets Written, Kind, Edit, Extents,
// LastTableSeq, and Floor if it shall be raised. note is called with the number of the step before the
// step is put, for the directory to keep.
//
// If the error wraps ErrFenced, another writer has claimed the store. After any other error but
// ErrOtherStep it is unknown whether the step was appended. The caller may publish another one, made from c as it
// is then.
func (c *Chain) Publish(ctx context.Context, b bucket.Bucket, step *object.Step, note func(n uint64) error) error {
	step.StoreID, step.N, step.Epoch, step.Writer = c.StoreID, c.N()+1, c.Epoch, c.Writer
	step.Floor = max(step.Floor, c.State.Floor)
	if len(step.Extents) == 0 {
		step.Extents = c.State.Extents
	}
	if _, err := object.StateAfter(c.State, step); err != nil {
		return object.EncodeError(step.Name(), err)
	}
	src, err := step.Encode(nil)
	if err != nil {
		return err
	}
	if err := note(step.N); err != nil {
		return err
	}
	// The PUT comes first and the list after it. The other way round, steps that came between the
	// two would go unseen.
	there, err := c.put(ctx, b, step, src)
	if err != nil {
		return err
	}
	if err := c.LookBehind(ctx, b, step.N); err != nil {
		return err
	}
	if err := c.Apply(there); err != nil {
		return err
	}
	if there != step {
		return ErrOtherStep
	}
	return nil
}

// put creates the object of a step, whose bytes are src, and returns the step that stands there then: step, or an
// earlier attempt of the same writer. If it is another writer's, the error wraps ErrFenced.
func (c *Chain) put(ctx context.Context, b bucket.Bucket, step *object.Step, src []byte) (*object.Step, error) {
	err := bucket.PutObject(ctx, b, step.Name(), src, true)
	if !errors.Is(err, bucket.ErrExists) {
		return step, err
	}
	// The name may be taken by this very step, if the answer to an earlier PUT was lost; by another
	// attempt of this writer; or by another writer. Only the object itself says which.
	same := false
	there, err := readObject(ctx, b, step.Name(), stepGuess, maxObject, func(taken []byte) (*object.Step, error) {
		if same = bytes.Equal(taken, src); same {
			return step, nil
		}
		return object.DecodeStep(step.Name(), c.StoreID, taken)
	})
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, fmt.Errorf("remote: step %d was there and is deleted: %w", step.N, ErrFenced)
	case err != nil || same:
		return there, err
	}
	if there.Writer != step.Writer || there.Epoch != step.Epoch {
		return nil, fmt.Errorf("remote: step %d is of epoch %d, writer %016x: %w", there.N, there.Epoch, there.Writer, ErrFenced)
	}
	return there, nil
}

// LookBehind returns an error that wraps ErrFenced if there are steps behind step n, which the caller has
// just appended. The name of step n may have been free because it was used and deleted, but then a
// later one stands behind it.
func (c *Chain) LookBehind(ctx context.Context, b bucket.Bucket, n uint64) error {
	newest, err := NewestStep(ctx, b, n)
	if err == nil && newest != n {
		err = fmt.Errorf("remote: step %d stands behind step %d: %w", newest, n, ErrFenced)
	}
	return err
}

// PutState writes the state after c's newest step, so that restores and readers need not read the steps before.
func (c *Chain) PutState(ctx context.Context, b bucket.Bucket) error {
	src, err := c.State.Encode(nil)
	if err != nil {
		return err
	}
	// An owner that was stopped may also write its state late. It is the sum of the same steps, so
	// it is the right one whoever has written it.
	// If the name is taken, an earlier attempt or an earlier owner has written the same state.
	if err := bucket.PutObject(ctx, b, c.State.Name(), src, true); !errors.Is(err, bucket.ErrExists) {
		return err
	}
	return nil
}
