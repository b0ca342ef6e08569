package remote

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"time"

	"github.com/shaledb/shale/remote/internal/buckets"
	"github.com/shaledb/shale/remote/internal/chain"
	"github.com/shaledb/shale/remote/internal/object"
)

// Pins as programs make and remove them. A pin belongs to nobody: whoever may delete in the bucket
// may remove it.

// A Pin keeps the objects of step N from being deleted until it Expires, or is removed. Label is its name and Owner
// its maker.
type Pin = object.Pin

// PinOptions says what a pin keeps, and for how long.
type PinOptions struct {
	Step  uint64        // the step whose state is kept; 0: the newest
	Owner string        // a note for people, such as the name of a program; up to 1,024 bytes
	Lasts time.Duration // how long it is kept if it is not renewed; 0: until it is removed
}

// SessionPin is how long the pin of a reader lasts. Readers renew theirs each third of that.
const SessionPin = time.Hour

// CreatePin keeps the state of a step from being deleted, until [RemovePin] is called or the pin expires. name has
// 1 to 183 lower-case letters, digits, '.', '-' and '_', with no '.' at either end; several pins may have it. The
// result's Label is the name with a number, which no other pin has. Anybody who may write to the bucket
// can make pins, also while the store is written.
//
// If the step is not kept any more, the error wraps [ErrSnapshotGone].
func CreatePin(ctx context.Context, b Bucket, name string, o PinOptions) (*Pin, error) {
	b = buckets.Retrying(b)
	storeID, err := storeOf(ctx, b)
	if err != nil {
		return nil, err
	}
	return chain.Pin(ctx, b, storeID, name, chain.PinOptions{Step: o.Step, Owner: o.Owner, Lasts: o.Lasts})
}

// Pin publishes what the store has now, and keeps it from being collected until [RemovePin], or as long as
// o.Lasts says. With o.Step it keeps an earlier step, and publishes nothing. A store can be restored
// to a pin, and read at it.
func (s *Store) Pin(ctx context.Context, name string, o PinOptions) (*Pin, error) {
	if err := s.begin(); err != nil {
		return nil, err
	}
	defer s.calls.Done()
	if o.Step == 0 {
		if err := s.publishAll(ctx, s.bucket); err != nil {
			return nil, err
		}
	}
	return chain.Pin(ctx, s.bucket, s.id, name, chain.PinOptions{Step: o.Step, Owner: o.Owner, Lasts: o.Lasts})
}

// Pins returns all pins of a store, those of readers too, in the order of their labels. Some may have expired, and not have
// been removed yet.
func Pins(ctx context.Context, b Bucket) ([]*Pin, error) {
	b = buckets.Retrying(b)
	storeID, err := storeOf(ctx, b)
	if err != nil {
		return nil, err
	}
	return chain.ListPins(ctx, b, storeID)
}

// RemovePin removes the pin with a name or a label. What it kept is deleted by the next collection, unless
// something else needs it. If there is no such pin, the error wraps fs.ErrNotExist.
func RemovePin(ctx context.Context, b Bucket, name string) error {
	b = buckets.Retrying(b)
	storeID, err := storeOf(ctx, b)
	if err != nil {
		return err
	}
	p, err := chain.FindPin(ctx, b, storeID, name)
	if err != nil {
		return err
	}
	if err := chain.Unpin(ctx, b, p.Label); err != nil {
		return fmt.Errorf("remote: remove pin %s: %w", p.Label, err)
	}
	return nil
}

// storeOf returns the id of the store in a bucket. That there is none is not the absence of a pin, so the
// error does not wrap fs.ErrNotExist.
func storeOf(ctx context.Context, b Bucket) (uint64, error) {
	id, err := chain.ReadIdentity(ctx, b)
	if errors.Is(err, fs.ErrNotExist) {
		return 0, errors.New("remote: the bucket has no store: ship one into it first, or correct the bucket's name")
	}
	if err != nil {
		return 0, err
	}
	return id.StoreID, nil
}
