// Package cluster runs a store on several machines: a group of members, each with the whole store, that
// agree on one order of writes by the Raft consensus algorithm (hashicorp/raft).
//
//   - A LogStore keeps raft's log and its term and vote in a shale store. It is usable alone.
//   - The state is a shale store as well. The index of the last entry that it has taken in is
//     written with the entry itself, so a restart neither repeats an entry nor misses one.
//   - A snapshot is a checkpoint of the state, made by hard links, and is sent as files.
package cluster
