package shale

import (
	"bytes"
	"errors"
	"sort"
	"sync"

	"github.com/shaledb/shale/internal/base"
	"github.com/shaledb/shale/internal/commit"
	"github.com/shaledb/shale/internal/iter"
	"github.com/shaledb/shale/internal/memqueue"
	"github.com/shaledb/shale/internal/spans"
	"github.com/shaledb/shale/internal/tree"
	"github.com/shaledb/shale/internal/txn"
	"github.com/shaledb/shale/memtable"
	"github.com/shaledb/shale/sstable"
)

// This file has what iterators move: a merge of memtables and runs.

// A cursor is what an Iterator moves. Cursors are pooled with all that they are made of, so that
// a scan of a few entries allocates nothing but the Iterator.
//
// openCursor gets a view, whose version and memtables the cursor holds until close. From what
// may have keys of the range it makes src, which merges an iterator over each memtable and one
// over each run. src gives internal entries: all versions of each key, newest first, tombstones
// among them.
//
// A movement positions src, and then findForward or findBackward goes on to an entry that the
// reader sees: the newest version up to seq of a key, if that is not a tombstone. A merge can't
// change its direction, so a movement that does begins with a seek.
//
// No lock is held between two movements. One goroutine at a time uses a cursor.
type cursor struct {
	// Constant from openCursor to close.
	db     *DB
	view   *memqueue.View // with its version acquired and its memtables pinned
	src    base.Iterator
	rng    Range  // its bounds lie in bounds
	bounds []byte // the cursor's own copy
	seq    base.Seq
	asOf   int64        // its time: see commit.Clock
	spans  spans.Finder // the range deletes of view
	tx     *inTxn       // of a transaction; nil: of none

	err      error // why the last movement failed
	position position

	// The entry, while position is onEntry. After a movement forward src stands on it, and value
	// is src's. After one backward src stands before all versions of key, and value lies in
	// valueBuf.
	key      []byte
	value    []byte
	valueBuf []byte
	expiry   int64 // when the value is over; 0: never
	backward bool
	kv       *base.KV // what src stands on, nil if nothing
	stretch  stretch

	// What src is made of. mems and runs also keep iterators that are not in use, for the next
	// time that the cursor leaves the pool.
	merging iter.Merging
	sources []base.Iterator
	mems    []*memtable.Iterator
	runs    []*runSource
	nmems   int // in use
	nruns   int

	// What creditSeeks reports: see countSeek.
	wasted int    // compactions would spare each seek this many runs, those that are spare
	seeks  uint32 // since the last creditSeeks
	misses uint32 // blocks of these runs that the seeks did not find in the cache
}

// An inTxn is what a cursor of a transaction has besides that of a snapshot.
type inTxn struct {
	own     ownWrites  // of the transaction; nil: none
	deleted *spans.Set // its range deletes, which do not cover own; nil: none
	watch   watcher    // nil: nobody wants to know
	ended   *bool      // the transaction has
}

// ownWrites is a txn.Iterator over what a transaction has written, and watcher a txn.Watch, which notes where a cursor
// goes. They are interfaces so that a program without transactions does not link them.
type (
	ownWrites interface {
		base.Iterator
		Find(key []byte) (value []byte, kind base.Kind, found bool)
	}
	watcher interface {
		SeekGE(key []byte)
		SeekLT(key []byte)
		Forward(key []byte)
		Backward(key []byte)
		AtEnd(upper []byte)
		End()
	}
)

type position uint8

const (
	beforeFirst position = iota
	onEntry
	afterLast
)

// ready prepares a movement that is not a step of a stretch, and reports whether the cursor may move.
func (c *cursor) ready() bool {
	c.settle()
	return c.mayMove()
}

// mayMove reports whether the cursor may move, and clears the error of the last movement. Once the
// store is closed no cursor moves: the error is ErrClosed.
func (c *cursor) mayMove() bool {
	c.err = nil
	if c.db.mems.View() == nil {
		c.err = ErrClosed
		c.position = afterLast
		return false
	}
	if c.tx != nil && *c.tx.ended {
		c.err, c.position = ErrTxnDone, afterLast
		return false
	}
	return true
}

// stay is a movement that leads further past an end. It keeps the error that stopped the cursor
// there, if one did, so that a failure is not taken for the end.
func (c *cursor) stay() bool {
	switch {
	case c.db.mems.View() == nil:
		c.err = ErrClosed
	case c.tx != nil && *c.tx.ended:
		c.err = ErrTxnDone
	}
	return false
}

// first moves to the first entry.
func (c *cursor) first() bool { return c.ready() && c.land(c.rng.Lower) }

// last moves to the last entry.
func (c *cursor) last() bool {
	if !c.ready() {
		return false
	}
	if c.tx != nil && c.tx.watch != nil {
		c.tx.watch.SeekLT(c.rng.Upper)
	}
	if c.rng.Upper == nil {
		c.kv = c.src.Last()
	} else {
		c.kv = c.src.SeekLT(c.rng.Upper)
	}
	c.countSeek()
	return c.findBackward()
}

// seekGE moves to the first entry whose key is key or greater.
func (c *cursor) seekGE(key []byte) bool {
	if !c.ready() {
		return false
	}
	if c.rng.strip > 0 {
		key = c.join(key)
	}
	if bytes.Compare(key, c.rng.Lower) < 0 {
		key = c.rng.Lower
	}
	return c.land(key)
}

// land moves to the first entry whose key is key or greater. Requires: key is not below the
// range; the cursor is ready.
func (c *cursor) land(key []byte) bool {
	if c.tx != nil && c.tx.watch != nil {
		c.tx.watch.SeekGE(key)
	}
	c.kv = c.src.SeekGE(key, max(c.seq, 1)) // 0 would be behind a write of the transaction
	c.countSeek()
	return c.findForward(false)
}

// join returns the key of a Sub as the store has it, in valueBuf.
func (c *cursor) join(key []byte) []byte {
	c.valueBuf = append(append(c.valueBuf[:0], c.rng.Lower[:c.rng.strip]...), key...)
	return c.valueBuf
}

// seekLT moves to the last entry whose key is less than key.
func (c *cursor) seekLT(key []byte) bool {
	if !c.ready() {
		return false
	}
	if c.rng.strip > 0 {
		key = c.join(key)
	}
	if c.rng.Upper != nil && bytes.Compare(key, c.rng.Upper) > 0 {
		key = c.rng.Upper
	}
	if c.tx != nil && c.tx.watch != nil {
		c.tx.watch.SeekLT(key)
	}
	c.kv = c.src.SeekLT(key)
	c.countSeek()
	return c.findBackward()
}

// next moves one entry forward, from before the first to the first.
func (c *cursor) next() bool {
	if c.stretch.left > 0 && !c.backward {
		return c.mayMove() && c.step(1)
	}
	switch {
	case c.position == beforeFirst:
		return c.first()
	case c.position == afterLast:
		return c.stay()
	case !c.ready():
		return false
	case c.backward:
		c.kv = c.src.SeekGE(c.key, 0) // behind all versions of key but one of number 0, which is skipped
		return c.findForward(true)
	case c.enterStretch(1):
		return true
	}
	c.kv = c.src.Next()
	return c.findForward(true)
}

// prev moves one entry back, from after the last to the last.
func (c *cursor) prev() bool {
	if c.stretch.left > 0 && c.backward {
		return c.mayMove() && c.step(-1)
	}
	switch {
	case c.position == afterLast:
		return c.last()
	case c.position == beforeFirst:
		return c.stay()
	case !c.ready():
		return false
	case !c.backward:
		c.kv = c.src.SeekLT(c.key)
	case c.enterStretch(-1):
		return true
	}
	return c.findBackward()
}

// maxSteps is how many entries that the reader does not see are stepped over before a seek takes
// the place of further steps.
const maxSteps = 8

// findForward moves from src's entry forward to the next one that is visible: the newest
// version, not above seq, of a key that is not deleted. skip says that the visible version of
// c.key has been seen, so its older versions are passed over.
func (c *cursor) findForward(skip bool) bool {
	c.backward = false
	steps := 0
	for c.kv != nil {
		kv := c.kv
		if c.rng.Upper != nil && bytes.Compare(kv.UserKey, c.rng.Upper) >= 0 {
			return c.end(afterLast)
		}
		switch {
		case skip && bytes.Equal(kv.UserKey, c.key):
			// An older version. After maxSteps of them, a seek goes past the key.
			if steps++; steps > maxSteps {
				c.kv, steps = c.src.SeekGE(c.successor(), base.MaxSeq), 0
				continue
			}
		case kv.Seq() > c.seq && kv.Seq() != txn.OwnSeq:
			if steps++; steps > maxSteps {
				c.key = append(c.key[:0], kv.UserKey...)
				c.kv, steps, skip = c.src.SeekGE(c.key, c.seq), 0, false
				continue
			}
		case kv.Kind() != base.KindPut && !c.lives(kv.Kind(), kv.Value) || c.deleted(kv):
			c.key = append(c.key[:0], kv.UserKey...)
			skip, steps = true, 0
		default:
			c.key = append(c.key[:0], kv.UserKey...)
			c.value, c.expiry = kv.Value, 0
			if kv.Kind() == base.KindExpiring {
				c.expiry, c.value = base.CutExpiry(kv.Value)
			}
			c.position = onEntry
			if c.tx != nil && c.tx.watch != nil {
				c.tx.watch.Forward(c.key)
			}
			return true
		}
		c.kv = c.src.Next()
	}
	return c.end(afterLast)
}

// successor returns the least key above c.key, in c.valueBuf.
func (c *cursor) successor() []byte {
	c.valueBuf = append(append(c.valueBuf[:0], c.key...), 0)
	return c.valueBuf
}

// findBackward moves from src's entry back to the previous visible one. Going back, the versions
// of a key come oldest first, so the last one that is not above seq counts. It is known only
// when src has left it. So the value is copied, and src ends up before all versions.
func (c *cursor) findBackward() bool {
	c.backward = true
	for c.kv != nil {
		if bytes.Compare(c.kv.UserKey, c.rng.Lower) < 0 {
			return c.end(beforeFirst)
		}
		c.key = append(c.key[:0], c.kv.UserKey...)
		live, own, steps := false, false, 0
		if c.tx != nil && c.tx.own != nil {
			live, own = c.findOwn()
		}
		for !own && c.kv != nil && bytes.Equal(c.kv.UserKey, c.key) {
			if c.kv.Seq() <= c.seq {
				live = !c.deleted(c.kv) && c.keep(c.kv.Kind(), c.kv.Value)
			}
			if steps++; c.kv.Seq() > c.seq || steps > maxSteps {
				live = c.newestVersion(live)
				if c.err != nil {
					return c.end(beforeFirst)
				}
				break
			}
			c.kv = c.src.Prev()
		}
		// src may have failed before it came to the version that counts. An older one must not
		// take its place.
		if c.kv == nil && c.src.Err() != nil {
			return c.end(beforeFirst)
		}
		if live {
			c.value = c.valueBuf
			c.position = onEntry
			if c.tx != nil && c.tx.watch != nil {
				c.tx.watch.Backward(c.key)
			}
			return true
		}
	}
	return c.end(beforeFirst)
}

// lives reports whether a version that is no put is there for the reader: it expires, and later.
func (c *cursor) lives(kind base.Kind, stored []byte) bool {
	if kind == base.KindDelete {
		return false
	}
	ms, _ := base.CutExpiry(stored)
	return !c.db.snapshots.Clock.Over(ms, c.asOf)
}

// keep copies the value of a version into valueBuf if it is there for the reader, and reports whether
// it is.
func (c *cursor) keep(kind base.Kind, stored []byte) (live bool) {
	c.expiry = 0
	if kind != base.KindPut {
		if !c.lives(kind, stored) {
			return false
		}
		c.expiry, stored = base.CutExpiry(stored)
	}
	c.valueBuf = append(c.valueBuf[:0], stored...)
	return true
}

// findOwn takes what the reader's own transaction has written to c.key, which hides all versions. Then own is true, and src
// stands before them. live says that it is a value, which is in valueBuf then. Requires: there are own writes.
func (c *cursor) findOwn() (live, own bool) {
	value, kind, own := c.tx.own.Find(c.key)
	if own {
		live = c.keep(kind, value)
		c.kv = c.src.SeekLT(c.key)
	}
	return live, own
}

// newestVersion takes the place of further steps through the versions of c.key. It finds the
// visible one by a seek, unless src already stands above it, and leaves src before all versions
// of the key. live, and the result, say whether the visible version is a value; that is then in
// valueBuf. If the first seek fails, c.err says so.
func (c *cursor) newestVersion(live bool) bool {
	if c.kv.Seq() <= c.seq {
		kv := c.src.SeekGE(c.key, c.seq)
		if kv == nil {
			c.err = c.src.Err()
			return false
		}
		live = !c.deleted(kv) && c.keep(kv.Kind(), kv.Value)
	}
	c.kv = c.src.SeekLT(c.key)
	return live
}

// deleted reports whether a range delete that the reader sees is newer than kv, a version that the reader sees, and covers
// it.
func (c *cursor) deleted(kv *base.KV) bool {
	if c.spans.Empty() && (c.tx == nil || c.tx.deleted.Empty()) || kv.Seq() == txn.OwnSeq {
		return false
	}
	return c.spans.Cover(kv.UserKey, c.seq) > kv.Seq() || c.tx != nil && c.tx.deleted.Cover(kv.UserKey, base.MaxSeq) > 0
}

// end leaves the cursor without an entry, at the end given or where an error stopped it. It
// reports damage. It returns false, which is what the movement returns.
func (c *cursor) end(p position) bool {
	c.position = p
	c.value = nil
	if c.err == nil {
		c.err = c.src.Err()
	}
	switch {
	case c.err == nil && (c.tx == nil || c.tx.watch == nil):
	case c.err == nil && p == beforeFirst:
		c.tx.watch.Backward(c.rng.Lower)
	case c.err == nil:
		c.tx.watch.AtEnd(c.rng.Upper)
	case errors.Is(c.err, ErrClosed):
		c.err = ErrClosed // without the read that met it
	default:
		c.db.noteCorruption(c.err)
	}
	return false
}

var cursors = sync.Pool{New: func() any { return new(cursor) }}

// openCursor returns a cursor over the entries of r as of at in v, and takes over the caller's pin
// of v. It reads nothing from tables; the first movement does. tx is the transaction that reads, if there is one. The caller
// closes the cursor.
func (db *DB) openCursor(v *memqueue.View, r Range, at commit.Held, tx *inTxn) *cursor {
	if at.Seq == latest.Seq {
		at.Seq = db.commits.Visible() // after the view: see view
		at.AsOf = db.snapshots.Clock.Begin()
	}
	db.counters.iterators.Add(1)
	c := cursors.Get().(*cursor)
	c.db, c.view, c.seq, c.asOf = db, v, at.Seq, at.AsOf
	c.position, c.backward = beforeFirst, false
	c.tx = tx
	c.stretch = stretch{}
	c.bound(r)
	c.open(v)
	return c
}

// bound copies r into the cursor's own memory.
func (c *cursor) bound(r Range) {
	n := len(r.Lower)
	c.bounds = append(append(c.bounds[:0], r.Lower...), r.Upper...)
	if c.bounds == nil {
		c.bounds = []byte{} // for an upper bound that is empty, and not nil
	}
	c.rng = Range{Lower: c.bounds[:n:n], Reverse: r.Reverse, KeysOnly: r.KeysOnly, Limit: r.Limit, strip: r.strip}
	if r.Upper != nil {
		c.rng.Upper = c.bounds[n:]
	}
}

// open makes src of what in v may hold keys of the range, newest first, as iter.Merging requires.
func (c *cursor) open(v *memqueue.View) {
	c.sources = c.sources[:0]
	v.Spans(&c.spans) // seq was loaded before
	if !c.rng.empty() {
		if c.tx != nil && c.tx.own != nil {
			c.sources = append(c.sources, c.tx.own)
		}
		// The number seq was loaded before this look. A write that it covers was in the memtable
		// by then, so what is added to an empty one later is not visible here.
		if !v.Mem.Empty() {
			c.addMemtable(v.Mem)
		}
		for _, imm := range v.Imms {
			c.addMemtable(imm.Mem)
		}
		c.addRuns(v.Runs)
	}
	if len(c.sources) == 1 {
		c.src = c.sources[0]
		return
	}
	c.merging.Reset(c.sources)
	c.src = &c.merging
}

// addMemtable adds m, which is pinned, to the sources.
func (c *cursor) addMemtable(m *memtable.Memtable) {
	if c.nmems == len(c.mems) {
		c.mems = append(c.mems, new(memtable.Iterator))
	}
	it := c.mems[c.nmems]
	c.nmems++
	it.Reset(m)
	c.sources = append(c.sources, it)
	if m.Frozen() && !c.spans.Empty() {
		if skip := new(spans.Iterator); skip.Reset(it, &c.spans, nil, nil, m.LastSeq(), c.seq) {
			c.sources[len(c.sources)-1] = skip
		}
	}
}

// addRuns adds the runs that have tables in the range, newest first. It leaves out tables whose
// filter denies the prefix that all keys of the range have.
func (c *cursor) addRuns(runs []*tree.Run) {
	p := newPrefixProbe(c.rng, c.db.tree.PrefixRules())
	young := 0
	for _, run := range runs {
		if c.nruns == len(c.runs) {
			c.runs = append(c.runs, new(runSource))
		}
		s := c.runs[c.nruns]
		from, end := run.Overlapping(c.rng.Lower, c.rng.Upper)
		all := run.Tables[from:end]
		if s.tables = p.keep(all, &s.kept); len(s.tables) == 0 {
			continue
		}
		s.run, s.first = run, from
		if len(s.tables) < len(all) {
			s.run = nil
		}
		if s.spare = run.Level == 0; s.spare {
			young++
		}
		c.nruns++
		s.concat.Reset(len(s.tables), s)
		s.spans, s.seq = &c.spans, c.seq
		c.sources = append(c.sources, &s.concat)
	}
	if young > 0 && young == c.nruns { // the oldest would be the only run
		c.runs[c.nruns-1].spare = false
		young--
	}
	if c.wasted = young; young == 0 && c.nruns > 1 { // the highest can go down
		c.runs[0].spare, c.wasted = true, 1
	}
	if p.negatives > 0 {
		c.db.counters.prefixNegative.Add(p.negatives)
	}
}

// A runSource is a run's part of a cursor: it opens one table at a time, as concat comes to it.
type runSource struct {
	concat iter.Concat
	tables []*tree.Table
	run    *tree.Run // whose tables they are, from number first on; nil: some between them are left out
	first  int
	spare  bool             // a compaction would merge it with another run of the cursor
	kept   []*tree.Table    // where tables lie if they are not the run's own
	table  sstable.Iterator // over the open one
	spans  *spans.Finder    // of the cursor
	seq    base.Seq         // of the cursor
	skip   *spans.Iterator  // over table, if range deletes hide some of it; nil: there was none yet
}

// Bounds implements iter.ConcatSource.
func (s *runSource) Bounds(i int) (smallest, largest []byte) {
	return s.tables[i].Meta.Smallest, s.tables[i].Meta.Largest
}

// From implements iter.ConcatFinder.
func (s *runSource) From(key []byte) int {
	if s.run == nil {
		return sort.Search(len(s.tables), func(i int) bool { return bytes.Compare(s.tables[i].Meta.Largest, key) >= 0 })
	}
	return s.place(s.run.From(key))
}

// Before implements iter.ConcatFinder.
func (s *runSource) Before(key []byte) int {
	if s.run == nil {
		return sort.Search(len(s.tables), func(i int) bool { return bytes.Compare(s.tables[i].Meta.Smallest, key) >= 0 })
	}
	return s.place(s.run.Before(key))
}

// place turns an index into the run's tables into the next one into tables.
func (s *runSource) place(i int) int { return min(max(i-s.first, 0), len(s.tables)) }

// Open implements iter.ConcatSource.
func (s *runSource) Open(i int) (base.Iterator, error) {
	s.table.Reset(s.tables[i].Reader, nil, sstable.IterOptions{})
	if !s.spans.Empty() {
		if s.skip == nil {
			s.skip = new(spans.Iterator)
		}
		if m := s.tables[i].Meta; s.skip.Reset(&s.table, s.spans, m.Smallest, m.Largest, m.MaxSeq, s.seq) {
			return s.skip, nil
		}
	}
	return &s.table, nil
}

// maxKeptBuffer is the largest buffer of a value that a cursor keeps in the pool.
const maxKeptBuffer = 64 << 10

// close releases the view and gives the cursor back to the pool. Nothing of the store stays
// reachable from there, and a large buffer is dropped.
func (c *cursor) close() error {
	if c.seeks > 0 {
		c.creditSeeks()
	}
	if c.tx != nil && c.tx.watch != nil {
		c.tx.watch.End()
	}
	err := c.src.Close()
	for _, s := range c.runs[:c.nruns] {
		s.tables, s.run = nil, nil
		if s.skip != nil {
			s.skip.Forget()
		}
		clear(s.kept)
		s.kept = s.kept[:0] // so that the next close does not clear it again
	}
	c.db.mems.Unpin(c.view)
	c.db.counters.iterators.Add(^uint64(0)) // one less
	if cap(c.valueBuf) > maxKeptBuffer {
		c.valueBuf = nil
	}
	clear(c.sources)
	c.spans.Reset()
	c.db, c.view, c.src, c.err, c.kv, c.value, c.tx = nil, nil, nil, nil, nil, nil, nil
	c.key, c.nmems, c.nruns, c.wasted = c.key[:0], 0, 0, 0
	cursors.Put(c)
	return err
}
