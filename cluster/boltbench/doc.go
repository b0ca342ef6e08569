// Package boltbench compares package cluster with raft-boltdb. It is in a module of its own, because
// raft-boltdb does not build with the version of raft that package cluster uses: here both are built
// with raft v1.7.3.
//
//   - Command logs measures the log store next to raft-boltdb and raft-wal (docs/LOGSTORE.md).
//   - Package suite runs raft-boltdb's own tests with shale's log store.
package boltbench
