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
// due, after the one at which compactLoop has looked last, or nil if there is none to come. It notes
// whether one waits for a snapshot.
func (db *DB) nextExpiry(looked int64) <-chan time.Time {
	v, now := db.mems.View(), db.snapshots.Clock.Begin()
	if v == nil || now == 0 {
		return nil
	}
	db.snapshots.Clock.Held.Store(compaction.NextExpiry(v.Meta, min(now, db.snapshots.OldestTime())) <= now)
	next := compaction.NextExpiry(v.Meta, looked)
	if next == math.MaxInt64 {
		return nil
	}
	return time.After(min(time.Duration(min(next-now, math.MaxInt32))*time.Millisecond, maxExpiryWait))
}
