package shale

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"iter"
	"time"

	"github.com/shaledb/shale/internal/base"
	"github.com/shaledb/shale/internal/logset"
)

// This file has Changes, the feed of what is written to a store.

// A Change is one batch of writes, as Changes gives it. It is valid for one step.
type Change struct {
	Seq  uint64 // the number of its first operation
	Last uint64 // the number of its last one: Changes goes on behind it when Last is its argument after

	ops      *Batch
	ingested bool
}

// Ops walks the operations in their order. [Batch.Add] adds them to a batch for another store. Their slices are
// valid for this step.
func (c Change) Ops() iter.Seq[Op] { return c.ops.Ops() }

// Ingested reports whether the change is a part of an ingestion. The log has only the range of its keys. So Ops are
// Puts of what a newer state of the store has in that range, in pieces of about a MiB. Seq of each piece is the number
// of the ingestion. Last is that number only in the last piece, and the number before it in the others. Later changes,
// up to that newer state, may set these keys to older values once more.
func (c Change) Ingested() bool { return c.ingested }

// Changes yields each commit after number after, in order, and waits for more until ctx is done. It
// shows only what is durable: with [SyncManual], what Sync or the store in the background has synced. It ends
// with an error in any case, such as ctx's, or [ErrClosed] after Close.
//
// A program that copies a store begins with a Snapshot or a Checkpoint of it and the Seq of that, and
// stores the Last of each change in the same batch as its operations. So each change counts once,
// whatever crashes. A Snapshot may show writes that are not durable, unless Durability is [SyncEach]: then the program
// calls Sync before it keeps what the Snapshot has shown.
//
// Changes reads the logs. They are removed when their writes are in tables, but for the one that is being read, and for
// those that [Options.KeepLog] keeps. If they do not reach back to after, or there is a gap because a log is not there
// any more, it ends with [ErrChangesGone], and never leaves a change out. Numbers may be left out: their writes have
// failed. Damage to a log that is kept concerns only the feed. If after is above all numbers, the store was replaced by
// an older one, and the error is [ErrReplaced].
//
// Of a store that was opened with ReadOnly, it shows what Advance shows, and advances the handle itself, ten times a
// second. That is what the writer of the directory has put into its logs, whether or not it is durable. Nothing holds
// the logs of another process, so a slow reader loses the one that it is reading, too. If the writer takes back what
// was shown, because its log has failed (Resume), the error is ErrReplaced.
func (db *DB) Changes(ctx context.Context, after uint64) iter.Seq2[Change, error] {
	return changefeed{db: db, ctx: ctx}.loop(after)
}

// ChangesNow is [DB.Changes] that does not wait: it ends without an error when it has yielded all that Changes has now.
func (s Shipping) ChangesNow(ctx context.Context, after uint64) iter.Seq2[Change, error] {
	return changefeed{db: s.db, ctx: ctx, once: true}.loop(after)
}

// loop returns the changes after number after. A program may walk them several times.
func (c changefeed) loop(after uint64) iter.Seq2[Change, error] {
	return func(yield func(Change, error) bool) {
		c := c
		c.yield = yield
		if err := c.run(base.Seq(after)); err != errLeft {
			yield(Change{}, err)
		}
	}
}

// errLeft says that the loop over the changes was left, or has come to its end.
var errLeft = errors.New("shale: the loop was left")

// A changefeed is one loop over Changes. It runs on the program's goroutine.
type changefeed struct {
	db    *DB
	ctx   context.Context
	once  bool // end when there is no more for now
	yield func(Change, error) bool
	batch *Batch // the one that was decoded last
}

// run yields changes until something ends the feed.
func (c *changefeed) run(after base.Seq) error {
	db := c.db
	if err := c.alive(); err != nil {
		return err
	}
	if db.opts.ReadOnly && after > db.commits.Visible() {
		if _, err := db.Advance(c.ctx); err != nil {
			return err
		}
	}
	if last := db.commits.Visible(); after > last {
		return fmt.Errorf("shale: changes: %w: the newest write has number %d, and changes are asked for after %d", ErrReplaced, last, after)
	}
	feed, err := db.logs.NewFeed(logset.FeedEnv{
		StoreID: db.storeID,
		Visible: db.commits.Visible,
		Decode:  c.decode,
		Pass:    c.pass,
	}, after)
	if err != nil {
		return c.failed(err)
	}
	defer feed.Close()
	bell := &db.logs.Durable
	for {
		if err := c.alive(); err != nil {
			return err
		}
		rung := bell.Listen()
		hidden, err := feed.Next()
		if err != nil {
			return c.failed(err)
		}
		if c.once {
			return errLeft
		}
		if db.opts.ReadOnly {
			if err := c.advance(); err != nil {
				return err
			}
			continue
		}
		// One of the two: a writer must not wake the feed twice for a group, nor for each write that is not durable.
		next := &db.logs.Durable
		if hidden {
			next = &db.commits.Shown
		}
		if next != bell {
			bell = next // it may have rung by now, so the feed looks once more
			continue
		}
		looked := time.Now()
		select {
		case <-rung:
			c.pause(feedPause - time.Since(looked))
		case <-c.ctx.Done():
		case <-db.life.Context.Done():
		}
	}
}

// advancePause is how long a feed of a read-only handle waits before it looks for more.
const advancePause = 100 * time.Millisecond

// feedPause is the least time between two looks at the log. A writer that syncs alone takes some 100 µs for a write, and half as
// much again if a feed is woken for each: so on a busy store the feed takes the writes of some milliseconds at once. The first
// write after a pause is passed on at once.
const feedPause = 10 * time.Millisecond

// advance waits, and advances the read-only handle.
func (c *changefeed) advance() error {
	c.pause(advancePause)
	_, err := c.db.Advance(c.ctx)
	return err
}

// pause waits for a time, or until the feed has to end.
func (c *changefeed) pause(d time.Duration) {
	if d <= 0 {
		return
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-c.ctx.Done():
	case <-c.db.life.Context.Done():
	}
}

// alive returns why the feed has to end, or nil.
func (c *changefeed) alive() error {
	if c.db.life.Context.Err() != nil {
		return ErrClosed
	}
	return base.ContextError(c.ctx)
}

// failed returns the error with which the feed ends because of err.
func (c *changefeed) failed(err error) error {
	var gone *logset.GoneError
	switch {
	case err == errLeft:
		return err
	case c.db.life.Context.Err() != nil:
		return ErrClosed
	case errors.As(err, &gone):
		return fmt.Errorf("%w: %w", ErrChangesGone, gone)
	case errors.Is(err, logset.ErrUndone):
		return fmt.Errorf("shale: changes: %w: %w", ErrReplaced, err)
	case c.ctx.Err() != nil && errors.Is(err, c.ctx.Err()):
		return err
	}
	return fmt.Errorf("shale: changes: %w", err)
}

func (c *changefeed) decode(log base.FileNum, payload []byte) (first, last base.Seq, err error) {
	first, c.batch, err = decodeBatch(payload)
	if err != nil {
		return 0, 0, batchError(log, err)
	}
	return first, first + base.Seq(c.batch.count) - 1, nil
}

// pass yields the batch that was decoded last.
func (c *changefeed) pass() error {
	for change, err := range ChangesOf(c.batch, c.scan) {
		if aliveErr := c.alive(); aliveErr != nil {
			return aliveErr
		}
		if err != nil {
			return err
		}
		if !c.yield(change, nil) {
			return errLeft
		}
	}
	return nil
}

// scan walks the entries of a range, as they are now and durable.
func (c *changefeed) scan(r Range) iter.Seq2[Entry, error] {
	return func(yield func(Entry, error) bool) {
		s, err := c.db.Snapshot()
		if err != nil {
			yield(Entry{}, err)
			return
		}
		defer s.Close()
		// Where readers see writes before they are durable, the snapshot may have some that are not.
		if c.db.opts.Durability != SyncEach && !c.db.opts.ReadOnly {
			if err := c.db.Sync(); err != nil {
				yield(Entry{}, err)
				return
			}
		}
		s.Scan(r)(yield)
	}
}

// ingestionPiece is about how many bytes of an ingestion one Change has.
const ingestionPiece = 1 << 20

// ChangesOf yields what [DB.Changes] makes of a batch that [DecodeBatch] has returned: one Change, or, if the batch is
// the mark of an ingestion, the keys of its range in pieces, as scan finds them. It is for programs that read logs, and
// give scan a state of the store that has the ingestion.
func ChangesOf(b *Batch, scan func(Range) iter.Seq2[Entry, error]) iter.Seq2[Change, error] {
	return func(yield func(Change, error) bool) {
		least, greatest, ingested := b.Ingested()
		if !ingested {
			yield(Change{Seq: uint64(b.seq), Last: uint64(b.seq) + uint64(b.count) - 1, ops: b}, nil)
			return
		}
		change := Change{Seq: uint64(b.seq), Last: uint64(b.seq) - 1, ops: new(Batch), ingested: true}
		for e, err := range scan(Range{Lower: least, Upper: append(bytes.Clone(greatest), 0)}) {
			if err == nil && change.ops.Size() >= ingestionPiece {
				if !yield(change, nil) {
					return
				}
				change.ops.Reset()
			}
			if err == nil {
				err = change.ops.Add(Op{Kind: OpPut, Key: e.Key, Value: e.Value, ExpiresAt: e.ExpiresAt})
			}
			if err != nil {
				yield(Change{}, err)
				return
			}
		}
		change.Last = uint64(b.seq)
		yield(change, nil)
	}
}
