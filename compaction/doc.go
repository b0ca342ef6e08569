// Package compaction decides what to compact, and does the merging. It is public
// so that it can be read: its API is not covered by the compatibility promise of
// package shale.
//
// # Planning
//
// Pick, PickLevel0, PickOftenRead and Manual.Next are pure functions of a version, options
// and the plans in flight; what they return is a value. So the planner is tested
// with versions written down as text, and whole lives of a store of any size are
// simulated without a disk.
//
// The last level holds one run, those between it and level 0 up to
// Options.LevelRuns: one ("leveled"), or several, so that data is merged less often
// on its way down ("lazy leveling"; docs/decisions/0003). See column.go for how
// runs are filled and emptied. The sizes of levels are counted from the last one:
// see shape. A plan is a move where nothing overlaps, the
// drop of tables that hold nothing but tombstones without use, or a merge. What
// Plan numbers is guaranteed: data never passes older data of the same user
// keys, all versions of a user key go together, and a plan knows what may be
// older below it.
//
// FilterTree describes a version to package filterplan, which divides the memory for
// filters among the runs.
//
// # Merging
//
// Merge turns the entries of a plan's inputs into tables. It drops an entry
// only if no reader can tell, never takes a failure of its source for the end,
// and accounts for every entry that it read.
//
// # Concurrency
//
// Plans are not changed once they are made, and may be shared. InFlight and
// Manual are used under a lock of their owner. Merges run in parallel, also
// those of sub-ranges of one plan (SplitRanges).
//
// It leaves out when to run: the goroutines, the files and the versions belong
// to the caller.
package compaction
