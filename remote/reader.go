package remote

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/shaledb/shale"
	"github.com/shaledb/shale/internal/base"
	"github.com/shaledb/shale/remote/internal/buckets"
	"github.com/shaledb/shale/remote/internal/chain"
	"github.com/shaledb/shale/remote/internal/object"
	"github.com/shaledb/shale/remote/internal/tablefs"
	"github.com/shaledb/shale/vfs"
)

// A Reader is a read-only handle on a directory in memory, and this file opens and closes it.
// follow.go feeds the directory, readerpoll.go looks for what is new, readerreads.go has the reads,
// readerlag.go says how far it is, readerfeed.go has the changes, and session.go keeps its states from being deleted.

// ReaderOptions say how a Reader works and what it may use. The zero value is a good configuration; nil
// means the same. [OpenReader] copies them.
type ReaderOptions struct {
	// Store are options of the store: CacheSize, FilterMemory, IndexMemory, OnEvent and Logger matter.
	// ReadOnly and FS are set by the Reader.
	Store shale.Options

	// Dir is a local directory for copies: the tails of tables, which are about 2.5 % of the store, and
	// CacheBytes of pages. The next Reader finds the tails there, and opens without asking for them. One
	// Reader at a time uses a directory. It must not be the directory of a bucket, or lie in one. "": copies are in memory.
	Dir string

	// FS is the file system of Dir. Default: the operating system's.
	FS vfs.FS

	// CacheBytes is how many bytes of tables are kept as they are in the bucket, in addition to the block
	// cache of Store. Default: 1 GiB in a directory, 64 MiB in memory; negative: none.
	CacheBytes int64

	// MaxLogs is how many bytes of logs are kept in memory. These are what the writer has shipped since its newest step,
	// so they grow while it can't publish one. Beyond that the Reader shows nothing newer until there is a step, and
	// ReaderLag.Err says so. Default 1 GiB.
	MaxLogs int64

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

	// Patience is how long a request that fails or hangs is tried again, and a second more for each 256 KiB of it.
	// Default 30 s. Each attempt has a second at least.
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
// object that is missing or damaged is a *shale.CorruptionError with its name, and other reads go on. If it is a table
// of the newest state, a Reader that is opened shows an earlier state and the logs behind it, or if no state is whole,
// the newest one: reads that need the table fail. If it is a segment, it shows what is before it. [ReaderLag.Err] names
// it, and the Reader goes on when it is mended.
type Reader struct {
	// Constant after OpenReader.
	opts    ReaderOptions
	b       Bucket
	storeID uint64
	mem     *vfs.Mem
	files   *tablefs.Tables
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
	reopen  bool        // a table that the handle does without is whole again
	held    uint64      // the step of the Reader's own pin
	old     []*shale.DB // handles before db, which snapshots and iterators may use until Close

	mu      sync.Mutex    // protects the following fields
	changed chan struct{} // closed when view changes or a poll fails
	view    feedView      // of what is shown
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
	r.b = buckets.RetryingFor(b, opts.Patience)
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
	setDefault(&o.FS, vfs.Default)
	setDefault(&o.Interval, time.Second)
	setDefault(&o.Patience, 30*time.Second)
	setDefault(&o.MaxLogs, 1<<30)
	if o.Dir != "" {
		setDefault(&o.CacheBytes, 1<<30)
	}
	setDefault(&o.CacheBytes, 64<<20)
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
	if r.opts.Dir != "" {
		if err := checkCopies(r.opts.FS, r.opts.Dir); err != nil {
			return err
		}
	}
	id, err := chain.ReadIdentity(ctx, r.b)
	if err != nil {
		return err
	}
	r.storeID = id.StoreID
	c, err := r.firstState(ctx)
	for tries := 1; errors.Is(err, ErrSnapshotGone) && tries < chain.ChainTries; tries++ {
		c, err = r.firstState(ctx) // the floor was raised meanwhile
	}
	if err != nil {
		return err
	}
	if err := r.openCopies(); err != nil {
		return err
	}
	r.follow = newFollower(r.b, r.storeID, r.mem, r.files, r.opts.MaxLogs)
	r.follow.pinned = r.pinned != nil
	if err := r.begin(ctx, c); err != nil {
		return err
	}
	if r.pinned == nil {
		if _, r.lag.err = r.follow.takeSegments(ctx); r.lag.err != nil && !object.IsDamage(r.lag.err) && r.lag.err != errManyLogs {
			return r.lag.err // behind damage there may be more, which is shown when it is mended
		}
	}
	// Local tails that an earlier Reader has left, of files that are not known now, only take room.
	if err := r.files.Tails.Sweep(r.files.Has); err != nil {
		return err
	}
	return r.openHandle()
}

// firstState returns the state to begin with: the pin's, or else the newest.
func (r *Reader) firstState(ctx context.Context) (*chain.Chain, error) {
	if r.opts.Pin != "" {
		p, err := chain.FindPin(ctx, r.b, r.storeID, r.opts.Pin)
		if err != nil {
			return nil, err
		}
		r.pinned = p
		state, _, err := chain.PinnedState(ctx, r.b, p)
		return &chain.Chain{StoreID: r.storeID, State: state}, err
	}
	c, err := chain.LoadChain(ctx, r.b, r.storeID, 0)
	// A step or a state can't be read. A restore finds a way around it, and the Reader takes the
	// same one: the logs lead on from there.
	if object.IsDamage(err) || errors.Is(err, fs.ErrNotExist) {
		c, err = wholeChain(ctx, r.b, nil)
	}
	if err != nil {
		return nil, err
	}
	if c.N() == 0 {
		return nil, errors.New("the bucket has a store but no step yet: wait until its writer has published one")
	}
	if r.opts.NoPins {
		return c, nil
	}
	if r.session == nil {
		r.session = newSession(r.b, r.opts.Owner)
	}
	if r.held, err = r.session.hold(ctx, c); object.IsDamage(err) {
		err = nil // the newest step can't be read: renew tries again
	}
	return c, err
}

// begin makes the follower begin with c. If tables of that are damaged, it begins with an earlier state, as a restore
// does: the logs behind that lead as far. If no state is whole, it begins with c all the same, without these tables.
func (r *Reader) begin(ctx context.Context, c *chain.Chain) error {
	// Each round learns of one more table that is damaged, and the choice goes back to a state
	// without it. The rounds end when a state is whole, when none is, or when a table is met a
	// second time.
	err := r.follow.begin(ctx, c)
	var damage *base.CorruptionError
	for bad := make(map[string]error); r.pinned == nil && errors.As(err, &damage) && bad[damage.File] == nil; {
		bad[damage.File] = damage
		earlier, wholeErr := wholeChain(ctx, r.b, bad)
		if wholeErr != nil || earlier.State.Tables.MinLog == 0 {
			break // a state before the first upload has nothing, which is no answer
		}
		err = r.follow.begin(ctx, earlier)
	}
	if object.IsDamage(err) {
		r.files.Around.Store(true)
		err = r.follow.begin(ctx, c)
		r.files.Around.Store(false)
	}
	if err != nil || r.session == nil {
		return err
	}
	// The state that is shown may be an earlier one than firstState has pinned.
	if err = r.movePin(); object.IsDamage(err) {
		err = nil // as in firstState
	}
	return err
}

// openCopies opens the local copies of tails and pages, and tablefs.Tables, which reads tables by way of them.
func (r *Reader) openCopies() error {
	pages, local := tablefs.NewPageCache(r.opts.CacheBytes), vfs.FS(nil)
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
		// Two Readers in one directory would sweep away the tails of each other, and write over
		// each other's pages.
		lock, err := local.Lock(filepath.Join(dir, base.LockName))
		if err != nil {
			return fmt.Errorf("the directory %s for copies: %w", dir, err)
		}
		r.lock = lock
		if pages, err = tablefs.OpenPageCache(local, filepath.Join(dir, "pages"), r.opts.CacheBytes); err != nil {
			return fmt.Errorf("the cache in %s: %w", dir, err)
		}
	}
	r.files = tablefs.New(r.b, r.storeID, local, r.opts.Dir, pages)
	r.files.Missing = r.missing
	return nil
}

// openHandle opens the read-only handle of the follower's directory.
func (r *Reader) openHandle() error {
	opts := r.opts.Store
	opts.ReadOnly, opts.FS = true, &tablefs.FS{FS: r.mem, Tables: r.files}
	db, err := shale.Open(followDir, &opts)
	if err != nil {
		return err
	}
	r.db.Store(db)
	return r.shown()
}

// shown notes the sequence number that the handle shows now. Requires: polling is held, or nobody else has the Reader.
func (r *Reader) shown() error {
	f := r.follow
	if err := f.clean(); err != nil {
		return err
	}
	// The number grows before the waiters wake, so that they find it.
	r.seq.Store(f.last)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.lag.written, r.lag.seen = f.written, max(f.seen, f.last)
	r.view = f.view()
	close(r.changed)
	r.changed = make(chan struct{})
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
	// Programs in WaitFor wake, and see that the Reader is closed.
	close(r.changed)
	r.changed = make(chan struct{})
	r.mu.Unlock()
	return r.release()
}

// unpinWait is how long Close waits for a bucket that does not answer.
const unpinWait = 2 * time.Second

// release stops the background work, and closes all that open has opened.
// It is called once, by Close or by an OpenReader that has failed, and undoes as much as open has
// done.
func (r *Reader) release() error {
	r.cancel()
	r.work.Wait()
	_ = r.polling.take(context.Background()) // the polls that are under way end with r.ctx
	defer r.polling.release()
	var err error
	if r.files != nil {
		r.files.Cancel() // or reads would go on asking a bucket that does not answer, and Close wait for them
	}
	if r.session != nil {
		ctx, cancel := context.WithTimeout(context.Background(), unpinWait)
		r.session.close(ctx)
		cancel()
	}
	// The handles have tables open, so they close before the files, which requires that no table
	// is.
	for _, db := range append(r.old, r.db.Load()) {
		if db != nil {
			err = errors.Join(err, db.Close())
		}
	}
	if r.files != nil {
		err = errors.Join(err, r.files.Close())
	}
	if r.lock != nil {
		err = errors.Join(err, r.lock.Close())
	}
	return err
}

// missing is asked when the object of a file is not there. If the newest state needs it, it is damage. Else the state
// that the read is about was collected.
func (r *Reader) missing(f tablefs.File, err error) error {
	if r.pinned != nil {
		return err
	}
	// The Reader's own chain may be behind, so it can't say whether the object should be there. The
	// newest state can.
	c, loadErr := chain.LoadChain(r.ctx, r.b, r.storeID, 0)
	if loadErr != nil {
		return loadErr
	}
	for now := range tablefs.FilesOf(c.State.Tables.Version) {
		if now.Is(f) {
			return err
		}
	}
	return fmt.Errorf("remote: %s was collected: %w", f.Name(), ErrSnapshotGone)
}
