package shale

import (
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
	o.Now = db.snapshots.Clock.Begin()
	o.Snapshots, o.Times = db.snapshots.List()
	return o
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
	now := db.snapshots.Clock.Begin()
	if now == 0 {
		return 0
	}
	return min(now, db.snapshots.OldestTime())
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
	return time.After(time.Duration(wait) * time.Millisecond)
}
