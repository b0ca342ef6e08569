package shale

import (
	"bytes"
	"context"
	"fmt"
	"iter"
	"time"

	"github.com/shaledb/shale/compaction"
	"github.com/shaledb/shale/internal/base"
	"github.com/shaledb/shale/internal/memqueue"
	"github.com/shaledb/shale/manifest"
)

// This file has Ingest, which makes tables of sorted entries.

// Ingest sets all keys that sorted gives to their values, at once: readers see all of them or
// none, and so does a program that opens the store after a crash. It writes tables right away,
// without log and memtable. So it is about twice as fast as Write, and leaves less to be
// compacted. When it returns nil the keys are durable, whatever [Options.Durability] says.
//
// Keys must come in strictly ascending order: the first that does not ends Ingest with an error
// that names it. Key and value need be valid only until sorted goes on. To give up, for instance
// when a source of entries fails, cancel ctx: the error of Ingest then wraps its cause. After an
// error nothing is there, but for two errors that say so: [ErrIngested] and [ErrIngestInDoubt].
//
// Other goroutines read and write meanwhile. The keys are written at the end: they are newer
// than all writes that returned before, and hidden by those that begin after Ingest returned.
// Writers wait while the memtable is flushed then. Close waits for Ingest, which then ends when
// sorted gives its next entry.
func (db *DB) Ingest(ctx context.Context, sorted iter.Seq2[[]byte, []byte]) error {
	if err := db.beginUsable(ctx); err != nil {
		return err
	}
	defer db.life.Calls.Done()
	begin := time.Now()
	s := db.newSink(manifest.NumLevels-1, db.filterPolicy().IngestBits())
	s.ingest = true
	g := ingestion{db: db, ctx: ctx, sink: s}
	defer g.giveUp() // also if sorted panics
	if err := g.write(sorted); err != nil {
		return err
	}
	if len(s.metas) == 0 {
		return nil
	}
	if err := s.open(); err != nil {
		return err
	}
	if err := db.Flush(ctx); err != nil { // so that writers will wait for little
		return err
	}
	level, err := g.commit()
	if !g.done {
		return err
	}
	c := &db.counters
	c.ingests.Add(1)
	c.ingestBytes.Add(uint64(s.bytes))
	c.ingested.Add(g.entries)
	c.ingestedPayload.Add(g.payload)
	e := Event{Kind: EventIngest, Duration: time.Since(begin), Level: level, BytesOut: s.bytes}
	for _, meta := range s.metas {
		e.Tables = append(e.Tables, uint64(meta.Num))
	}
	db.events.emit(e)
	db.scheduler.Nudge()
	return err // ErrIngested, or nil
}

// An ingestion is one call of Ingest. It runs on the caller's goroutine:
//
//  1. write makes tables of what sorted gives. It holds no lock, so reads, writes and
//     compactions go on. No entry has a sequence number yet.
//  2. Ingest makes the tables durable and opens them, which checks them. Then it flushes the
//     memtables, so that little is left to flush in step 3.
//  3. commit leads the queue of writers, so writers wait. install flushes what has been written
//     since, takes one sequence number for all entries, and chooses the level of the tables. It
//     reads no table: with 7,500 tables, writers waited 200 ms for that.
//  4. The edit goes to the manifest. Then the view with the tables, and the number, become
//     visible in one step.
//  5. mark notes the number in the log, for those who read logs and miss a number there.
//  6. giveUp removes what was written, unless step 4 has succeeded.
type ingestion struct {
	db   *DB
	ctx  context.Context
	sink *sink
	out  compaction.Output // the table in the making, or nil
	done bool              // the tables are the store's

	entries, payload uint64 // payload: bytes of keys and values
}

// giveUp removes what was written, unless the tables are the store's.
func (g *ingestion) giveUp() {
	if g.out != nil {
		g.out.Abandon()
		g.out = nil
	}
	if !g.done {
		g.sink.discard()
	}
}

// ingestBytes is how much is written between two looks at the context.
const ingestBytes = 64 << 10

// write makes tables of what sorted gives, and completes the last one. It looks at the context
// every ingestBytes. On an error a table may be unfinished; giveUp abandons it.
func (g *ingestion) write(sorted iter.Seq2[[]byte, []byte]) (err error) {
	var last []byte
	begun := false
	unchecked := ingestBytes
	for key, value := range sorted {
		if unchecked += len(key) + len(value) + 1; unchecked >= ingestBytes {
			unchecked = 0
			if err = g.alive(); err != nil {
				return err
			}
		}
		if begun && bytes.Compare(last, key) >= 0 {
			return fmt.Errorf("%w: %q is not above the key before it, %q", ErrNotAscending, abbreviate(key), abbreviate(last))
		}
		if err = g.add(key, value); err != nil {
			return err
		}
		last, begun = append(last[:0], key...), true
	}
	if err = g.alive(); err != nil {
		return err
	}
	return g.finish()
}

// alive returns why the ingestion has to end, or nil: the caller's context is done, the store is
// closing, or it takes no writes.
func (g *ingestion) alive() error {
	if g.ctx.Err() != nil {
		return base.ContextError(g.ctx)
	}
	if g.db.life.Context.Err() != nil {
		return ErrClosed
	}
	return g.db.Err()
}

// add appends an entry to the table in the making, which it begins if there is none. A table
// ends when it has TableSize bytes. The entry has sequence number 0 in the file; readers of the
// table replace it by the number that the manifest gives.
func (g *ingestion) add(key, value []byte) error {
	switch {
	case len(key) > MaxKeySize:
		return fmt.Errorf("shale: ingest: key %q: %w: %d bytes", abbreviate(key), ErrKeyTooLarge, len(key))
	case len(value) > MaxValueSize:
		return fmt.Errorf("shale: ingest: key %q: %w: %d bytes", abbreviate(key), ErrValueTooLarge, len(value))
	}
	if g.out != nil && g.out.EstimatedSize() >= g.db.opts.TableSize {
		if err := g.finish(); err != nil {
			return err
		}
	}
	if g.out == nil {
		out, err := g.sink.newOutput()
		if err != nil {
			return fmt.Errorf("shale: ingest: %w", err)
		}
		g.out = out
	}
	if err := g.out.Add(base.InternalKey{UserKey: key, Trailer: base.NewTrailer(0, base.KindPut)}, value); err != nil {
		return fmt.Errorf("shale: ingest: %w", err)
	}
	g.entries++
	g.payload += uint64(len(key) + len(value))
	return nil
}

// finish completes the table in the making, if there is one. If that fails, the output removes
// the file itself.
func (g *ingestion) finish() error {
	if g.out == nil {
		return nil
	}
	out := g.out
	g.out = nil
	if err := out.Finish(); err != nil {
		return fmt.Errorf("shale: ingest: %w", err)
	}
	return nil
}

// commit makes the tables part of the store, between two groups of writes, and returns their
// level. ctx ends the wait for a turn.
func (g *ingestion) commit() (level int, err error) {
	err = g.db.commits.Alone(g.ctx, func() error {
		level, err = g.install()
		return err
	})
	return level, err
}

// install gives the entries the next sequence number and the tables their place.
//
// All older entries must be in tables before, for two reasons. A memtable with older entries
// would become a run above the ingested tables, and hide them. And recovery takes every batch up
// to the highest number in a table for flushed, so after a crash it would skip writes that are
// only in the log.
//
// If install fails, readers see nothing of the ingestion. Its number stays unused. Requires: the
// caller leads the queue.
func (g *ingestion) install() (level int, err error) {
	db := g.db
	if err := db.Err(); err != nil {
		return 0, err
	}
	if err := db.awaitRoom(g.ctx); err != nil {
		return 0, err
	}
	if err := g.flush(); err != nil {
		return 0, err
	}
	seq, err := db.commits.Take() // it is burnt, whatever happens
	if err != nil {
		return 0, err
	}
	for _, t := range g.sink.tables {
		t.Number(seq)
	}
	// Until the tables are installed, no compaction may write data to their place, which would be
	// older. Level 0 needs no reservation: a new run there is above all others.
	plan, run := g.place()
	if plan.To > 0 {
		defer db.scheduler.FreeInputs(plan)
	}
	// All writes are in tables, so the current log has none, and no earlier log is needed. The edit
	// says so, although the flush may have said it. Logs do not have what was ingested. Their older
	// writes, replayed, would hide it.
	minLog := db.logs.CurrentNum()
	edit := &manifest.Edit{MinLog: minLog, LastSeq: seq, Added: addedTables(plan.To, run, g.sink.tables)}
	e := db.tree.Begin()
	defer e.End()
	if err := e.Log(edit, g.sink.tables, nil); err != nil {
		return 0, fmt.Errorf("%w: %w", ErrIngestInDoubt, err) // the torn manifest may have the edit
	}
	g.done = true
	db.obsolete(db.logs.DropBelow(minLog)...)
	db.commits.Ingested(seq, g.sink.metas[0].Smallest, g.sink.metas[len(g.sink.metas)-1].Largest)
	v := db.mems.Begin(e.Next)
	// A reader that still has the view before, but the number of a later
	// write, must not find that write without these entries.
	empty := v.Mem
	v.Mem = db.mems.NewMemtable()
	var old *memqueue.View
	db.snapshots.Publish(func() {
		// The number comes after the view. PutIfAbsent loads the number and then the view: if it
		// got the new number with the old view, it would overwrite a key of the new tables.
		old = db.mems.End(v)
		db.commits.Publish(seq)
	})
	db.installed(e, old)
	// The old memtable is empty, and the current view has it no longer. Readers may have pinned it.
	empty.Freeze()
	empty.Release()
	db.deleter.Run()
	db.mems.Raise(seq)
	return plan.To, g.mark(seq)
}

// mark appends the mark of the ingestion to the log. It comes after the edit is durable: so a reader
// that finds the mark finds the tables in the manifest, or in a later one. A crash may come between
// the two, and then only the manifest tells what became of the number. If the mark can't be
// written, the ingestion stands all the same, and the store refuses writes as after any other
// error of the log.
//
// Then mark asks ShippingOptions.Gate. Without its consent, which is also missing if there is no
// mark to ask about, the error is ErrIngested. Requires: the caller leads the queue.
func (g *ingestion) mark(seq base.Seq) error {
	metas := g.sink.metas
	var b Batch
	if err := b.add(kindIngestMark, metas[0].Smallest, metas[len(metas)-1].Largest); err != nil {
		return err
	}
	db := g.db
	gate := db.commitGate()
	keep := db.opts.KeepLog > 0
	err := db.logs.Append([][]byte{b.setSeq(seq)}, seq, keep)
	if err == nil && keep { // so that a feed need not end here after a power cut
		err = db.logs.Current().Sync()
	}
	if err != nil {
		err = db.health.LogFailed(err) // DB.Err and an event report it
		if gate == nil {
			return nil
		}
		return fmt.Errorf("%w: %w", ErrIngested, err)
	}
	if gate != nil {
		if err := gate(seq); err != nil {
			return fmt.Errorf("%w: %w", ErrIngested, db.health.CommitRefused(err))
		}
	}
	return nil
}

// flush brings all that is in memtables into tables. When it returns nil the memtable is empty,
// and stays so until the caller gives the lead away. It also begins another log if the marks of
// ingestions have filled the current one: no memtable fills in a store that only ingests, so
// nothing else would. Requires: the caller leads the queue.
func (g *ingestion) flush() error {
	db := g.db
	if !db.mems.View().Mem.Empty() || db.logs.IsLong() {
		if err := db.rotate(); err != nil {
			return err
		}
	}
	if err := db.flushAll(); err != nil {
		return callError("flush", err)
	}
	return nil
}

// place chooses the level (compaction.PlaceIngest) and the run for the tables. It keeps
// compactions from writing there, unless that is level 0, until Scheduler.FreeInputs.
func (g *ingestion) place() (plan *compaction.Plan, run uint64) {
	metas := g.sink.metas
	num := g.db.tree.NewFileNum() // higher than those of all runs of level 0, lower than those to come
	plan = g.db.scheduler.PlaceIngest(metas[0].Smallest, metas[len(metas)-1].Largest)
	if plan.To == 0 {
		return plan, uint64(num)
	}
	return plan, plan.OutputRun()
}
