package chain

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"time"

	"github.com/shaledb/shale/remote/internal/bucket"
	"github.com/shaledb/shale/remote/internal/object"
)

// How a writer becomes the owner: it claims an epoch with a step, and then ends the list of
// segments for all earlier writers with a fence. The claim alone keeps nobody from shipping, and
// the fence alone names no owner.

// A Claimant is a writer that wants to own a store.
type Claimant struct {
	StoreID uint64
	Writer  uint64 // drawn at random; not 0
	Least   uint64 // the least epoch; 0 for any
	Now     func() time.Time
	Tries   int    // how many other writers may be faster, one after the other; 0: claimTries
	Newest  *Chain // up to the newest step, as far as the writer knows; nil: it is read
	// extents are those of the list of segments, as far as the writer has read it; nil: as the newest step has them.
	Extents []object.Extent
	// note is called before each attempt, with the newest step, nil if there is none, and the epoch that is
	// going to be claimed. The directory keeps what it needs to know its step again. An error ends the claim: the
	// directory may claim only a store that nobody else has written to.
	Note func(newest *object.Step, epoch uint64) error
}

// claimTries is claimant.tries if that is not set.
const claimTries = 100

// Claim makes a writer the owner of a store: it appends a claim to the chain of steps. The epoch is
// above all others.
//
// A program that returns from claim with a chain was the owner at some time during the call. Whether it still is
// shows when it appends something: a fence, a segment, a step. Only what is appended counts.
func Claim(ctx context.Context, b bucket.Bucket, w Claimant) (*Chain, error) {
	if w.Tries == 0 {
		w.Tries = claimTries
	}
	for range w.Tries {
		c, err := tryClaim(ctx, b, w)
		if err != nil || c != nil {
			return c, err
		}
		// What this writer knew is out of date. The next attempt reads the newest step, and Note
		// decides whether the directory may go on behind it.
		w.Newest = nil
	}
	return nil, fmt.Errorf("remote: other writers have claimed the store %d times meanwhile: see that one program at a time writes to it: %w", w.Tries, ErrFenced)
}

// tryClaim is one attempt of claim. It returns nil if another writer was faster. It changes w.newest.
func tryClaim(ctx context.Context, b bucket.Bucket, w Claimant) (*Chain, error) {
	c := w.Newest
	if c == nil {
		var err error
		if c, err = LoadChain(ctx, b, w.StoreID, 0); err != nil {
			return nil, err
		}
	}
	c.Epoch, c.Writer, c.Now = max(1, w.Least), w.Writer, w.Now
	step := &object.Step{Kind: object.StepClaim, Written: w.Now()}
	if last := c.Step; last != nil {
		c.Epoch = max(last.Epoch+1, w.Least)
		step.LastTableSeq = last.LastTableSeq
	}
	// After a lost race the newest step may be of another writer, and know of segments that this
	// one has not read. Its extents are then repeated.
	if object.CheckProgress(c.State.Extents, w.Extents) == nil {
		step.Extents = w.Extents
	}
	if c.Epoch > object.MaxEpoch {
		return nil, fmt.Errorf("remote: epoch %d is above %d, the last one: copy the store into another prefix", c.Epoch, uint64(object.MaxEpoch))
	}
	err := c.Publish(ctx, b, step, func(uint64) error { return w.Note(c.Step, c.Epoch) })
	switch {
	case errors.Is(err, ErrFenced):
		return nil, nil
	case err != nil && !errors.Is(err, ErrOtherStep): // another attempt of this writer is a claim too
		return nil, err
	}
	return c, nil
}

// Fence ends the list of segments for every earlier writer, and returns the place where it ended: every
// segment before it is kept, and none can be appended there any more. The list goes on at the anchor of c's
// epoch, where the owner appends next. from is a place of the list that the caller has come to, or the zero place.
//
// If a later writer has claimed the store, the error wraps ErrFenced.
func (c *Chain) Fence(ctx context.Context, b bucket.Bucket, from object.Position) (end object.Position, err error) {
	end, err = c.appendFence(ctx, b, from)
	if err == nil || errors.Is(err, fs.ErrNotExist) {
		// Parts of the list that are missing were needed by no step any more, so there are later ones. The fence may also
		// stand at such a place, where it keeps nobody from anything.
		err = errors.Join(c.LookBehind(ctx, b, c.N()), err)
	}
	return end, err
}

// appendFence appends the fence.
func (c *Chain) appendFence(ctx context.Context, b bucket.Bucket, at object.Position) (end object.Position, err error) {
	if at == (object.Position{}) {
		if at, err = ListEnd(ctx, b, c.StoreID, c.State.Extents); err != nil {
			return object.Position{}, err
		}
	}
	// The fence goes to the end of the list. If the old writer fills that place first, the search
	// goes on behind its segment. There is nothing to do if the list has come to the anchor of this
	// epoch already.
	mine := object.AnchorOf(c.Epoch)
	end = at
	for at != mine {
		for s, err := range (SegmentList{Bucket: b, StoreID: c.StoreID, Heads: true, AtOnce: c.AtOnce}).From(ctx, at) {
			if err != nil {
				return object.Position{}, err
			}
			if s.At() == mine {
				break // an earlier call has come as far, and the owner further
			}
			end, at = s.At(), s.After()
		}
		if at == mine {
			break // end is the place of the fence
		}
		// The end of the list is in this epoch or a later one: another writer has gone on there, and
		// its logs must not be fenced by this one.
		if at.Epoch() >= c.Epoch {
			return object.Position{}, fmt.Errorf("remote: the logs go on at %v, in epoch %d: %w", at, at.Epoch(), ErrFenced)
		}
		s := &object.Segment{StoreID: c.StoreID, Log: at.Log, Offset: at.Offset, Written: c.Now(), Next: mine.Log, Kind: object.SegmentFence}
		src, err := s.Encode(nil)
		if err != nil {
			return object.Position{}, err
		}
		switch err := bucket.PutObject(ctx, b, s.Name(), src, true); {
		case err == nil:
			return at, nil
		case !errors.Is(err, bucket.ErrExists):
			return object.Position{}, err
		}
		// The old writer was faster, or an earlier attempt has succeeded. Look again.
	}
	return end, nil
}
