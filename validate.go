package shale

import (
	"context"
	"errors"
	"fmt"
	"math"

	"github.com/shaledb/shale/internal/base"
	"github.com/shaledb/shale/internal/commit"
	"github.com/shaledb/shale/internal/filecache"
	"github.com/shaledb/shale/internal/memqueue"
	"github.com/shaledb/shale/internal/spans"
	"github.com/shaledb/shale/internal/txn"
	"github.com/shaledb/shale/memtable"
	"github.com/shaledb/shale/sstable"
)

// This file has Txn.Commit, which compares what a transaction has read with what was written since.

// A conflictError is an ErrConflict over key, which was written with number seq.
type conflictError struct {
	key []byte
	seq base.Seq
}

func (e *conflictError) Error() string {
	return fmt.Sprintf("%v: %q, which the transaction has read, was written by another (number %d)", ErrConflict, abbreviate(e.key), e.seq)
}

func (e *conflictError) Unwrap() error { return ErrConflict }

// Commit ends the transaction: its writes become visible and as durable as those of Write, all or none. The error wraps
// [ErrConflict] if another writer has changed what the transaction has read. Then, and if ctx ends while it waits,
// nothing was written. After any other error it is as with Write.
func (tx *Txn) Commit(ctx context.Context) error {
	if err := tx.enter(); err != nil {
		return err
	}
	defer tx.leave()
	defer tx.Discard() // the tree keeps evidence of later writes until then
	if !tx.writable || tx.batch.Len() == 0 {
		return nil
	}
	err := tx.commit(ctx)
	if _, lost := err.(*conflictError); lost {
		tx.db.counters.txnConflicts.Add(1)
	} else if err == nil {
		tx.db.counters.txnCommits.Add(1)
	}
	return err
}

func (tx *Txn) commit(ctx context.Context) error {
	if err := base.ContextError(ctx); err != nil {
		return err
	}
	for _, w := range tx.watches {
		w.Flush()
	}
	tx.db.snapshots.Clock.Note(tx.batch.expiring)
	if tx.reads.Empty() {
		return tx.db.write(ctx, &tx.batch)
	}
	r := &tx.reading
	r.Set, r.Seq = &tx.reads, tx.snapshot.held.Seq
	for {
		if err := tx.validate(ctx, r); err != nil {
			return err
		}
		verdict, err := tx.db.writeIf(ctx, &tx.batch, r)
		if err != nil || verdict == commit.Passed {
			return err
		}
		if verdict == commit.Conflict {
			return &conflictError{r.Key, r.KeyAt}
		}
	}
}

// validate compares what was read with all that was written since, as far as that is known. What comes later the leader
// of the commit queue compares.
func (tx *Txn) validate(ctx context.Context, r *commit.Reading) error {
	tail := tx.db.commits.Tail()
	for {
		switch tail.Check(r, math.MaxInt) {
		case commit.Passed:
			return nil
		case commit.Conflict:
			return &conflictError{r.Key, r.KeyAt}
		}
		tail.Hold(r)
		visible := tx.db.commits.Visible()
		if visible == r.Seq {
			return nil // the tail begins with the next group
		}
		if err := tx.ask(ctx, r); err != nil {
			return err
		}
		r.Seq = visible
	}
}

// ask looks in the tables and memtables for writes after r.Seq of what was read. It is exact, because the snapshot of the
// transaction is open: of each key that was written after it, the newest version is kept, also if that is a tombstone.
func (tx *Txn) ask(ctx context.Context, r *commit.Reading) error {
	n := 0
	for key := range tx.reads.Keys() {
		if n++; n%1024 == 0 {
			if err := base.ContextError(ctx); err != nil {
				return err
			}
		}
		switch at, err := tx.db.newest(key, r.Seq); {
		case err != nil:
			return tx.db.askError(err)
		case at > r.Seq:
			return &conflictError{cloneNonNil(key), at} // the next transaction uses the memory of the set
		}
	}
	v := tx.db.mems.Pin()
	if v == nil {
		return ErrClosed
	}
	defer tx.db.mems.Unpin(v)
	for _, sp := range tx.reads.Spans() {
		if err := base.ContextError(ctx); err != nil {
			return err
		}
		key, at, err := firstNewer(v, sp, r.Seq)
		switch {
		case err != nil:
			return tx.db.askError(err)
		case key != nil:
			return &conflictError{key, at}
		}
	}
	return nil
}

// askError is readError for a transaction that asks what was written.
func (db *DB) askError(err error) error {
	if errors.Is(err, ErrClosed) {
		return ErrClosed
	}
	db.noteCorruption(err)
	return fmt.Errorf("shale: commit: %w", err)
}

// newest returns the number of the newest version of key if that is above after, else 0 or a lower number.
func (db *DB) newest(key []byte, after base.Seq) (base.Seq, error) {
	l := db.newLookup(key)
	for {
		v := db.mems.View()
		if v == nil {
			return 0, ErrClosed
		}
		at, err := l.newestIn(v, after)
		if err == nil || !errors.Is(err, filecache.ErrGone) {
			return at, err
		}
	}
}

func (l *lookup) newestIn(v *memqueue.View, after base.Seq) (base.Seq, error) {
	if at := v.Cover(l.key, base.MaxSeq); at > after {
		return at, nil
	}
	for m := range v.Memtables() {
		if !m.MayContainHash(l.hash) {
			continue
		}
		if !m.Pin() {
			return 0, filecache.ErrGone
		}
		_, _, found, at := m.Get(l.key, base.MaxSeq)
		m.Unpin()
		if found {
			return at, nil
		}
	}
	for _, r := range v.Runs {
		t := r.Find(l.key)
		if t == nil || t.Meta.MaxSeq <= after {
			continue
		}
		if maybe, _ := l.askFilter(t, t.NeededFilter()); !maybe {
			continue
		}
		value := sstable.Value{Want: sstable.WantNone}
		found, err := t.Reader.Get(l.key, l.tagHash(), base.MaxSeq, &value, nil)
		if err != nil || found {
			return value.Trailer.Seq(), err
		}
	}
	return 0, nil
}

// firstNewer returns a key in sp that v has a version of with a number above after, and the number; nil: there is none.
func firstNewer(v *memqueue.View, sp txn.Span, after base.Seq) (key []byte, at base.Seq, err error) {
	look := func(it base.Iterator) error {
		defer it.Close()
		for kv := it.SeekGE(sp.Lower, base.MaxSeq); kv != nil && sp.Reaches(kv.UserKey); kv = it.Next() {
			if kv.Seq() > after {
				key, at = cloneNonNil(kv.UserKey), kv.Seq()
				return nil
			}
		}
		return it.Err()
	}
	var deletes spans.Finder
	v.Spans(&deletes)
	if lower, at := deletes.Newer(sp.Lower, sp.Bound(), after); at > 0 {
		return cloneNonNil(lower), at, nil
	}
	for m := range v.Memtables() {
		if m.Len() == 0 || m.LastSeq() <= after {
			continue
		}
		if it := new(memtable.Iterator); key == nil {
			it.Reset(m)
			_ = look(it) // it never fails
		}
	}
	for _, r := range v.Runs {
		from, end := r.Overlapping(sp.Lower, sp.Bound())
		for _, t := range r.Tables[from:end] {
			if t.Meta.MaxSeq <= after || key != nil {
				continue
			}
			it := new(sstable.Iterator)
			it.Reset(t.Reader, nil, sstable.IterOptions{})
			if err := look(it); err != nil {
				return nil, 0, err
			}
		}
	}
	return key, at, nil
}
