// Package tuning holds what benchmarks vary and users do not: each variable is
// read by Open. Change them only while no store is being opened.
package tuning

// LevelRuns is how many runs a level between level 0 and the last may hold
// (compaction.Options). 0: the default of package compaction.
var LevelRuns int
