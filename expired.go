package shale

import (
	"fmt"
	"math"
	"time"

	"github.com/shaledb/shale/compaction"
	"github.com/shaledb/shale/manifest"
	"github.com/shaledb/shale/sstable"
)

// This file has what merges and the planning of compactions know of values that have expired.

// mergeOptions returns the snapshots, and the times, that a merge has to heed.
func (db *DB) mergeOptions() (o compaction.MergeOptions) {
	// The time comes first: a snapshot that is taken after the list then has a later one.
	o.Now = db.timeOfMerges()
	o.Snapshots, o.Times = db.snapshots.List()
	return o
}

// timeOfMerges returns the time up to which merges drop what has expired; 0: they drop nothing. If the log of a store that has its
// time from its owner has failed, they drop nothing: see syncOwnersTime, which could not return before the log is replaced. And
// that takes flushes.
func (db *DB) timeOfMerges() int64 {
	if w := db.logs.Current(); db.opts.Shipping.Clock != nil && w != nil && w.Err() != nil {
		return 0
	}
	return db.snapshots.Clock.Begin()
}

// tableFacts returns what the manifest has to know of what expires in a table.
func tableFacts(info sstable.Info) manifest.Facts {
	f := manifest.Facts{Expiring: info.Expiring}
	if info.Expiring > 0 {
		f.Expiry = &info.Expiry
	}
	return f
}

// overForAll returns the time up to which what expires is over for all readers; 0: nothing is.
func (db *DB) overForAll() int64 {
	now := db.timeOfMerges()
	if now == 0 {
		return 0
	}
	return min(now, db.snapshots.OldestTime())
}

// syncOwnersTime makes the write durable that states the time clock, by which something is about to be dropped, if the store
// has its time from its owner. Else a power cut could take the store back to before that write, and then find gone what was
// there at the time. 0: nothing is dropped.
func (db *DB) syncOwnersTime(clock int64) error {
	w := db.logs.Current()
	if clock == 0 || db.opts.Shipping.Clock == nil || w == nil {
		return nil
	}
	if err := w.Sync(); err != nil {
		return fmt.Errorf("shale: sync log: %w", err) // the next write meets it too, and the store refuses all
	}
	return nil
}

// maxExpiryWait is how long compactLoop waits at most until it looks again what has expired. It is the
// system's clock that says so, and that may jump.
const maxExpiryWait = time.Hour

// nextExpiry returns a channel for the time at which the next compaction of what has expired may be
// due, or nil if there is none to come. looked is the time up to which compactLoop has looked last, by
// overForAll. It notes whether one waits for a snapshot.
func (db *DB) nextExpiry(looked int64) <-chan time.Time {
	clock := &db.snapshots.Clock
	v, now := db.mems.View(), clock.Begin()
	if v == nil || now == 0 {
		return nil
	}
	next := compaction.NextExpiry(v.Meta, looked)
	// The note comes before the look at the snapshots: one that is closed after that finds it.
	clock.Held.Store(next <= now)
	if next <= now && next > db.snapshots.OldestTime() {
		next = compaction.NextExpiry(v.Meta, now)
	} else {
		clock.Held.Store(false)
	}
	if next == math.MaxInt64 {
		return nil
	}
	// A system's clock that has gone back takes longer than the store's to come there.
	wait := min(next-clock.System().UnixMilli(), maxExpiryWait.Milliseconds())
	if db.opts.Shipping.Clock != nil {
		wait = max(wait, time.Second.Milliseconds()) // an owner's time may stand still
	}
	return time.After(time.Duration(wait) * time.Millisecond)
}
