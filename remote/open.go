package remote

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"time"

	"github.com/shaledb/shale"
	"github.com/shaledb/shale/manifest"
	"github.com/shaledb/shale/remote/internal/buckets"
	"github.com/shaledb/shale/remote/internal/chain"
	"github.com/shaledb/shale/remote/internal/localdir"
	"github.com/shaledb/shale/remote/internal/object"
	"github.com/shaledb/shale/vfs"
)

// Open is a sequence of steps, each of which may refuse: see opening.run. Before the claim nothing
// changes in the bucket but the identity of a new store and the objects of Probe, so a refusal
// costs nothing. An error behind the claim leaves a store whose owner has ended, and the next Open
// claims it again.

// Open opens the store in dir and keeps it in the bucket. It claims the store: whoever had
// it open before is fenced. nil stands for the default options.
//
//   - A new directory and an unused bucket begin a new store.
//   - A directory with a store and an unused bucket begin to keep this store there. All of it is
//     uploaded in the background.
//   - A directory that has written the newest step of the bucket goes on where it has ended.
//   - A directory into which the newest state was restored takes the store over.
//
// All else is refused: a bucket of another store ([ErrOtherStore]), an empty directory for a bucket that
// has a store ([ErrNotEmpty]), and a directory that is an older copy or has been superseded ([ErrFenced]).
// Probe says what is refused of buckets.
func Open(ctx context.Context, dir string, b Bucket, o *Options) (*Store, error) {
	return open(ctx, nil, dir, b, o)
}

// open is Open, and Attach if db is not nil.
func open(ctx context.Context, db *shale.DB, dir string, b Bucket, o *Options) (*Store, error) {
	opts, err := o.withDefaults()
	if err != nil {
		return nil, err
	}
	name := dir
	// The program may change its working directory while it has the store open.
	if dir, err = vfs.Abs(opts.Store.FS, dir); err != nil {
		return nil, fmt.Errorf("remote: open %s: %w", name, err)
	}
	dir = vfs.Resolve(opts.Store.FS, dir) // a link that is switched later leads to another store
	s := &Store{
		db: db, attached: db != nil,
		fs: opts.Store.FS, dir: dir, lock: localdir.NewLock(opts.Store.FS, dir), opts: opts, writer: buckets.RandomNumber() | 1,
		shipNow: make(chan struct{}, 1), publishNow: make(chan struct{}, 1),
		failing: make(map[string]error),
		ship:    shipper{mu: make(lock, 1)}, publish: publisher{mu: make(lock, 1), collector: collector{mu: make(lock, 1)}},
	}
	// The two end apart. Close ends the loops at once, and lets writers wait for the bucket some
	// seconds longer.
	s.loops, s.stop = context.WithCancel(context.Background())
	s.gates, s.release = context.WithCancel(context.Background())
	op := opening{Store: s, ctx: ctx, b: buckets.Retrying(b)}
	if err := op.run(); err != nil {
		s.stop()
		s.release()
		return nil, fmt.Errorf("remote: open %s: %w", name, errors.Join(err, s.letGoUnopened(), s.evicting.close(), s.lock.Release()))
	}
	// Open itself has used the patience of Retrying. The loops give a request up sooner, and then
	// try the whole work again.
	s.bucket = buckets.RetryingFor(op.b, opts.testing.patience)
	s.start()
	return s, nil
}

// An opening is one call of Open.
type opening struct {
	*Store
	ctx context.Context
	b   *buckets.Retry

	local  *manifest.State  // of the directory; nil: it has no store
	before *chain.Chain     // up to the newest step, if there is one
	found  *localdir.Record // of the directory; nil: it has none
	first  object.Position  // up to where the logs of the directory were shipped when it was opened
	more   int64            // bytes of logs that were shipped after what was restored into the directory
	lost   bool             // the list of segments has writes that the directory lacks, because nobody can restore them
}

// run takes the steps of Open:
//
//  1. It locks the directory, if it has a store, and reads what that says. The bucket must not lie where copies go.
//  2. It tries the bucket, and finds out whose it is.
//  3. It checks that the directory has written the newest step, or that it was restored from it.
//  4. It claims the store.
//  5. If another directory was the owner, it fences that one, and checks once more.
//  6. It opens the local store.
//
// The directory is locked before the first request: a program that is started twice stops there and
// does not fence the one that runs. The fence comes after the claim, because it leads to the anchor
// of the epoch that was claimed.
func (o *opening) run() error {
	for _, step := range []func() error{o.loadLocal, o.apart, o.probe, o.identify, o.compare, o.claim, o.takeOver, o.openLocal} {
		if err := step(); err != nil {
			return err
		}
	}
	return nil
}

// probe tries the bucket. All of it was tried when the directory first came to it.
func (o *opening) probe() error { return buckets.Probe(o.ctx, o.b, o.found == nil || o.found.Restored) }

// identify finds out which store the directory and the bucket have. It makes both if there are none.
func (o *opening) identify() error {
	there, err := chain.ReadIdentity(o.ctx, o.b)
	unused := errors.Is(err, fs.ErrNotExist)
	if err != nil && !unused {
		return err
	}
	// Which of the two is made depends on the other: an empty directory becomes a new store only if
	// the bucket has none yet.
	if o.local == nil {
		if unused {
			err = o.create()
		} else {
			err = o.loadLocal() // another program may have made the store meanwhile
		}
		if err != nil {
			return err
		}
	}
	switch {
	case o.local == nil:
		return fmt.Errorf("%w (store %016x; call Restore, or name another bucket or prefix)", ErrNotEmpty, there.StoreID)
	case unused:
		// Two programs may come to an unused bucket at the same time. The slower one gets the
		// identity that the other has made, and is refused below because its store is another one.
		there, err = putIdentity(o.ctx, o.b, &object.Identity{StoreID: o.local.StoreID, Created: time.Now()})
		if err != nil {
			return err
		}
	}
	if there.StoreID != o.local.StoreID {
		return fmt.Errorf("%w: store %016x, made %s; the directory has store %016x: name another bucket or prefix, or restore into a new directory",
			ErrOtherStore, there.StoreID, there.Created.Format(time.DateTime), o.local.StoreID)
	}
	o.id = there.StoreID
	o.logs = localdir.Logs{FS: o.fs, Dir: o.dir, StoreID: o.id}
	return nil
}

// loadLocal locks the directory and reads what it has. If it has no store, it does nothing.
func (o *opening) loadLocal() error {
	var err error
	if o.attached { // the program's store has the lock, and writes its files
		o.local, err = o.state()
	} else if err = o.lock.Take(o.ctx, o.opts.Store.LockTimeout); err == nil && o.lock.Locked != nil {
		o.local, err = manifest.Load(o.fs, o.dir)
	}
	switch {
	case err != nil || o.local == nil:
		return err
	case o.opts.Store.Exist == shale.MustNotExist && !o.attached:
		return fmt.Errorf("there is a store already: %w", fs.ErrExist)
	}
	o.found, err = localdir.ReadRecord(o.fs, o.dir)
	return err
}

// create makes a store in the directory. If another program is faster, that one has the lock, or the store is its.
// The store is closed again, and opened by openLocal at the end: with the file numbers of an epoch,
// which is not claimed yet.
func (o *opening) create() error {
	db, err := shale.Open(o.dir, &o.opts.Store)
	if err != nil {
		return err
	}
	if err := db.Close(); err != nil {
		return err
	}
	o.opts.Store.Exist = shale.MayExist // it is this one's
	return o.loadLocal()
}

// putIdentity makes the bucket one of the store. If another program was faster, it returns what that has
// made.
func putIdentity(ctx context.Context, b Bucket, i *object.Identity) (*object.Identity, error) {
	data, err := i.Encode(nil)
	if err != nil {
		return nil, err
	}
	err = PutObject(ctx, b, IdentityName, data, true)
	if errors.Is(err, ErrExists) {
		return chain.ReadIdentity(ctx, b)
	}
	return i, err
}

// compare checks that the directory may go on from the newest step.
func (o *opening) compare() error {
	var err error
	o.before, err = chain.LoadChain(o.ctx, o.b, o.id, 0)
	if err != nil {
		return err
	}
	newest, n := o.before.Step, o.found
	if newest == nil { // nobody has claimed the store yet
		o.ship.at = object.RootPosition
		return nil
	}
	switch {
	case n == nil:
		return fmt.Errorf("%w: the directory has never been used with this bucket, or is a copy without its notes; restore into a new directory", ErrFenced)
	case n.StoreID != o.id:
		return fmt.Errorf("%w: the notes of the directory are about store %016x", ErrFenced, n.StoreID)
	case n.Fenced:
		return fmt.Errorf("%w: the directory was fenced; restore into a new one, and see with Salvage what this one had not shipped", ErrFenced)
	case n.Wrote(newest):
	case n.Restored:
		return fmt.Errorf("%w: it has written step %d since step %d was restored here; restore again", ErrFenced, newest.N, n.Step)
	default:
		return fmt.Errorf("%w: it has written step %d, and the directory knows of step %d; it is an older copy, or was superseded: restore into a new directory, and see with Salvage what this one had not shipped",
			ErrFenced, newest.N, n.Step)
	}
	// The claim is how the directory says that it goes on from the newest step. So what stands
	// behind that step is looked at before.
	err = o.walk()
	if errors.Is(err, fs.ErrNotExist) {
		// Only an owner deletes segments, and only if a later step does not need them.
		if n, nerr := chain.NewestStep(o.ctx, o.b, newest.N); nerr == nil && n != newest.N {
			return fmt.Errorf("%w: it has written step %d meanwhile: restore into a new directory, and see with Salvage what this one had not shipped", ErrFenced, n)
		}
	}
	return err
}

// walk goes through the segments behind the newest step. They must be in the logs of the directory, or
// must have been restored into it.
func (o *opening) walk() error {
	h := &o.ship
	h.extents = slices.Clone(o.before.State.Extents)
	if n := len(h.extents); n > 0 {
		last := h.extents[n-1]
		h.lastSeq = last.LastSeq
		o.noteLost(object.ExtentEnd(last), last.LastSeq)
	}
	var err error
	h.at, err = chain.ListEnd(o.ctx, o.b, o.id, h.extents)
	if err != nil {
		return err
	}
	if err := o.pass(); err != nil {
		return err
	}
	if o.more > 0 {
		return fmt.Errorf("%w: it has shipped %d bytes or more since step %d was restored here; restore again", ErrFenced, o.more, o.found.Step)
	}
	return nil
}

// pass takes in the segments from the next place up to the end of the list, of which it reads the headers only.
func (o *opening) pass() error {
	for s, err := range (chain.SegmentList{Bucket: o.b, StoreID: o.id, Heads: true}).From(o.ctx, o.ship.at) {
		if err == nil {
			err = o.passOne(s)
		}
		if err != nil || o.more > 0 { // a writer that ships all the time would keep us here
			return err
		}
	}
	return nil
}

// passOne takes in the segment at the next place.
func (o *opening) passOne(s chain.Listed) error {
	if o.found.Restored {
		if !s.At().Before(o.found.Shipped) {
			o.more += s.Length
		}
	} else if err := o.isOurs(s); err != nil {
		return err
	}
	o.noteLost(s.BodyEnd(), s.LastSeq)
	h := &o.ship
	h.passed++
	// Numbers that no segment has belong to an ingestion or to a write that failed. Until a step
	// says that tables have them, nothing behind them can be restored.
	if s.FirstSeq > h.lastSeq+1 {
		h.missing.Store(max(h.missing.Load(), s.FirstSeq-1))
	}
	h.extents = extended(h.extents, s.Segment, s.BodyEnd().Offset)
	h.lastSeq = max(h.lastSeq, s.LastSeq)
	h.at = s.After()
	return nil
}

// noteLost takes in that the list of segments has writes up to seq before a place. If the directory has been brought as
// far as that place, and lacks them, they wait for tables that went with another machine. The next step has to say that
// they are not missed.
func (o *opening) noteLost(end object.Position, seq uint64) {
	if !o.found.Shipped.Before(end) && seq > o.found.LastSeq {
		o.lost = true
		o.ship.missing.Store(max(o.ship.missing.Load(), seq))
	}
}

// isOurs returns an error unless the directory has the bytes of a segment, or has had them.
func (o *opening) isOurs(s chain.Listed) error {
	noted := s.At().Before(o.found.Shipped)
	if s.Kind == object.SegmentFence && !noted && s.Next != object.AnchorOf(o.found.Epoch).Log && s.Next != object.AnchorOf(o.epoch).Log { // the last two are its own
		return fmt.Errorf("%w: its fence %s ends the logs of this directory; restore into a new one, and see with Salvage what this one had not shipped",
			ErrFenced, s.Name())
	}
	if s.Length == 0 || !o.found.Shipped.Before(s.BodyEnd()) {
		return nil // the directory has noted it, and may have let go of the log
	}
	// The header of the segment states the crc32c of its body. So the body need not be fetched: the
	// same stretch of the local log must have the same sum.
	have, ok, err := o.logs.Sum(s.Log, s.Offset, s.BodyEnd().Offset)
	if err == nil && (!ok || have != s.Sum) {
		err = fmt.Errorf("%w: the directory does not have the writes of %s; it is an older copy, or its logs were removed: restore into a new directory, and see with Salvage what this one had not shipped",
			ErrFenced, s.Name())
	}
	return err
}

// errFaster ends a claim behind a step that this directory has not compared with its notes.
// The step may stand for writes that the directory lacks, so Open is refused and does not try
// again.
var errFaster = errors.New("it has claimed it at the same time")

// noteClaim notes that the store is about to be claimed behind the step newest.
func (o *opening) noteClaim(newest *object.Step, epoch uint64) error {
	before := o.before.Step
	if (newest == nil) != (before == nil) || newest != nil && (newest.N != before.N || newest.Writer != before.Writer) {
		return errFaster
	}
	// The step is noted before it is PUT, because its answer may be lost. The next Open then still
	// knows the step as one of this directory.
	o.notes = localdir.Record{StoreID: o.id, Step: o.before.N() + 1, Writer: o.writer, Epoch: epoch, Shipped: o.ship.at, LastSeq: o.ship.lastSeq}
	if before != nil {
		o.notes.Before, o.notes.BeforeWriter, o.notes.Restored = before.N, before.Writer, o.found.Restored
	}
	if n := o.found; n != nil && n.Before == o.notes.Before && n.BeforeWriter == o.notes.BeforeWriter {
		o.notes.Tried = n.WithTried()
	}
	// The logs may have been let go behind the end of the list: a PUT that is still on its way may bring what was in them.
	noted := before != nil && (o.found.Restored || o.ship.at.Before(o.found.Shipped))
	if noted {
		o.notes.Shipped = o.found.Shipped
	}
	if noted || o.lost {
		o.notes.LastSeq = o.found.LastSeq
	}
	return localdir.WriteRecord(o.fs, o.dir, &o.notes)
}

// mostClaims is how many steps behind the newest state Open leaves for the next one to read: programs that end early
// write no states.
const mostClaims = 64

// claim makes this writer the owner.
func (o *opening) claim() error {
	newest := *o.before
	// Least is the epoch behind that of the newest file in the directory. So the numbers of the new
	// epoch are above all that are there, even if the directory was written without its bucket.
	w := chain.Claimant{
		StoreID: o.id, Writer: o.writer, Now: time.Now, Note: o.noteClaim,
		Least: uint64(o.local.NextFileNum-1)>>object.EpochShift + 1, Newest: &newest,
	}
	if o.before.State.Tables.MinLog == 0 {
		// No tables are published yet, which may take many lives of the writer. The next one need not read what this one
		// has read. All extents stay: a restore must find that the list begins with writes that it lacks.
		w.Extents = slices.Clone(o.ship.extents)
	}
	c, err := chain.Claim(o.ctx, o.b, w)
	if errors.Is(err, errFaster) {
		return fmt.Errorf("%w: %w", ErrFenced, err)
	}
	if err != nil {
		return err
	}
	o.publish.chain, o.epoch = c, c.Epoch
	o.publish.collector.looked = o.collected(c)
	o.publish.state = c.N()-c.Stated >= mostClaims
	o.publishedSeq.Store(c.Step.LastTableSeq)
	return nil
}

// takeOver fences all earlier writers. Those are not only of other directories: there may be a copy of this
// one, or its disk may have been moved away from a machine that is still running. Their next segment
// would stand where the fence is, and fences are never deleted. What they have shipped is in this
// directory, or else they go on writing and this Open has come too early.
func (o *opening) takeOver() error {
	if o.before.Step == nil {
		return nil // there is no earlier writer
	}
	if o.first = o.ship.at; o.found.Shipped.Before(o.first) {
		o.first = o.found.Shipped // the list may go on in this epoch already: see handOver
	}
	if _, err := o.publish.chain.Fence(o.ctx, o.b, o.ship.at); err != nil {
		return err
	}
	// The earlier writer may have appended until the fence took its place. What it has appended
	// must be in this directory, or it is refused.
	if err := o.pass(); err != nil { // up to the fence
		return err
	}
	if o.more > 0 {
		return fmt.Errorf("%w: it has shipped %d bytes or more while this directory took it over, and is fenced now; restore again", ErrFenced, o.more)
	}
	h := &o.ship
	// The fence leads to the anchor, and there the first segment of this writer stands.
	h.at = object.AnchorOf(o.epoch)
	o.notes.Restored, o.notes.Shipped = false, h.at
	if !o.lost {
		o.notes.LastSeq = h.lastSeq
	}
	return localdir.WriteRecord(o.fs, o.dir, &o.notes)
}

// firstLog returns the number of the first log that must stay.
// The bucket has all that is before it.
func (o *opening) firstLog() uint64 {
	if o.first.Log > 0 {
		return o.first.Log // Salvage can list what was not shipped, until that is published
	}
	return o.ship.at.Log
}

// openLocal opens the local store, or takes the one that is open.
func (o *opening) openLocal() error {
	if o.attached {
		if err := o.take(); err != nil {
			return err
		}
		return o.begun()
	}
	opts := o.opts.Store
	// The lock is lent to the local store. Its file numbers begin right behind the anchor, so no
	// other writer gives them out, and its logs stay until the bucket has them.
	opts.FS = o.lock
	if err := o.openTables(&opts); err != nil {
		return err
	}
	opts.Shipping.FirstFileNum = object.AnchorOf(o.epoch).Log + 1
	opts.Shipping.HoldLogs = o.firstLog()
	opts.Shipping.Gate = o.gate
	var err error
	// A tail whose local file is damaged is fetched when its table is opened, and that ends with the context too.
	goOn := context.AfterFunc(o.ctx, o.evicting.cancel)
	if o.db, err = shale.Open(o.dir, &opts); err != nil {
		return errors.Join(err, o.ctx.Err())
	}
	if !goOn() {
		return errors.Join(o.ctx.Err(), o.db.Close())
	}
	o.ship.held = opts.Shipping.HoldLogs
	if err := o.begun(); err != nil {
		return errors.Join(err, o.db.Close())
	}
	return nil
}

// begun takes in what the local store has, and begins the list of this epoch.
func (o *opening) begun() error {
	o.status = Status{StoreID: o.id, Epoch: o.epoch, Step: o.publish.chain.N(), Time: o.publish.chain.Step.Written, Tables: o.publish.chain.State.Tables.Version.NumTables()}
	l, last := &o.ledger, shale.ShippingOf(o.db).Position().LastSeq // nobody else has the ledger yet
	l.lastSeq, l.segments = max(last, o.ship.lastSeq), o.ship.lastSeq
	l.tables, l.missing = o.publish.chain.Step.LastTableSeq, o.ship.missing.Load()
	// There are two reasons why segments alone do not have all writes: tables that no step names
	// yet, and writes that no segment has. In both cases the next step has to bring them.
	if o.hasUnpublished() {
		l.missing = last
	}
	l.countLocked()
	if last > o.ship.lastSeq {
		l.missing = last // they were written and not shipped
	}
	o.ship.missing.Store(l.missing)
	return o.beginList()
}

// hasUnpublished reports whether the directory has other tables than the newest step. An earlier process may have shipped
// the mark of an ingestion whose tables are among them: the headers of segments do not say that.
func (o *opening) hasUnpublished() bool {
	return diff(o.publish.chain.State.Tables.Version, o.local.Version).ChangesVersion()
}

// beginList prepares a list of segments that begins with the logs of this epoch: all earlier writes must be in
// tables. If there are none, a first step says so, and the store can be restored at once.
// Otherwise that takes until the tables are uploaded.
func (o *opening) beginList() error {
	// Logs of an earlier epoch can't be shipped any more: their next place has a fence. What they
	// have and the bucket lacks comes in tables.
	if err := o.db.Flush(o.ctx); err != nil {
		return err
	}
	if state, err := o.state(); err != nil || state.Version.NumTables() > 0 {
		return err
	}
	// Until open sets the bucket for the loops, the Store works on the one of this call.
	o.bucket = o.b
	return o.publishAll(o.ctx, o.bucket)
}
