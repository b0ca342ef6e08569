// Package cluster keeps a store on several machines: a group of members, each with the whole store, that agree on one
// order of writes by the Raft consensus algorithm (hashicorp/raft). A group of three goes on while one of them is down, a
// group of five while two are.
//
// [Open] starts a member, which is a [Node]: the first one with Bootstrap, others with Join in their [Options]. When
// [Node.Put], [Node.Write] or [Node.Update] returns nil, the write is on disk at a majority of the members.
// [Node.Read] sees every write that was acknowledged before it, on each member. [Node.Local] reads what the member itself
// has, which may be behind.
//
// The [promises] of a group, and how to run one, have a page of their own. A [LogStore] is of use without a group:
// it keeps the log of any program that uses hashicorp/raft.
//
// # Words
//
// One member is the leader. It makes each write an entry of the log, and the number of an entry is its index. An entry is
// committed when a majority of the voters has it on disk. Then each member applies it to its state, which is a shale store.
// A learner gets all entries, and has no vote. A term is the time of one leader. A snapshot is a copy of the state, for a
// member that is behind what the log of the leader has.
//
// # Errors
//
// A [NotLeaderError] says that nothing was written, and who leads. An error that wraps [ErrUnknown] says that a write may
// have happened. After [ErrFailed] a member takes part no more until it is opened again.
//
// [promises]: https://github.com/shaledb/shale/blob/main/docs/GROUP.md
package cluster

// A write goes through write.go, raft, the log (logstore.go) and the state machine (fsm.go); a read through read.go and the
// state. A transaction (update.go) is a read and a write, and observed.go says whether it is written. members.go and
// promise.go say who is in the group, and what a member must not forget. trail.go, snapshots.go, send.go and receive.go are
// for members that are behind. The index of the last entry that the state has taken in is written with the entry itself, so
// a restart neither repeats an entry nor misses one. docs/FORMAT.md has the files.
