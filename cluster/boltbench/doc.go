// Package boltbench compares package cluster with raft-boltdb and raft-wal. It is in a module of its own, because
// raft-boltdb does not build with the version of raft that package cluster uses: here both are built
// with raft v1.7.3.
//
//   - BenchmarkGroup_Write measures groups with the log store of each (docs/LOGSTORE.md).
//   - TestDamage_EachLog changes bits of each log: it is why a Node has a log of its own.
//   - Package suite runs raft-boltdb's own tests with shale's log store.
package boltbench
