package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/shaledb/shale"
)

// write makes the commits of a writer, one after the other.
func (r *role) write(writer int) {
	sec := r.s.keys.sections[writer]
	pace := between(r.r, time.Nanosecond, time.Millisecond) // of this session
	for r.s.running() {
		if !r.writeNext(sec) {
			return // what became of the last commit is known after the next Open
		}
		if r.r.IntN(16) == 0 {
			r.s.pause(16 * pace)
		}
	}
}

// writeNext makes the next commit. It returns false if its outcome stays
// unknown.
func (r *role) writeNext(sec *section) (known bool) {
	sec.mu.Lock()
	defer sec.mu.Unlock()
	c := commitOf(r.s.Seed, sec.writer, sec.settled+1, sec.slots)
	changes := c.effects(sec.at)
	sec.mark(&c, changes)
	err := r.s.call(r.name, func() error { return r.commit(sec, &c, len(changes) > 0) })
	r.s.ops.Add(1)
	late := c.patience > 0 && errors.Is(err, context.DeadlineExceeded)
	if err != nil && !late && !r.s.disk.excusesLate(err) {
		r.s.fail(fmt.Errorf("commit %d of writer %d: %w", c.number, sec.writer, err))
	}
	there := err == nil
	if err != nil && !late {
		if there, known = r.outcome(sec, changes); !known {
			return false
		}
	}
	if err != nil {
		r.s.failed.Add(1)
		if c.kind == commitIngest || !late && !r.awaitWritable() {
			// The next Open tells: of an ingestion the manifest may have been told, and a
			// commit that is there may only be in a log that can't be synced.
			return false
		}
	} else {
		r.s.commits.Add(1)
	}
	sec.settle(changes, there)
	sec.settled++
	if err := r.s.journal.add(entry{sec.writer, sec.settled, there}); err != nil {
		r.s.fail(err)
	}
	return true
}

// outcome reads whether a commit that failed is there. If only its sync failed, in
// a store that is not SyncEach, it is, and stays. known is false if the session
// ends before a read succeeds. Requires: sec.mu is held, so nobody else writes the
// slots.
func (r *role) outcome(sec *section, changes []change) (there, known bool) {
	last := make(map[int]stamp) // of two changes of one slot the later counts
	for _, ch := range changes {
		last[ch.slot] = ch.stamp.visible()
	}
	for slot, want := range last {
		if want == sec.at(slot).visible() {
			continue // this slot does not tell
		}
		for {
			got, err := r.stampIn(r.s.db, sec, slot)
			if err == nil {
				return got == want, true
			}
			if !r.s.pause(2 * time.Millisecond) {
				return false, false
			}
		}
	}
	return false, true
}

// awaitWritable waits until the store takes writes, and returns true: then a
// commit that failed stays as it is, there or not.
func (r *role) awaitWritable() bool {
	for r.s.db.Err() != nil {
		if !r.s.pause(2 * time.Millisecond) {
			return false
		}
	}
	r.s.pause(time.Millisecond) // it may still wait for room
	return true
}

// commit makes the call that writes c. expect tells whether it is to change
// anything.
func (r *role) commit(sec *section, c *commit, expect bool) error {
	db, first := r.s.db, c.changes[0]
	key := appendKey(nil, r.s.Seed, sec.writer, first.slot)
	switch c.kind {
	case commitDelete:
		return db.Delete(key)
	case commitPut:
		r.buf = appendValue(r.buf[:0], r.s.Seed, sec.writer, first.slot, first.stamp)
		return db.Put(key, r.buf)
	case commitPutIfAbsent:
		r.buf = appendValue(r.buf[:0], r.s.Seed, sec.writer, first.slot, first.stamp)
		inserted, err := db.PutIfAbsent(key, r.buf)
		if err == nil && inserted != expect {
			return violationf("PutIfAbsent of slot %d = %v; it was %v", first.slot, inserted, sec.at(first.slot))
		}
		return err
	case commitIngest:
		return db.Ingest(context.Background(), func(yield func(key, value []byte) bool) {
			for _, ch := range c.changes {
				key = appendKey(key[:0], r.s.Seed, sec.writer, ch.slot)
				r.buf = appendValue(r.buf[:0], r.s.Seed, sec.writer, ch.slot, ch.stamp)
				if !yield(key, r.buf) {
					return
				}
			}
		})
	}
	b := new(shale.Batch)
	for _, ch := range c.changes {
		key = appendKey(key[:0], r.s.Seed, sec.writer, ch.slot)
		var err error
		if ch.stamp&deleted != 0 {
			err = b.Delete(key)
		} else {
			r.buf = appendValue(r.buf[:0], r.s.Seed, sec.writer, ch.slot, ch.stamp)
			err = b.Put(key, r.buf)
		}
		if err != nil {
			return err
		}
	}
	if c.ownChoice {
		b.SetDurability(c.durability)
	}
	ctx := context.Background()
	if c.patience > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, c.patience)
		defer cancel()
	}
	return db.Write(ctx, b)
}
