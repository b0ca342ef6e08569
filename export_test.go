package shale

import "github.com/shaledb/shale/compaction"

// dueLocked tells whether a compaction would be picked now.
func (db *DB) dueLocked() bool {
	plan, _ := db.pickLocked()
	return plan.Kind != compaction.Nothing
}

// compacting tells whether a compaction is under way.
func (db *DB) compacting() bool { return db.counters.compacting.Load() > 0 }
