// Package compaction decides what to compact, and does the merging. It is public so that
// it can be read: its API is not covered by the compatibility promise of package shale.
//
// # Planning
//
// Pick, PickLevel0 and PickOftenRead are pure functions of a version, the options
// and the plans in flight, and return a value. Manual.Next is one too, except that
// a Manual remembers how far it has come. So tests of the planner write versions
// down as text, and simulate the life of a store of any size without a disk.
//
// The last level holds one run. A level between level 0 and the last holds one
// too (the tree is "leveled"), or up to two in a large store: then data is merged
// less often on its way down ("lazy leveling"; docs/decisions/0003 and 0007).
// column.go says how such runs are filled and emptied. The target sizes of
// levels and of their tables are computed from the size of the last level: see shape.
//
// A plan moves its input tables if they overlap nothing, drops them if they
// hold only tombstones that hide nothing, and merges them otherwise. The
// comment of Plan numbers the invariants that every plan keeps: data never
// passes older data of the same user keys, all versions of a user key move
// together, and a plan knows which tables below it may hold older versions.
//
// FilterTree describes a version to package filterplan,
// which divides the memory for filters among the runs.
//
// # Merging
//
// Merge turns the entries of a plan's inputs into tables. It drops an entry
// only if no reader could notice. It never mistakes a failure of its source for
// the end of the entries, and it accounts for every entry that it has read.
//
// # Concurrency
//
// A plan does not change once it is made, and may be shared. InFlight and
// Manual have no lock: their owner guards them with one. Merges run in
// parallel, and so may merges of sub-ranges of one plan (SplitRanges, InParts).
//
// The package leaves out when to compact. The files and the versions belong
// to the caller, and so do all goroutines, except those of InParts.
package compaction
