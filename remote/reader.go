package remote

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/shaledb/shale"
	"github.com/shaledb/shale/internal/base"
	"github.com/shaledb/shale/vfs"
)

// ReaderOptions say how a Reader works and what it may use. The zero value is a good configuration; nil
// means the same. OpenReader copies them.
type ReaderOptions struct {
	// Store are options of the store: CacheSize, FilterMemory, IndexMemory, OnEvent and Logger matter.
	// ReadOnly and FS are set by the Reader.
	Store shale.Options

	// Dir is a local directory for copies: the tails of tables, which are about 2.5 % of the store, and
	// CacheBytes of pages. The next Reader finds them there, and opens without asking for them. One
	// Reader at a time uses a directory. "": copies are in memory.
	Dir string

	// FS is the file system of Dir. Default: the operating system's.
	FS vfs.FS

	// CacheBytes is how many bytes of tables are kept as they are in the bucket, in addition to the block
	// cache of Store. Default: 1 GiB in a directory, 64 MiB in memory; negative: none.
	CacheBytes int64

	// Interval is how often the Reader looks for something new, with two GETs if there is nothing. Default
	// 1 s; negative: only when Wake, WaitFor or Refresh ask for it.
	Interval time.Duration

	// Wake makes the Reader look whenever something is received from it. A program that has another way to learn
	// of writes needs no short interval.
	Wake <-chan struct{}

	// Pin is the name of a pin. The Reader then shows its state, and never moves. "": the newest state.
	Pin string

	// Owner says in the Reader's pins who it is, for people.
	Owner string

	// NoPins makes the Reader write nothing to the bucket, for credentials that may only read. What it and its
	// snapshots show is then kept only as long as the writer retains states (Options.Retain).
	NoPins bool

	// Parent returns the bucket of a clone's parent: see Clone. nil: a clone can't be read.
	Parent func(prefix string) (Bucket, error)

	// Patience is how long a request that fails is tried again. Default 30 s.
	Patience time.Duration

	// OnEvent, if not nil, is called for what happens in the background: EventAway and EventBack. Calls must
	// return soon, and must not call the Reader.
	OnEvent func(Event)
}

// A Reader reads a store from its bucket, next to the writer and any number of other Readers. It follows the writer:
// what it shows is always a prefix of the writer's commits. It is a shale.Reader, and its methods
// may be called concurrently.
//
// Filters and indexes are local, so an absent key costs no request but for false positives. A present key costs
// a GET of 64 KiB, unless a cache has it.
//
// A request that fails is tried again for Patience; then the read returns its error, and the next read asks again. An
// object that is missing or damaged is a *shale.CorruptionError with its name, and other reads go on.
type Reader struct {
	// Constant after OpenReader.
	opts    ReaderOptions
	b       Bucket
	storeID uint64
	mem     *vfs.Mem
	files   *bucketFiles
	lock    interface{ Close() error } // of Dir
	pinned  *Pin                       // nil: the Reader follows the newest state
	session *session                   // nil with pinned
	warm    warmth                     // what Warm and Promote have fetched

	ctx    context.Context // of the background work; it ends with Close
	cancel context.CancelFunc
	work   sync.WaitGroup
	ask    chan struct{} // has room for one: look now

	db  atomic.Pointer[shale.DB]
	seq atomic.Uint64 // up to here everything is shown

	polling lock // held during a poll; protects the following fields
	follow  *follower
	advance bool        // the follower has more than the handle shows
	replace bool        // the handle is one of a directory that the follower has left
	held    uint64      // the step of the Reader's own pin
	old     []*shale.DB // of states before a rewind; snapshots may use them

	mu      sync.Mutex    // protects the following fields
	changed chan struct{} // closed when seq grows or a poll fails
	lag     lagState
	closed  bool
}

// A lagState is what ReaderLag is made of.
type lagState struct {
	checked time.Time // when the last poll that found the bucket answering began
	written time.Time // when the newest thing that is shown was written
	seen    uint64
	away    time.Time // since when polls fail; zero: they don't
	err     error     // of the last poll
}

// OpenReader opens the store in a bucket for reading. The bucket must have at least one step.
func OpenReader(ctx context.Context, b Bucket, o *ReaderOptions) (*Reader, error) {
	var opts ReaderOptions
	if o != nil {
		opts = *o
	}
	opts = opts.withDefaults()
	r := &Reader{opts: opts, mem: vfs.NewMem(), polling: make(lock, 1), ask: make(chan struct{}, 1), changed: make(chan struct{})}
	r.b = retryingFor(b, opts.Patience)
	r.ctx, r.cancel = context.WithCancel(context.Background())
	if err := r.open(ctx); err != nil {
		_ = r.release()
		return nil, fmt.Errorf("remote: open reader: %w", err)
	}
	if r.pinned == nil {
		r.work.Go(r.run)
	}
	return r, nil
}

// withDefaults returns a copy of o with every unset field filled in.
func (o ReaderOptions) withDefaults() ReaderOptions {
	if o.FS == nil {
		o.FS = vfs.Default
	}
	if o.Interval == 0 {
		o.Interval = time.Second
	}
	if o.Patience == 0 {
		o.Patience = 30 * time.Second
	}
	if o.CacheBytes == 0 {
		o.CacheBytes = 64 << 20
		if o.Dir != "" {
			o.CacheBytes = 1 << 30
		}
	}
	return o
}

// open carries out the steps of OpenReader:
//
//  1. It reads which store the bucket has, and which state is to be shown.
//  2. It opens the local copies.
//  3. It pins the state, so that what the next steps read is not collected meanwhile.
//  4. It brings tails, manifest and logs, and opens a read-only handle on them.
func (r *Reader) open(ctx context.Context) error {
	r.lag.checked = time.Now()
	id, err := readIdentity(ctx, r.b)
	if err != nil {
		return err
	}
	r.storeID = id.StoreID
	c, err := r.firstState(ctx)
	for tries := 1; errors.Is(err, ErrSnapshotGone) && tries < chainTries; tries++ {
		c, err = r.firstState(ctx) // the floor was raised meanwhile
	}
	if err != nil {
		return err
	}
	if err := r.openCopies(c.state.Parents); err != nil {
		return err
	}
	r.follow = newFollower(r.b, r.storeID, r.mem, r.files)
	r.follow.pinned = r.pinned != nil
	if err := r.follow.begin(ctx, c); err != nil {
		return err
	}
	if r.pinned == nil {
		if _, err := r.follow.takeSegments(ctx); err != nil {
			return err
		}
	}
	if err := r.sweep(); err != nil {
		return err
	}
	return r.openHandle()
}

// firstState returns the state to begin with: that of the pin, or the newest.
func (r *Reader) firstState(ctx context.Context) (*chain, error) {
	if r.opts.Pin != "" {
		p, err := findPin(ctx, r.b, r.storeID, r.opts.Pin)
		if err != nil {
			return nil, err
		}
		r.pinned = p
		return &chain{storeID: r.storeID, state: &p.State}, nil
	}
	c, err := loadChain(ctx, r.b, r.storeID, 0)
	if err != nil {
		return nil, err
	}
	if c.step == nil {
		return nil, errors.New("the bucket has a store but no step yet: wait until its writer has published one")
	}
	if r.opts.NoPins {
		return c, nil
	}
	if r.session == nil {
		r.session = newSession(r.b, r.opts.Owner)
	}
	r.held, err = r.session.hold(ctx, c)
	return c, err
}

// openCopies opens the local copies, and what is under the tables.
func (r *Reader) openCopies(parents []Parent) error {
	buckets := make(map[string]Bucket)
	for _, p := range parents {
		if r.opts.Parent == nil {
			return fmt.Errorf("the store is a clone of %q: ReaderOptions.Parent must say where that is", p.Prefix)
		}
		b, err := r.opts.Parent(p.Prefix)
		if err != nil {
			return fmt.Errorf("the parent %q of the clone: %w", p.Prefix, err)
		}
		buckets[p.Prefix] = retryingFor(b, r.opts.Patience)
	}
	bucket := func(num uint64) Bucket {
		if p := parentOf(parents, num); p != nil {
			return buckets[p.Prefix]
		}
		return r.b
	}
	pages, local := newPageCache(r.opts.CacheBytes), vfs.FS(nil)
	if r.opts.Dir != "" {
		local = r.opts.FS
		dir, err := vfs.Abs(local, r.opts.Dir) // the program may change its working directory
		if err != nil {
			return err
		}
		r.opts.Dir = dir
		if err := local.MkdirAll(dir); err != nil {
			return err
		}
		lock, err := local.Lock(filepath.Join(dir, base.LockName))
		if err != nil {
			return fmt.Errorf("the directory %s for copies: %w", dir, err)
		}
		r.lock = lock
		if pages, err = openPageCache(local, filepath.Join(dir, "pages"), r.storeID, r.opts.CacheBytes); err != nil {
			return fmt.Errorf("the cache in %s: %w", dir, err)
		}
	}
	r.files = newBucketFiles(bucket, r.storeID, local, r.opts.Dir, pages)
	r.files.missing = r.missing
	return nil
}

// sweep removes the tails that an earlier reader of the directory has left.
func (r *Reader) sweep() error {
	keep := make(map[fileID]bool)
	for f := range filesOf(r.follow.chain.state.Tables.Version) {
		keep[f.fileID] = true
	}
	return r.files.tails.sweep(keep)
}

// openHandle opens the read-only handle of the follower's directory.
func (r *Reader) openHandle() error {
	opts := r.opts.Store
	opts.ReadOnly, opts.FS = true, &tableFS{FS: r.mem, files: r.files}
	r.watchDamage(&opts)
	db, err := shale.Open(r.follow.dir, &opts)
	if err != nil {
		return err
	}
	r.db.Store(db)
	return r.shown()
}

// watchDamage makes the Reader drop what was fetched of a table that does not check, whoever has met that: an
// iterator can't fetch it again itself, but the next one does.
func (r *Reader) watchDamage(opts *shale.Options) {
	listener := opts.OnEvent
	if listener == nil && opts.Logger == nil {
		opts.Logger = slog.Default() // where the store's errors go if nobody listens
	}
	opts.OnEvent = func(e shale.Event) {
		var damage *shale.CorruptionError
		if e.Kind == shale.EventCorruption && errors.As(e.Err, &damage) {
			if name, ok := ParseName(damage.File); ok && name.Kind == KindTable && damage.Err != errNoObject {
				r.files.forget(name.Num)
			}
		}
		if listener != nil {
			listener(e)
		}
	}
}

// shown notes what the handle shows now. Requires: polling is held, or nobody else has the Reader.
func (r *Reader) shown() error {
	f := r.follow
	if err := f.clean(); err != nil {
		return err
	}
	r.seq.Store(f.last)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.lag.written, r.lag.seen = f.written, max(f.seen, f.last)
	close(r.changed)
	r.changed = make(chan struct{})
	return nil
}

// run looks for something new at each interval, and when it is asked to, until Close.
func (r *Reader) run() {
	var tick <-chan time.Time
	if r.opts.Interval > 0 {
		t := time.NewTicker(r.opts.Interval)
		defer t.Stop()
		tick = t.C
	}
	renew := time.NewTicker(SessionPin / 3)
	defer renew.Stop()
	for {
		select {
		case <-r.ctx.Done():
			return
		case <-renew.C:
			if err := r.renew(); err != nil {
				r.emit(Event{Kind: EventAway, Time: time.Now(), Err: err})
			}
			continue
		case <-tick:
		case <-r.ask:
		case _, open := <-r.opts.Wake:
			if !open {
				r.opts.Wake = nil // a closed channel would always be ready
			}
		}
		_ = r.poll(r.ctx) // Lag and the event report it
	}
}

// renew moves the Reader's own pin to the state that is shown, and makes those of snapshots last longer.
func (r *Reader) renew() error {
	if r.session == nil {
		return nil
	}
	if err := r.polling.take(r.ctx); err != nil {
		return shale.ErrClosed
	}
	defer r.polling.release()
	return errors.Join(r.movePin(), r.session.renew(r.ctx))
}

// movePin moves the Reader's own pin to the newest state. Requires: polling is held.
func (r *Reader) movePin() error {
	now := r.follow.chain
	if now.n() == r.held {
		return nil
	}
	next, err := r.session.hold(r.ctx, now)
	if err != nil {
		return err
	}
	r.session.release(r.ctx, r.held)
	r.held = next
	return nil
}

// untilClose returns a context that ends with ctx, and when the Reader is closed. The caller must call cancel.
func (r *Reader) untilClose(ctx context.Context) (_ context.Context, cancel func()) {
	ctx, end := context.WithCancel(ctx)
	stop := context.AfterFunc(r.ctx, end)
	return ctx, func() {
		stop()
		end()
	}
}

// lockPolls takes the lock polling, and returns shale.ErrClosed if the Reader is closed.
func (r *Reader) lockPolls(ctx context.Context) error {
	err := r.polling.take(ctx)
	switch {
	case r.ctx.Err() == nil:
		return err
	case err == nil:
		r.polling.release()
	}
	return shale.ErrClosed
}

// poll takes in what has come, and notes how it went. If ctx ends before that is known, there is nothing to note.
func (r *Reader) poll(ctx context.Context) error {
	ctx, cancel := r.untilClose(ctx)
	defer cancel()
	begun := time.Now()
	if err := r.lockPolls(ctx); err != nil {
		return err
	}
	err := r.take(ctx)
	seen := r.follow.seen
	r.polling.release()
	if r.ctx.Err() != nil {
		return shale.ErrClosed
	}
	if ctx.Err() == nil {
		r.note(begun, seen, err)
	}
	return err
}

// take takes in what has come. Requires: polling is held.
func (r *Reader) take(ctx context.Context) error {
	changed, begun, err := r.follow.poll(ctx)
	r.advance, r.replace = r.advance || changed, r.replace || begun
	if r.replace && err != nil {
		return err // the new directory is not complete
	}
	return errors.Join(err, r.showNew(ctx))
}

// showNew makes the handle show what the follower has. If it fails, the next call does it. Requires: polling is held.
func (r *Reader) showNew(ctx context.Context) error {
	switch old := r.db.Load(); {
	case r.replace:
		// The writer has gone back to an earlier state. What was written since is not a prefix of what it
		// writes now, so it is another handle. Snapshots of the old one stay.
		if err := r.openHandle(); err != nil {
			return err
		}
		r.old = append(r.old, old)
	case r.advance:
		if _, err := old.Advance(ctx); err != nil {
			return err
		}
		if err := r.shown(); err != nil {
			return err
		}
	}
	r.advance, r.replace = false, false
	return nil
}

// Refresh looks for something new now, and returns when the Reader shows all that the bucket had when the call
// began.
func (r *Reader) Refresh(ctx context.Context) error {
	if r.pinned != nil {
		return nil
	}
	if err := r.poll(ctx); err != nil {
		return readerError("refresh", err)
	}
	return nil
}

// readerError adds the call to an error. shale.ErrClosed stays as it is.
func readerError(call string, err error) error {
	if errors.Is(err, shale.ErrClosed) {
		return shale.ErrClosed
	}
	return fmt.Errorf("remote: %s: %w", call, err)
}

// Close ends the background work, and closes the handle. Snapshots and iterators can't be used afterwards. What
// they have pinned is released.
func (r *Reader) Close() error {
	r.mu.Lock()
	if r.closed {
		r.mu.Unlock()
		return shale.ErrClosed
	}
	r.closed = true
	close(r.changed)
	r.changed = make(chan struct{})
	r.mu.Unlock()
	return r.release()
}

// unpinWait is how long Close waits for a bucket that does not answer.
const unpinWait = 2 * time.Second

// release ends everything that was begun.
func (r *Reader) release() error {
	r.cancel()
	r.work.Wait()
	_ = r.polling.take(context.Background()) // the polls that are under way end with r.ctx
	defer r.polling.release()
	var err error
	if r.files != nil {
		r.files.cancel() // or reads would go on asking a bucket that does not answer, and Close wait for them
	}
	if r.session != nil {
		ctx, cancel := context.WithTimeout(context.Background(), unpinWait)
		r.session.close(ctx)
		cancel()
	}
	for _, db := range append(r.old, r.db.Load()) {
		if db != nil {
			err = errors.Join(err, db.Close())
		}
	}
	if r.files != nil {
		err = errors.Join(err, r.files.close())
	}
	if r.lock != nil {
		err = errors.Join(err, r.lock.Close())
	}
	return err
}

// missing is asked when the object of a file is not there. If the newest state needs it, it is damage. Else the state
// that the read is about was collected.
func (r *Reader) missing(f storedFile, err error) error {
	if r.pinned != nil {
		return err
	}
	c, loadErr := loadChain(r.ctx, r.b, r.storeID, 0)
	if loadErr != nil {
		return loadErr
	}
	for now := range filesOf(c.state.Tables.Version) {
		if now.fileID == f.fileID {
			return err
		}
	}
	return fmt.Errorf("remote: %s was collected: %w", f.name(), ErrSnapshotGone)
}
