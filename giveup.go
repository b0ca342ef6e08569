package shale

import (
	"context"
	"time"

	"github.com/shaledb/shale/internal/base"
)

// This file has what the store gives up when the disk is full.

// giveUpFor gives up what the store has reserved ahead if err says that the disk is full.
// It reports whether it is worthwhile to try again. what names the attempt, for the event.
// freed is what Deleter.Freed returned before the attempt.
func (db *DB) giveUpFor(what string, freed uint64, err error) bool {
	if !base.IsNoSpace(err) || !db.giveUpReserve(freed) {
		return false
	}
	db.events.emit(Event{Kind: EventBackgroundError, Reason: "no room: " + what, Err: err})
	return true
}

// giveUpReserve gives back the room that the store holds without need: the log that was
// prepared, those kept for reuse, and what sealed logs have reserved. It waits for the removal
// of these files, and of all others that nothing needs. It reports whether room was freed since
// Deleter.Freed returned the value given. Others may have freed it: two attempts may fail together, and
// then only one of them finds something to give back. Requires: the caller holds no lock from
// changes.mu on in the list at DB.
func (db *DB) giveUpReserve(freed uint64) (any bool) {
	if db.logs.GiveUp() {
		db.deleter.NoteFreed()
	}
	db.awaitDeletions(db.life.Context) // there is more room only once the files are removed
	return db.deleter.Freed() != freed
}

// leadPatience is how long giveUpRoom waits for its turn to lead the queue. The leader may
// be waiting for the flush or the compaction that calls giveUpRoom, and so may never come
// to an end before it.
const leadPatience = 100 * time.Millisecond

// giveUpRoom is giveUpReserve that also gives back what is reserved in the current log,
// which only the leader may touch. Requires: the caller does not lead the queue and holds
// no lock.
func (db *DB) giveUpRoom(freed uint64) (any bool) {
	db.giveUpReserve(freed)
	ctx, cancel := context.WithTimeout(db.life.Context, leadPatience)
	defer cancel()
	_ = db.commits.Alone(ctx, func() error { // without a turn the log stays as it is
		if db.logs.Current().Shrink() {
			db.deleter.NoteFreed()
		}
		return nil
	})
	return db.deleter.Freed() != freed
}
