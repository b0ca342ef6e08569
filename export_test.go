package shale

import "github.com/shaledb/shale/compaction"

// dueLocked tells whether a compaction would be picked now.
func (db *DB) dueLocked() bool {
	return compaction.Pick(db.version.meta, db.planOptionsLocked(), db.inFlight).Kind != compaction.Nothing
}
