package shale

// compacting tells whether a compaction is under way.
func (db *DB) compacting() bool { return db.counters.compacting.Load() > 0 }
