package buckettest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"sync"
	"time"

	"github.com/shaledb/shale/remote"
)

// A bucket with the faults of networks and servers. What a fault does is chosen so that the caller
// can't find it out from the answer: an error that comes although the call took effect, and a call
// that takes effect long after its error.

// A Fault says what goes wrong with one call of a Faulty.
type Fault string

// The faults. A call that a fault does not fit to is done as usual: only Put and Delete can be late
// or duplicated, only a Put with absent can conflict, and only Put, ReadAt and List have a body. A call that hangs ends
// with its context, and has the error of that.
const (
	None       Fault = ""
	DropBefore Fault = "DropBefore" // the call is lost: nothing happens, and the caller gets ErrDropped
	DropAfter  Fault = "DropAfter"  // the answer is lost: it happens, and the caller gets ErrDropped
	Late       Fault = "Late"       // the caller gets ErrDropped, and it happens only when Replay is called
	Duplicate  Fault = "Duplicate"  // it happens, and happens again when Replay is called
	Delay      Fault = "Delay"      // it takes longer, by the wait of NewFaulty
	Conflict   Fault = "Conflict"   // the server asks to try again: nothing happens, and the caller gets ErrConflict
	Cut        Fault = "Cut"        // the body ends early: at the bucket, or at the caller with io.ErrUnexpectedEOF or ErrDropped
	Flip       Fault = "Flip"       // a bit of the body changes on the way; after a ReadAt only a checksum shows it
	HangBefore Fault = "HangBefore" // it hangs, and nothing happens
	HangBody   Fault = "HangBody"   // it hangs after a part of the body; a Put has made nothing then
	HangAfter  Fault = "HangAfter"  // it happens, and hangs
)

// faults are those that happen by chance. A seed stands for the same faults as long as their order stays.
var faults = []Fault{DropBefore, DropAfter, Late, Duplicate, Delay, Conflict, Cut, Flip, HangBefore, HangBody, HangAfter}

var (
	// ErrDropped is wrapped by the error of a call whose request or answer was lost. The caller
	// can't know which.
	ErrDropped = errors.New("connection lost")
	// ErrConflict is wrapped by the error of a Put that the server wants to see again, because it
	// was busy with another one of this name. It is not the answer that the name is taken.
	ErrConflict = errors.New("conflict: try again")
)

// An Op is one call of a method of a Faulty.
// A function that decides about faults sees no more than this, so it can be used again with any
// program.
type Op struct {
	N      int64  // the number of the call, from 1
	Call   Call   // the method
	Name   string // of the object; of a List the prefix
	Absent bool   // of a Put
}

// A Call is a method of remote.Bucket.
type Call string

// The calls.
const (
	Put    Call = "put"
	ReadAt Call = "read"
	Stat   Call = "stat"
	List   Call = "list"
	Delete Call = "delete"
)

// A Faulty is a bucket that passes calls to another one, with faults. Any number of goroutines may
// use it.
type Faulty struct {
	b      remote.Bucket
	decide func(Op) Fault
	wait   time.Duration

	mu     sync.Mutex // protects the following fields
	n      int64
	counts map[Call]int64
	held   []func(ctx context.Context) error // the calls that Replay makes
	random uint64                            // which bit, and how many bytes; the same each time
}

// NewFaulty returns a Faulty over b. decide chooses the fault of each call; it is called under a
// lock, in the order of Op.N, and nil means no faults. wait is how long a Delay takes. BySeed makes
// functions for decide.
func NewFaulty(b remote.Bucket, wait time.Duration, decide func(Op) Fault) *Faulty {
	if decide == nil {
		decide = func(Op) Fault { return None }
	}
	return &Faulty{b: b, decide: decide, wait: wait, counts: make(map[Call]int64)}
}

// Count returns the number of calls of one method so far, whatever has become of them.
func (f *Faulty) Count(call Call) int64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.counts[call]
}

// Replay does everything that is late, and repeats everything that was duplicated, in the order of
// the calls. It returns how many there were. Each is done once. The answers of the bucket are
// dropped, like those to packets that arrive after their sender is gone.
func (f *Faulty) Replay(ctx context.Context) int {
	f.mu.Lock()
	held := f.held
	f.held = nil
	f.mu.Unlock()
	for _, do := range held {
		_ = do(ctx) // see above
	}
	return len(held)
}

// next counts a call, and returns its fault and a random number.
func (f *Faulty) next(call Call, name string, absent bool) (Fault, uint64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.n++
	f.counts[call]++
	fault := f.decide(Op{f.n, call, name, absent})
	// This is the generator of Knuth's MMIX. Its low bits are poor, so the upper ones are used.
	f.random = f.random*6364136223846793005 + 1442695040888963407
	return fault, f.random >> 33
}

// hold keeps something for Replay.
func (f *Faulty) hold(do func(ctx context.Context) error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.held = append(f.held, do)
}

// failed returns the error of a call that a fault has made.
func failed(call Call, name string, err error) error {
	return fmt.Errorf("buckettest: %s %q: %w", call, name, err)
}

// hang waits for the end of ctx, and returns the error of a call that has hung.
func hang(ctx context.Context, call Call, name string) error {
	<-ctx.Done()
	return failed(call, name, ctx.Err())
}

// delay waits as long as a Delay takes, or for the end of ctx, whose error it returns.
func (f *Faulty) delay(ctx context.Context) error {
	timer := time.NewTimer(f.wait)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// change makes a call that changes the bucket, with the faults that are alike for all of them.
// A call that is late or doubled is held as a function, and has no context of its own: its caller
// may have gone by then.
func (f *Faulty) change(ctx context.Context, fault Fault, call Call, name string, do func(ctx context.Context) error) error {
	switch fault {
	case DropBefore:
		return failed(call, name, ErrDropped)
	case DropAfter:
		_ = do(ctx) // its answer gets lost
		return failed(call, name, ErrDropped)
	case Late:
		f.hold(do)
		return failed(call, name, ErrDropped)
	case HangBefore:
		return hang(ctx, call, name)
	case HangAfter:
		_ = do(ctx) // the same
		return hang(ctx, call, name)
	case Duplicate:
		f.hold(do)
	case Delay:
		if err := f.delay(ctx); err != nil {
			return failed(call, name, err)
		}
	}
	return do(ctx)
}

// Put copies the body, because a late or duplicated call needs it after the caller has gone on.
func (f *Faulty) Put(ctx context.Context, name string, body io.ReaderAt, size int64, crc32c uint32, absent bool) error {
	fault, random := f.next(Put, name, absent)
	if fault == Late || fault == Duplicate || fault == Cut || fault == Flip {
		data, err := io.ReadAll(io.NewSectionReader(body, 0, size))
		if err != nil {
			return failed(Put, name, err)
		}
		body = bytes.NewReader(spoil(data, fault, random))
	}
	if fault == Conflict && absent {
		return failed(Put, name, ErrConflict)
	}
	if fault == HangBody {
		return hang(ctx, Put, name)
	}
	return f.change(ctx, fault, Put, name, func(ctx context.Context) error {
		return f.b.Put(ctx, name, body, size, crc32c, absent)
	})
}

// spoil returns data as it arrives: Cut ends it early, and Flip changes a bit of a copy.
func spoil(data []byte, fault Fault, random uint64) []byte {
	n := uint64(len(data))
	switch {
	case n == 0:
	case fault == Cut:
		return data[:random%n]
	case fault == Flip:
		data = bytes.Clone(data)
		data[random/8%n] ^= 1 << (random % 8)
	}
	return data
}

// Delete may be late or doubled. A store must never need a name again that it has deleted.
func (f *Faulty) Delete(ctx context.Context, name string) error {
	fault, _ := f.next(Delete, name, false)
	return f.change(ctx, fault, Delete, name, func(ctx context.Context) error { return f.b.Delete(ctx, name) })
}

// ReadAt may return bytes that are cut or changed. The bucket below is not to blame, and a second
// read may be right.
func (f *Faulty) ReadAt(ctx context.Context, name string, p []byte, off int64) (int, error) {
	fault, random := f.next(ReadAt, name, false)
	if err := f.ask(ctx, fault, ReadAt, name); err != nil {
		return 0, err
	}
	n, err := f.b.ReadAt(ctx, name, p, off)
	if n == 0 {
		return n, err
	}
	copy(p, spoil(p[:n], fault, random))
	switch part := int(random % uint64(n)); fault {
	case Cut:
		return part, failed(ReadAt, name, io.ErrUnexpectedEOF)
	case HangBody:
		clear(p[part:n])
		return part, hang(ctx, ReadAt, name)
	}
	return n, err
}

// Stat has no body, so it can only be lost, slow or hang.
func (f *Faulty) Stat(ctx context.Context, name string) (remote.Info, error) {
	fault, _ := f.next(Stat, name, false)
	if err := f.ask(ctx, fault, Stat, name); err != nil {
		return remote.Info{}, err
	}
	return f.b.Stat(ctx, name)
}

// ask returns the error of a call that only reads, if its question or its answer is lost.
func (f *Faulty) ask(ctx context.Context, fault Fault, call Call, name string) error {
	switch fault {
	case DropBefore, DropAfter:
		return failed(call, name, ErrDropped)
	case HangBefore, HangAfter:
		return hang(ctx, call, name)
	case Delay:
		if err := f.delay(ctx); err != nil {
			return failed(call, name, err)
		}
	}
	return nil
}

// List has a fault each time that somebody goes through it. Cut ends it with ErrDropped after nine
// objects or fewer, and HangBody hangs there.
func (f *Faulty) List(ctx context.Context, prefix, after string) iter.Seq2[remote.Info, error] {
	return func(yield func(remote.Info, error) bool) {
		fault, random := f.next(List, prefix, false)
		if err := f.ask(ctx, fault, List, prefix); err != nil {
			yield(remote.Info{}, err)
			return
		}
		// At most nine objects come before a list is cut, which is less than the lists of most
		// tests have.
		left := random % 10
		for info, err := range f.b.List(ctx, prefix, after) {
			if (fault == Cut || fault == HangBody) && left == 0 {
				break
			}
			left--
			if !yield(info, err) {
				return
			}
		}
		switch fault {
		case Cut:
			yield(remote.Info{}, failed(List, prefix, ErrDropped))
		case HangBody:
			yield(remote.Info{}, hang(ctx, List, prefix))
		}
	}
}
