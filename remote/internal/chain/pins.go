package chain

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"strconv"
	"strings"
	"time"

	"github.com/shaledb/shale/internal/base"
	"github.com/shaledb/shale/remote/internal/bucket"
	"github.com/shaledb/shale/remote/internal/buckets"
	"github.com/shaledb/shale/remote/internal/object"
)

// Pins: how they are made, renewed, found and listed, so that a collection either sees a pin or has
// not begun to delete what it needs. The order of the calls is what makes this true.

// PinOptions are remote.PinOptions, with two fields that tests set.
type PinOptions struct {
	Step  uint64
	Owner string
	Lasts time.Duration

	Now  func() time.Time // nil: time.Now
	Draw func() uint64    // draws the number of a pin; nil: at random
}

// pinGuess is how many bytes are asked for first, when a pin is read. No pin has more.
// The owner has at most 1,024 bytes and the label 200; head, numbers, tags and checksum take less
// than 200.
const pinGuess = 4 << 10

// The label of a pin is a name that people choose, a '.', and a number of 16 hexadecimal digits, drawn at random.
// So no two pins are the same object, and none is written twice: a Put or Delete of one that arrives late can't
// do anything to another one. Each renewal of a pin has the next number.

// pinLabel returns the label of the pin with a name and a number.
func pinLabel(name string, num uint64) string { return fmt.Sprintf("%s.%016x", name, num) }

// SplitLabel returns the name and the number of a label.
func SplitLabel(label string) (name string, num uint64, ok bool) {
	i := strings.LastIndexByte(label, '.')
	if i < 0 || len(label)-i != 17 {
		return "", 0, false
	}
	// ParseUint takes forms that pinLabel does not make, such as upper-case digits. So the label is
	// made again and compared.
	num, err := strconv.ParseUint(label[i+1:], 16, 64)
	name = label[:i]
	return name, num, err == nil && pinLabel(name, num) == label
}

// Pin keeps the objects of a step from being deleted. If the step is below the floor, the error wraps
// ErrSnapshotGone.
func Pin(ctx context.Context, b bucket.Bucket, storeID uint64, name string, o PinOptions) (*object.Pin, error) {
	for try := 1; ; try++ {
		c, err := LoadChain(ctx, b, storeID, o.Step)
		if err != nil {
			return nil, err
		}
		if c.Step == nil {
			return nil, fmt.Errorf("remote: pin %q: the store has no steps yet: publish first", name)
		}
		p, err := c.Pin(ctx, b, name, o)
		if o.Step != 0 || try == ChainTries || !errors.Is(err, ErrSnapshotGone) {
			return p, err
		}
		// The newest step was left behind by the floor meanwhile: there is a newer one.
	}
}

// Pin keeps the objects of c's state from being deleted.
//
// It writes the pin, and then reads the newest floor. If that is not above the state, every collector with a
// higher floor publishes the floor later, and lists the pins after that. So it sees this one.
func (c *Chain) Pin(ctx context.Context, b bucket.Bucket, name string, o PinOptions) (*object.Pin, error) {
	if object.CheckPin(pinLabel(name, 0)) != nil {
		return nil, fmt.Errorf("remote: %q is no name for a pin: choose 1 to %d lower-case letters, digits, '.', '-' or '_', without '.' at either end",
			name, bucket.MaxNamePart-len(pinLabel("", 0)))
	}
	if c.Step == nil { // c begins with a state, see wholeChain
		return nil, base.Corruption(object.StepName(c.N()), -1, "step", errors.New("it can't be read, so no pin can name it"))
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Draw == nil {
		o.Draw = func() uint64 { return rand.Uint64N(1 << 63) } // there is room for renewals
	}
	p := &object.Pin{
		StoreID: c.StoreID, N: c.N(), Written: c.State.Written, Epoch: c.Step.Epoch, Writer: c.Step.Writer,
		Label: pinLabel(name, o.Draw()), Owner: o.Owner,
	}
	if o.Lasts > 0 {
		p.Expires = o.Now().Add(o.Lasts)
	}
	if err := PutPin(ctx, b, p, true); err != nil {
		return nil, err
	}
	return p, keepPinIf(ctx, b, p, c.CheckFloor(ctx, b))
}

// CheckFloor returns an error that wraps ErrSnapshotGone if the newest floor is above c's newest step.
func (c *Chain) CheckFloor(ctx context.Context, b bucket.Bucket) error {
	return checkFloorOf(ctx, b, c.StoreID, c.N(), c.N())
}

// PutPin makes the object of a pin. absent is the argument of Bucket.Put.
// Only keepPinIf replaces a pin, by one that has expired.
func PutPin(ctx context.Context, b bucket.Bucket, p *object.Pin, absent bool) error {
	src, err := p.Encode(nil)
	if err != nil {
		return err
	}
	return bucket.PutObject(ctx, b, p.Name(), src, absent)
}

// keepPinIf returns nil if err is nil. Otherwise it withdraws the pin, and returns err.
func keepPinIf(ctx context.Context, b bucket.Bucket, p *object.Pin, err error) error {
	if err == nil {
		return nil
	}
	withdrawErr := b.Delete(ctx, p.Name())
	if buckets.Refused(withdrawErr) {
		// Without the right to delete, the pin is replaced by one that has expired. Collections would fail at one that lasts.
		expired := *p
		expired.Expires = p.Written
		withdrawErr = PutPin(ctx, b, &expired, false)
	}
	if withdrawErr != nil {
		return fmt.Errorf("%w (and pin %s, which protects nothing, is left: %w)", err, p.Label, withdrawErr)
	}
	return err
}

// RenewPin makes p last longer from now: it returns another pin of the same step, whose label is behind that of p and which
// takes its place. p may be given up then, or left to expire. If p has expired and the step was given up, the error wraps
// ErrSnapshotGone.
//
// The new pin is written before the old one is looked for. If the old one is still there, every collector sees one of
// the two: a list before this time has the old one, and one after it the new one. That holds for a list that is made
// meanwhile, too: it passes by the old one first. A collector keeps what the pins that it has listed need, expired or not.
func RenewPin(ctx context.Context, b bucket.Bucket, p *object.Pin, lasts time.Duration, now time.Time) (*object.Pin, error) {
	name, num, ok := SplitLabel(p.Label)
	if !ok || p.Expires.IsZero() {
		return nil, fmt.Errorf("remote: pin %s does not expire and needs no renewal", p.Label)
	}
	next := *p
	next.Label, next.Expires = pinLabel(name, num+1), now.Add(lasts)
	if err := PutPin(ctx, b, &next, true); err != nil {
		return nil, err
	}
	_, err := b.Stat(ctx, p.Name())
	if errors.Is(err, fs.ErrNotExist) || err == nil && !now.Before(p.Expires) {
		// The old one protects nothing any more, so this is like a first pin.
		err = checkFloorOf(ctx, b, p.StoreID, p.N, p.N)
	}
	if err := keepPinIf(ctx, b, &next, err); err != nil {
		return nil, err
	}
	return &next, nil
}

// Unpin removes a pin. It is no error if there is none.
// A call that arrives late or twice does no harm, since no label is used for a second pin.
func Unpin(ctx context.Context, b bucket.Bucket, label string) error {
	name, err := object.PinName(label)
	if err != nil {
		return err
	}
	return b.Delete(ctx, name)
}

// ReadPin reads the pin with a label. If there is none, the error wraps fs.ErrNotExist.
func ReadPin(ctx context.Context, b bucket.Bucket, storeID uint64, label string) (*object.Pin, error) {
	name, err := object.PinName(label)
	if err != nil {
		return nil, err
	}
	return readObject(ctx, b, name, pinGuess, maxObject, func(src []byte) (*object.Pin, error) { return object.DecodePin(name, storeID, src) })
}

// FindPin returns the pin with a label or with a name. Of several with the same name it returns the one of the newest step.
// If there is none, the error wraps fs.ErrNotExist.
func FindPin(ctx context.Context, b bucket.Bucket, storeID uint64, name string) (*object.Pin, error) {
	if err := object.CheckPin(name); err != nil {
		return nil, fmt.Errorf("remote: %w", err)
	}
	var found *object.Pin
	for info, err := range b.List(ctx, object.PinFolder+name, "") {
		if err != nil {
			return nil, err
		}
		// A list by prefix also has pins whose names only begin alike.
		label := strings.TrimPrefix(info.Name, object.PinFolder)
		if called, _, ok := SplitLabel(label); label != name && (!ok || called != name) {
			continue
		}
		p, err := ReadPin(ctx, b, storeID, label)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, err
		}
		if found == nil || p.N > found.N || p.N == found.N && p.Label > found.Label {
			found = p
		}
	}
	if found == nil {
		return nil, fmt.Errorf("remote: there is no pin %q, look at the list of pins: %w", name, fs.ErrNotExist)
	}
	return found, nil
}

// ListPins returns all pins, in the order of their labels. It begins again if it has to.
func ListPins(ctx context.Context, b bucket.Bucket, storeID uint64) ([]*object.Pin, error) {
	for range ChainTries {
		if pins, complete, err := tryListPins(ctx, b, storeID); err != nil || complete {
			return pins, err
		}
	}
	return nil, fmt.Errorf("remote: the pins of the store change all the time: they were listed %d times", ChainTries)
}

// tryListPins is one attempt of ListPins. If complete is true, it has every pin that was there before the
// call, or one that has taken its place, unless it was given up. It is false if a pin vanishes between the
// list and the read: another one may have taken its place that was not there yet when the list was made.
func tryListPins(ctx context.Context, b bucket.Bucket, storeID uint64) (pins []*object.Pin, complete bool, err error) {
	for info, err := range b.List(ctx, object.PinFolder, "") {
		if err != nil {
			return nil, false, err
		}
		name, ok := object.ParseName(info.Name)
		if !ok {
			continue
		}
		p, err := ReadPin(ctx, b, storeID, name.Pin)
		if errors.Is(err, fs.ErrNotExist) {
			return nil, false, nil
		}
		if err != nil {
			return nil, false, err
		}
		pins = append(pins, p)
	}
	return pins, true, nil
}

// PinnedState returns the state that a pin keeps, and the number of the state in the bucket that it is made
// from. If something of it is gone, the error wraps ErrSnapshotGone: the pin was removed, has expired, or was
// written too late and protects nothing.
func PinnedState(ctx context.Context, b bucket.Bucket, p *object.Pin) (state *object.State, from uint64, err error) {
	for range ChainTries { // a collection may find a newer state meanwhile, and let an earlier one go
		var c *Chain
		if c, from, err = readChain(ctx, b, p.StoreID, p.N); err == nil {
			if c.Step.Epoch == p.Epoch && c.Step.Writer == p.Writer {
				return c.State, from, nil
			}
			err = fmt.Errorf("step %d is of epoch %d, writer %016x", p.N, c.Step.Epoch, c.Step.Writer)
			break
		}
		if !errors.Is(err, fs.ErrNotExist) {
			return nil, 0, err
		}
	}
	return nil, 0, fmt.Errorf("remote: pin %s keeps step %d, of which not all is there (shale-remote unpin removes the pin): %w (%w)", p.Label, p.N, ErrSnapshotGone, err)
}
