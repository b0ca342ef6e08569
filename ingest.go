package shale

import (
	"bytes"
	"context"
	"fmt"
	"iter"
	"time"

	"github.com/shaledb/shale/compaction"
	"github.com/shaledb/shale/internal/base"
	"github.com/shaledb/shale/manifest"
)

// Ingest sets all keys that sorted gives to their values, at once: readers see all
// of them or none, and so does who opens the store after a crash. It writes tables
// right away, past log and memtable, and so is about twice as fast as Write, and leaves
// less to be compacted; when it returns nil they are durable, whatever Options.Durability says.
//
// Keys must come in strictly ascending order: the first that does not ends Ingest
// with an error that names it. Key and value need be valid only until sorted goes
// on. To give up, as when a source of entries fails, cancel ctx: Ingest then
// returns its cause. After an error nothing is visible; only after one from the
// file system while the tables were made part of the store, what is there is
// unknown until the store is opened again.
//
// Other goroutines read and write meanwhile. The keys are written at the end: they
// are newer than all writes that returned before, and hidden by those that begin
// after Ingest returned. Writers wait while the memtable is flushed then. Close waits
// for Ingest, which then ends when sorted gives its next entry.
func (db *DB) Ingest(ctx context.Context, sorted iter.Seq2[[]byte, []byte]) error {
	if err := db.usable(); err != nil {
		return err
	}
	if err := db.begin(); err != nil {
		return err
	}
	defer db.calls.Done()
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
	if err := db.Flush(ctx); err != nil { // so that writers will wait for little
		return err
	}
	level, err := g.commit()
	if err != nil {
		return err
	}
	c := &db.counters
	c.ingests.Add(1)
	c.ingestBytes.Add(uint64(s.bytes))
	c.writes.Add(g.entries)
	c.writtenBytes.Add(g.payload)
	e := Event{Kind: EventIngest, Duration: time.Since(begin), Level: level, BytesOut: s.bytes}
	for _, meta := range s.metas {
		e.Tables = append(e.Tables, uint64(meta.Num))
	}
	db.events.emit(e)
	db.scheduler.Nudge()
	return nil
}

// An ingestion is one call of Ingest.
type ingestion struct {
	db   *DB
	ctx  context.Context
	sink *sink
	out  compaction.Output // the table in the making, or nil
	done bool              // the tables are the store's

	entries, payload uint64 // payload: bytes of keys and values
}

// giveUp removes what was written, unless it is the store's.
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

// write makes tables of what sorted gives.
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

// alive returns why the ingestion is to end, or nil.
func (g *ingestion) alive() error {
	if g.ctx.Err() != nil {
		return context.Cause(g.ctx)
	}
	if g.db.ctx.Err() != nil {
		return ErrClosed
	}
	return g.db.Err()
}

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

// finish completes the table in the making.
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

// commit makes the tables part of the store, between two groups of writes.
func (g *ingestion) commit() (level int, err error) {
	err = g.db.commits.Alone(g.ctx, func() error {
		level, err = g.install()
		return err
	})
	return level, err
}

// install gives the entries the next sequence number and the tables their place.
// All that is older is in tables by then: so says the order of level 0, and
// recovery, which takes what is below the highest number of a table for flushed.
// Requires: the caller leads the queue.
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
	for _, meta := range g.sink.metas {
		meta.MinSeq, meta.MaxSeq = seq, seq
	}
	if err := g.sink.open(); err != nil {
		return 0, err
	}
	plan, run := g.place()
	if plan.To > 0 {
		defer db.scheduler.FreeInputs(plan)
	}
	edit := &manifest.Edit{LastSeq: seq, Added: addedTables(plan.To, run, g.sink.tables)}
	empty := db.view.Load().mem
	err = db.installWrites(edit, g.sink.tables, seq, func(v *view) {
		g.done = true
		// A reader that still has the view before, but the number of a later
		// write, must not find that write without these entries.
		v.mem = db.newMemtable()
	})
	if err != nil {
		return 0, err
	}
	empty.Freeze()
	empty.Release()
	db.flusher.raise(seq)
	return plan.To, nil
}

// flush empties the memtables. Requires: the caller leads the queue.
func (g *ingestion) flush() error {
	db := g.db
	if !db.view.Load().mem.Empty() {
		if err := db.rotate(); err != nil {
			return err
		}
	}
	if err := db.flusher.flushAll(); err != nil {
		return callError("flush", err)
	}
	return nil
}

// place chooses the level and run, and keeps compactions from writing there if it
// is not level 0.
func (g *ingestion) place() (plan *compaction.Plan, run uint64) {
	metas := g.sink.metas
	num := g.db.tree.NewFileNum() // higher than those of all runs of level 0, lower than those to come
	plan = g.db.scheduler.PlaceIngest(metas[0].Smallest, metas[len(metas)-1].Largest)
	if plan.To == 0 {
		return plan, uint64(num)
	}
	return plan, plan.OutputRun()
}
