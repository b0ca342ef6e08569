package remote

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/shaledb/shale"
	"github.com/shaledb/shale/manifest"
	"github.com/shaledb/shale/remote/internal/buckets"
	"github.com/shaledb/shale/remote/internal/localdir"
	"github.com/shaledb/shale/remote/internal/object"
	"github.com/shaledb/shale/vfs"
)

// A Store is a local store that is kept in a bucket while it is written. Programs write to DB and read
// from it as ever. Behind it the Store copies the logs into the bucket (ship.go), and then the tables
// (publish.go). So a lost machine loses what was written since the last shipping, and with
// [Options.Strict] nothing.
//
// One process at a time owns a store. Each Open claims it, and the writer before is fenced: its
// writes fail with [ErrFenced], which is final. A bucket that does not answer fences
// nobody: the Store goes on by itself when it answers again.
//
// Any number of goroutines may call the methods at the same time.
type Store struct {
	// Constant after Open.
	db *shale.DB
	// attached says that db is the program's: see Attach.
	attached bool
	bucket   *buckets.Retry // the loops and the gate pass on one that tells how it goes: see reporting
	fs       vfs.FS
	dir      string
	lock     *localdir.Lock // of dir, if the store is not attached; held until the end of Close
	logs     localdir.Logs
	opts     Options
	id       uint64 // of the store
	epoch    uint64
	writer   uint64

	// The parts that do the work, each with a lock of its own. The locks are taken in this order:
	// collector.mu, publish.mu, ship.mu, and under these for a few instructions those of the ledger
	// and of the Store.
	ship     shipper
	publish  publisher
	ledger   ledger
	evicting *evictor                         // nil: all tables are local files
	named    atomic.Pointer[manifest.Version] // by the newest step

	shipNow, publishNow chan struct{}      // wake the loops
	loops               context.Context    // done when the loops must end
	stop                context.CancelFunc // ends them
	gates               context.Context    // done when writers must not wait any longer
	release             context.CancelFunc // ends their waiting
	background          sync.WaitGroup     // the loops
	calls               sync.WaitGroup     // calls of methods that Close waits for

	publishedSeq atomic.Uint64         // Step.LastTableSeq of the newest step
	failure      atomic.Pointer[error] // why this writer is fenced

	flushLog   uint64    // owned by publishLoop: the log that was current when it last looked
	flushSince time.Time // and since when

	mu      sync.Mutex       // protects the following fields; no other lock is taken under it
	closed  bool             // Close was called
	notes   localdir.Record  // as they are in the directory
	failing map[string]error // why what was to be done last was not, by what it is
	away    time.Time        // since when the bucket is away
	status  Status
}

// A Status says what a Store has done so far.
type Status struct {
	StoreID uint64    // the same in all files and objects of a store
	Epoch   uint64    // how often the store has been claimed
	Step    uint64    // the newest step
	Time    time.Time // when it was made
	Tables  int       // that it has
	Lag     Lag       // how far the bucket is behind
	// Sent is how many bytes this Store has put into the bucket.
	Sent int64
	// Away is why the bucket does not do what it is asked, and Since is the time since when. nil: it does. A request of
	// the background that has had no answer for five times Options.Ship, but at least 5 s, counts too, until it has
	// one.
	Away  error
	Since time.Time
	// Failing is why work fails that has nothing to do with the bucket: the local disk is full, or a file is damaged.
	// It also says when Options.LocalBytes is too small to be kept, although nothing stops then. nil: all is well.
	Failing error
	// Err is why this writer is fenced, or nil.
	Err error
}

// DB returns the local store. The program must not close it: Close does.
func (s *Store) DB() *shale.DB { return s.db }

// Err returns why this writer does not own the store any more, or nil. The error wraps [ErrFenced].
func (s *Store) Err() error {
	if p := s.failure.Load(); p != nil {
		return *p
	}
	return nil
}

// Lag returns how far the bucket is behind.
func (s *Store) Lag() Lag {
	s.look()
	return s.ledger.lag()
}

// Status returns what the Store has done so far.
func (s *Store) Status() Status {
	lag, err := s.Lag(), s.Err()
	s.mu.Lock()
	defer s.mu.Unlock()
	status := s.status
	status.Lag, status.Err = lag, err
	status.Away, status.Failing = s.failingLocked()
	if status.Away != nil {
		status.Since = s.away
	}
	return status
}

// Close ships what was written, as long as the bucket answers within some seconds, and closes the local
// store. It uploads no tables but those of an ingestion that no step has yet: what else is not in tables of the
// bucket is in its logs, and the next Open goes on from there. Call Publish before Close if a restore is to
// be quick. Writers that wait for the bucket get an error after those seconds.
//
// If something could not be shipped, the error says so. It is still in the directory, and the next
// Open ships it.
func (s *Store) Close() error {
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return ErrClosed
	}
	s.closed = true
	s.mu.Unlock()
	// The order matters. The loops end first, so that nobody ships or publishes next to what
	// follows. Then the calls of the program end. Only after the local store is closed is its last
	// log complete, so what is shipped before that is not all.
	known := s.Err()
	s.stop()
	s.background.Wait()
	// After this time the requests below end, and so do writers that wait in the gate: a bucket
	// that is away holds up Close no longer.
	patience := time.AfterFunc(s.opts.testing.closeWait, func() {
		s.release()
		s.evicting.cancel()
	})
	defer patience.Stop()
	defer s.release()
	s.calls.Wait()
	// What is written up to here goes first, so that a strict writer is not held up by the rest.
	err := s.shipAll(s.gates, s.bucket)
	if err == nil && s.lacksTables() {
		err = s.publishAll(s.gates, s.bucket)
	}
	var cerr error
	if !s.attached {
		cerr = s.db.Close()
	}
	if err == nil {
		err = s.shipAll(s.gates, s.bucket) // what was written meanwhile, and the seal of the log
	}
	if err == nil && s.Err() == nil && !s.lacksTables() {
		_ = s.publishEnd(s.gates) // without it the next Open takes longer; if it finds another owner, it notes that
	}
	if s.Err() == nil && !s.lacksTables() {
		_ = s.ship.mu.take(context.Background()) // nobody has it for long now: gates is done, or nothing is left to ship
		err = errors.Join(err, s.noteShipped())  // so that Open need not look at these segments again
		if err == nil && cerr == nil {
			s.handOver(s.gates)
		}
		s.ship.mu.release()
	}
	cerr = errors.Join(cerr, s.evicting.close(), s.lock.Release())
	switch fenced := s.Err(); {
	case known != nil:
		err = nil // the program was told, and Salvage has what was not shipped
	case fenced != nil:
		err = fenced
	case err != nil:
		err = fmt.Errorf("remote: %s is closed, but not all of it is in the bucket; open it again to ship the rest: %w", s.dir, err)
	}
	return errors.Join(cerr, err)
}

// begin registers a call that Close waits for.
// The call is counted under the lock under which closed is looked at. Close sets closed first, so
// it waits for every call that has come past here.
func (s *Store) begin() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return ErrClosed
	}
	s.calls.Add(1)
	return nil
}

// start starts the loops.
func (s *Store) start() {
	s.named.Store(s.publish.chain.State.Tables.Version)
	s.evicting.wake()
	s.background.Go(func() { s.shipLoop(s.loops) })
	s.background.Go(func() { s.publishLoop(s.loops) })
	if s.opts.LocalBytes > 0 {
		s.background.Go(func() { s.evictLoop(s.loops) })
	}
	if s.opts.Publish > 0 && s.opts.Retain >= 0 {
		// The hour counts from the last collection, also if an earlier process has made it.
		// Otherwise processes that live for minutes would never collect.
		first := max(0, s.opts.testing.collect-time.Since(s.publish.collector.looked))
		s.background.Go(func() { s.collectLoop(s.loops, first) })
	}
}

// fenced makes the Store refuse writes for good because of err, which wraps ErrFenced, and returns the
// error that stays.
func (s *Store) fenced(err error) error {
	if s.attached {
		err = fmt.Errorf("%w: %s is not kept in this bucket any more", err, s.dir)
	} else {
		err = fmt.Errorf("%w: this writer's store is read-only now; restore the store into a new directory to write to it from here, and see with Salvage what %s had not shipped", err, s.dir)
	}
	// The shipper and the publisher may find the other owner at the same time. The first reason
	// stays.
	if !s.failure.CompareAndSwap(nil, &err) {
		return s.Err()
	}
	if s.attached {
		// The program's store goes on without a bucket, so its logs need not wait for one.
		shale.ShippingOf(s.db).HoldLogs(0)
	} else {
		shale.ShippingOf(s.db).Fence(err)
	}
	s.stop()
	s.release()
	// Without this note the directory is refused all the same, because it has not written the newest
	// step. The note makes Salvage exact.
	shipped := s.Lag().Shipped
	if s.lacksTables() {
		shipped = 0 // some of what is before it is not in the bucket
	}
	nerr := s.note(func(n *localdir.Record) { n.Fenced, n.LastSeq = true, max(n.LastSeq, shipped) })
	s.emit(Event{Kind: EventFenced, Err: errors.Join(err, nerr)})
	return err
}

// moved returns an error if the local store has lost its directory: the files there now may be another store's.
func (s *Store) moved() error {
	if err := s.db.Err(); errors.Is(err, shale.ErrMoved) {
		return local(err)
	}
	return nil
}

// note changes the notes of the directory.
func (s *Store) note(change func(*localdir.Record)) error {
	if err := s.moved(); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	// The record in memory changes only after the file has: after an error it still says what is on
	// disk.
	next := s.notes
	change(&next)
	if err := localdir.WriteRecord(s.fs, s.dir, &next); err != nil {
		return local(err)
	}
	s.notes = next
	return nil
}

// noteStep notes that a step is about to be PUT by this writer. Requires: publish.mu.
// The step before it is noted too, which is in the bucket for certain. Whichever of the two turns
// out to be the newest, the directory knows it as its own.
func (s *Store) noteStep(n uint64) error {
	before := s.publish.chain.Step
	return s.note(func(note *localdir.Record) {
		note.Step, note.Writer, note.Epoch = n, s.writer, s.epoch
		note.Before, note.BeforeWriter, note.Tried = before.N, before.Writer, nil
	})
}

// noteShipped notes how far the logs are in the bucket. The last writes may be in tables only, if the store was also
// written without the bucket. Requires: ship.mu, and the bucket lacks no tables.
func (s *Store) noteShipped() error {
	at, seq := s.ship.at, max(s.ship.lastSeq, s.Lag().Shipped)
	return s.note(func(n *localdir.Record) { n.Shipped, n.LastSeq = at, seq })
}

// sent counts bytes that were put into the bucket.
func (s *Store) sent(n int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.status.Sent += n
}

// published takes a new step into the status.
func (s *Store) published(step *object.Step, tables int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.status.Step, s.status.Time, s.status.Tables = step.N, step.Written, tables
}

// report takes in that something was done, or was not because of err. Whatever the bucket does not do, there
// is one event when the first thing fails, and one when nothing fails any more. For local failures there is one
// event, of another kind, when the first thing fails.
func (s *Store) report(what string, err error) {
	if err != nil && s.Err() != nil {
		return // it is fenced, and has said so
	}
	var events []Event
	s.mu.Lock()
	// Failures are kept by what was to be done. So a success takes away its own failure only, and
	// the bucket is back when none is left.
	before, localBefore := s.failingLocked()
	if err == nil {
		delete(s.failing, what)
	} else {
		s.failing[what] = err
	}
	now, localNow := s.failingLocked()
	if localBefore == nil && localNow != nil {
		events = append(events, Event{Kind: EventBackground, Reason: what, Err: err})
	}
	switch {
	case before == nil && now != nil:
		s.away = time.Now()
		events = append(events, Event{Kind: EventAway, Reason: what, Err: err})
	case before != nil && now == nil:
		events = append(events, Event{Kind: EventBack, Reason: what, Duration: time.Since(s.away)})
	}
	s.mu.Unlock()
	for _, e := range events {
		s.emit(e)
	}
}

// reporting returns the bucket for work that is reported. If a request has no answer for five times Options.Ship, or
// buckets.LateAfter if that is longer, the work counts as not done until the request has one.
func (s *Store) reporting(what string) Bucket {
	return s.bucket.Telling(func(waited time.Duration, err error) bool {
		late := waited >= max(5*s.opts.Ship, buckets.LateAfter)
		if late || err == nil {
			s.report(what, err)
		}
		return late
	})
}

// failingLocked returns an error of requests to the bucket, and one of other work. nil: there is none. Requires: mu.
// Of several failures it returns any one. Most often they have one cause.
func (s *Store) failingLocked() (bucket, other error) {
	for _, err := range s.failing {
		if isLocal(err) {
			other = err
		} else {
			bucket = err
		}
	}
	return bucket, other
}

// emit passes an event to the program.
// Requires: mu is not held, because the program takes its own time.
func (s *Store) emit(e Event) {
	if s.opts.OnEvent == nil {
		return
	}
	e.Time = time.Now()
	s.opts.OnEvent(e)
}

// waitFor waits for d, for ever if that is negative, or until now is woken. It returns false if ctx is done.
// now has room for one value, so wake-ups that come while nobody waits count as one.
func waitFor(ctx context.Context, d time.Duration, now chan struct{}) bool {
	var over <-chan time.Time
	if d >= 0 {
		timer := time.NewTimer(d)
		defer timer.Stop()
		over = timer.C
	}
	select {
	case <-ctx.Done():
		return false
	case <-over:
	case <-now:
	}
	return true
}

// A lock is a mutex for long work: a goroutine that waits for it can give up.
// It has room for one value, and whoever has put that value there holds the lock.
type lock chan struct{}

// take waits for the lock, or returns the error of ctx.
func (l lock) take(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	select {
	case l <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// release gives the lock back.
func (l lock) release() { <-l }

// A backoff says how long to wait before something is tried again.
type backoff struct{ tries int }

// tried takes in how a try went.
func (b *backoff) tried(err error) {
	if b.tries++; err == nil {
		b.tries = 0
	}
}

// delay returns 100 ms for the first try, twice as much for each later one, and at most 30 s.
func (b backoff) delay() time.Duration {
	return min(100*time.Millisecond<<min(max(b.tries-1, 0), 10), 30*time.Second)
}
