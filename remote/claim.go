package remote

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"time"

	"github.com/shaledb/shale/remote/internal/object"
)

// A claimant is a writer that wants to own a store.
type claimant struct {
	storeID uint64
	writer  uint64 // drawn at random; not 0
	least   uint64 // the least epoch; 0 for any
	now     func() time.Time
	tries   int    // how many other writers may be faster, one after the other; 0: claimTries
	newest  *chain // up to the newest step, as far as the writer knows; nil: it is read
	// extents are those of the list of segments, as far as the writer has read it; nil: as the newest step has them.
	extents []Extent
	// note is called before each attempt, with the newest step, nil if there is none, and the epoch that is
	// going to be claimed. The directory keeps what it needs to know its step again. An error ends the claim: the
	// directory may claim only a store that nobody else has written to.
	note func(newest *Step, epoch uint64) error
}

// claimTries is claimant.tries if that is not set.
const claimTries = 100

// claim makes a writer the owner of a store: it appends a claim to the chain of steps. The epoch is
// above all others.
//
// A program that returns from claim with a chain was the owner at some time during the call. Whether it still is
// shows when it appends something: a fence, a segment, a step. Only what is appended counts.
func claim(ctx context.Context, b Bucket, w claimant) (*chain, error) {
	if w.tries == 0 {
		w.tries = claimTries
	}
	for range w.tries {
		c, err := tryClaim(ctx, b, w)
		if err != nil || c != nil {
			return c, err
		}
		w.newest = nil
	}
	return nil, fmt.Errorf("remote: other writers have claimed the store %d times meanwhile: see that one program at a time writes to it: %w", w.tries, ErrFenced)
}

// tryClaim is one attempt of claim. It returns nil if another writer was faster. It changes w.newest.
func tryClaim(ctx context.Context, b Bucket, w claimant) (*chain, error) {
	c := w.newest
	if c == nil {
		var err error
		if c, err = loadChain(ctx, b, w.storeID, 0); err != nil {
			return nil, err
		}
	}
	c.epoch, c.writer, c.now = max(1, w.least), w.writer, w.now
	step := &Step{Kind: StepClaim, Written: w.now()}
	if last := c.step; last != nil {
		c.epoch = max(last.Epoch+1, w.least)
		step.LastTableSeq = last.LastTableSeq
	}
	if object.CheckProgress(c.state.Extents, w.extents) == nil {
		step.Extents = w.extents
	}
	if c.epoch > MaxEpoch {
		return nil, fmt.Errorf("remote: epoch %d is above %d, the last one: copy the store into another prefix", c.epoch, uint64(MaxEpoch))
	}
	err := c.publish(ctx, b, step, func(uint64) error { return w.note(c.step, c.epoch) })
	switch {
	case errors.Is(err, ErrFenced):
		return nil, nil
	case err != nil && !errors.Is(err, errOtherStep): // another attempt of this writer is a claim too
		return nil, err
	}
	return c, nil
}

// fence ends the list of segments for every earlier writer, and returns the place where it ended: every
// segment before it is kept, and none can be appended there any more. The list goes on at the anchor of c's
// epoch, where the owner appends next. from is a place of the list that the caller has come to, or the zero place.
//
// If a later writer has claimed the store, the error wraps ErrFenced.
func (c *chain) fence(ctx context.Context, b Bucket, from object.Position) (end object.Position, err error) {
	end, err = c.appendFence(ctx, b, from)
	if err == nil || errors.Is(err, fs.ErrNotExist) {
		// Parts of the list that are missing were needed by no step any more, so there are later ones. The fence may also
		// stand at such a place, where it keeps nobody from anything.
		err = errors.Join(c.lookBehind(ctx, b, c.n()), err)
	}
	return end, err
}

// appendFence appends the fence.
func (c *chain) appendFence(ctx context.Context, b Bucket, at object.Position) (end object.Position, err error) {
	if at == (object.Position{}) {
		if at, err = listEnd(ctx, b, c.storeID, c.state.Extents); err != nil {
			return object.Position{}, err
		}
	}
	mine := object.AnchorOf(c.epoch)
	end = at
	for at != mine {
		for s, err := range (segmentList{b: b, storeID: c.storeID, heads: true, atOnce: c.atOnce}).from(ctx, at) {
			if err != nil {
				return object.Position{}, err
			}
			if s.at() == mine {
				break // an earlier call has come as far, and the owner further
			}
			end, at = s.at(), s.after()
		}
		if at == mine {
			break // end is the place of the fence
		}
		if at.Epoch() >= c.epoch {
			return object.Position{}, fmt.Errorf("remote: the logs go on at %v, in epoch %d: %w", at, at.Epoch(), ErrFenced)
		}
		s := &Segment{StoreID: c.storeID, Log: at.Log, Offset: at.Offset, Written: c.now(), Next: mine.Log, Kind: SegmentFence}
		src, err := s.Encode(nil)
		if err != nil {
			return object.Position{}, err
		}
		switch err := PutObject(ctx, b, s.Name(), src, true); {
		case err == nil:
			return at, nil
		case !errors.Is(err, ErrExists):
			return object.Position{}, err
		}
		// The old writer was faster, or an earlier attempt has succeeded. Look again.
	}
	return end, nil
}
