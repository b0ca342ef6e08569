package remote

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

// pinOptions are those of remote.PinOptions, and what tests set.
type pinOptions struct {
	Step  uint64
	Owner string
	Lasts time.Duration

	now  func() time.Time // nil: time.Now
	draw func() uint64    // draws the number of a pin; nil: at random
}

// pinGuess is how many bytes are asked for first, when a pin is read. No pin has more.
const pinGuess = 4 << 10

// The label of a pin is a name that people choose, a '.', and a number of 16 hexadecimal digits, drawn at random.
// So no two pins are the same object, and none is written twice: a Put or Delete of one that arrives late can't
// do anything to another one. Each renewal of a pin has the next number.

// pinLabel returns the label of the pin with a name and a number.
func pinLabel(name string, num uint64) string { return fmt.Sprintf("%s.%016x", name, num) }

// splitLabel returns the name and the number of a label.
func splitLabel(label string) (name string, num uint64, ok bool) {
	i := strings.LastIndexByte(label, '.')
	if i < 0 || len(label)-i != 17 {
		return "", 0, false
	}
	num, err := strconv.ParseUint(label[i+1:], 16, 64)
	name = label[:i]
	return name, num, err == nil && pinLabel(name, num) == label
}

// pin keeps the objects of a step from being deleted. If the step is below the floor, the error wraps
// ErrSnapshotGone.
func pin(ctx context.Context, b Bucket, storeID uint64, name string, o pinOptions) (*Pin, error) {
	for try := 1; ; try++ {
		c, err := loadChain(ctx, b, storeID, o.Step)
		if err != nil {
			return nil, err
		}
		if c.step == nil {
			return nil, fmt.Errorf("remote: pin %q: the store has no steps yet: publish first", name)
		}
		p, err := c.pin(ctx, b, name, o)
		if o.Step != 0 || try == chainTries || !errors.Is(err, ErrSnapshotGone) {
			return p, err
		}
		// The newest step was left behind by the floor meanwhile: there is a newer one.
	}
}

// pin keeps the objects of c's state from being deleted.
//
// It writes the pin, and then reads the newest floor. If that is not above the state, every collector with a
// higher floor publishes the floor later, and lists the pins after that. So it sees this one.
func (c *chain) pin(ctx context.Context, b Bucket, name string, o pinOptions) (*Pin, error) {
	if object.CheckPin(pinLabel(name, 0)) != nil {
		return nil, fmt.Errorf("remote: %q is no name for a pin: choose 1 to %d lower-case letters, digits, '.', '-' or '_', without '.' at either end",
			name, bucket.MaxNamePart-len(pinLabel("", 0)))
	}
	if c.step == nil { // c begins with a state, see wholeChain
		return nil, base.Corruption(StepName(c.n()), -1, "step", errors.New("it can't be read, so no pin can name it"))
	}
	if o.now == nil {
		o.now = time.Now
	}
	if o.draw == nil {
		o.draw = func() uint64 { return rand.Uint64N(1 << 63) } // there is room for renewals
	}
	p := &Pin{
		StoreID: c.storeID, N: c.n(), Written: c.state.Written, Epoch: c.step.Epoch, Writer: c.step.Writer,
		Label: pinLabel(name, o.draw()), Owner: o.Owner,
	}
	if o.Lasts > 0 {
		p.Expires = o.now().Add(o.Lasts)
	}
	if err := putPin(ctx, b, p, true); err != nil {
		return nil, err
	}
	return p, keepPinIf(ctx, b, p, c.checkFloor(ctx, b))
}

// checkFloor returns an error that wraps ErrSnapshotGone if the newest floor is above c's newest step.
func (c *chain) checkFloor(ctx context.Context, b Bucket) error {
	return checkFloorOf(ctx, b, c.storeID, c.n(), c.n())
}

// putPin makes the object of a pin. absent is that of Bucket.Put.
func putPin(ctx context.Context, b Bucket, p *Pin, absent bool) error {
	src, err := p.Encode(nil)
	if err != nil {
		return err
	}
	return PutObject(ctx, b, p.Name(), src, absent)
}

// keepPinIf returns nil if err is nil. Otherwise it withdraws the pin, and returns err.
func keepPinIf(ctx context.Context, b Bucket, p *Pin, err error) error {
	if err == nil {
		return nil
	}
	withdrawErr := b.Delete(ctx, p.Name())
	if buckets.Refused(withdrawErr) {
		// Whoever may not delete makes it one that has expired. Collections would end with an error at one that lasts.
		expired := *p
		expired.Expires = p.Written
		withdrawErr = putPin(ctx, b, &expired, false)
	}
	if withdrawErr != nil {
		return fmt.Errorf("%w (and pin %s, which protects nothing, is left: %w)", err, p.Label, withdrawErr)
	}
	return err
}

// renewPin makes p last longer from now: it returns another pin of the same step, whose label is behind that of p and which
// takes its place. p may be given up then, or left to expire. If p has expired and the step was given up, the error wraps
// ErrSnapshotGone.
//
// The new pin is written before the old one is looked for. If the old one is still there, every collector sees one of
// the two: a list before this time has the old one, and one after it the new one. That holds for a list that is made
// meanwhile, too: it passes by the old one first. A collector keeps what the pins that it has listed need, expired or not.
func renewPin(ctx context.Context, b Bucket, p *Pin, lasts time.Duration, now time.Time) (*Pin, error) {
	name, num, ok := splitLabel(p.Label)
	if !ok || p.Expires.IsZero() {
		return nil, fmt.Errorf("remote: pin %s does not expire and needs no renewal", p.Label)
	}
	next := *p
	next.Label, next.Expires = pinLabel(name, num+1), now.Add(lasts)
	if err := putPin(ctx, b, &next, true); err != nil {
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

// unpin removes a pin. It is no error if there is none.
func unpin(ctx context.Context, b Bucket, label string) error {
	name, err := PinName(label)
	if err != nil {
		return err
	}
	return b.Delete(ctx, name)
}

// readPin reads the pin with a label. If there is none, the error wraps fs.ErrNotExist.
func readPin(ctx context.Context, b Bucket, storeID uint64, label string) (*Pin, error) {
	name, err := PinName(label)
	if err != nil {
		return nil, err
	}
	src, err := readChecked(ctx, b, name, pinGuess, maxObject)
	if err != nil {
		return nil, err
	}
	return DecodePin(name, storeID, src)
}

// findPin returns the pin with a label or with a name. Of several with the same name it is that of the newest step.
// If there is none, the error wraps fs.ErrNotExist.
func findPin(ctx context.Context, b Bucket, storeID uint64, name string) (*Pin, error) {
	if err := object.CheckPin(name); err != nil {
		return nil, fmt.Errorf("remote: %w", err)
	}
	var found *Pin
	for info, err := range b.List(ctx, object.PinFolder+name, "") {
		if err != nil {
			return nil, err
		}
		label := strings.TrimPrefix(info.Name, object.PinFolder)
		if called, _, ok := splitLabel(label); label != name && (!ok || called != name) {
			continue
		}
		p, err := readPin(ctx, b, storeID, label)
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

// listPins returns all pins, in the order of their labels. It begins again if it has to.
func listPins(ctx context.Context, b Bucket, storeID uint64) ([]*Pin, error) {
	for range chainTries {
		if pins, complete, err := tryListPins(ctx, b, storeID); err != nil || complete {
			return pins, err
		}
	}
	return nil, fmt.Errorf("remote: the pins of the store change all the time: they were listed %d times", chainTries)
}

// tryListPins is one attempt of listPins. If complete is true, it has every pin that was there before the call, or one that has
// taken its place, unless it was given up. It is false if a pin vanishes between the list and the read: another one may have
// taken its place that was not there yet when the list was made.
func tryListPins(ctx context.Context, b Bucket, storeID uint64) (pins []*Pin, complete bool, err error) {
	for info, err := range b.List(ctx, object.PinFolder, "") {
		if err != nil {
			return nil, false, err
		}
		name, ok := ParseName(info.Name)
		if !ok {
			continue
		}
		p, err := readPin(ctx, b, storeID, name.Pin)
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

// pinnedState returns the state that a pin keeps, and the number of the state in the bucket that it is made from. If something of it
// is gone, the error wraps ErrSnapshotGone: the pin was removed, has expired, or was written too late and protects nothing.
func pinnedState(ctx context.Context, b Bucket, p *Pin) (state *State, from uint64, err error) {
	for range chainTries { // a collection may find a newer state meanwhile, and let an earlier one go
		var c *chain
		if c, from, err = readChain(ctx, b, p.StoreID, p.N); err == nil {
			if c.step.Epoch == p.Epoch && c.step.Writer == p.Writer {
				return c.state, from, nil
			}
			err = fmt.Errorf("step %d is of epoch %d, writer %016x", p.N, c.step.Epoch, c.step.Writer)
			break
		}
		if !errors.Is(err, fs.ErrNotExist) {
			return nil, 0, err
		}
	}
	return nil, 0, fmt.Errorf("remote: pin %s keeps step %d, of which not all is there (shale-remote unpin removes the pin): %w (%w)", p.Label, p.N, ErrSnapshotGone, err)
}
