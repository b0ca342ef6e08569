// Package cluster runs a store on several machines: a group of members, each with the whole store, that
// agree on one order of writes by the Raft consensus algorithm (hashicorp/raft).
//
//   - A LogStore keeps raft's log and its term and vote in a shale store. It is usable alone.
//   - The state is a shale store as well. The index of the last entry that it has taken in is
//     written with the entry itself, so a restart neither repeats an entry nor misses one.
//   - A snapshot is a checkpoint of the state, made by hard links, and is sent as files.
//
// A write goes through write.go, raft, the log (logstore.go) and the state machine (fsm.go); a read
// through read.go and the state. A transaction (update.go) is a read and a write, and observed.go says
// whether it is written. members.go and promise.go say who is in the group, and what a
// member must not forget. trail.go, snapshots.go, send.go and receive.go are for members that are
// behind. docs/GROUP.md has the promises to users, docs/FORMAT.md the files.
package cluster
