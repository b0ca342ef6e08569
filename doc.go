// Package shale is an embedded, ordered key-value store: a log-structured
// merge tree whose tables each carry a Bloom filter that stays in memory, so
// that a lookup of an absent key is answered without touching the disk.
//
// Open opens a store; Put, Get, Has, Scan and Write do what their names say.
// Every call that has something to show has an example, which the tests run.
//
// # Promises
//
// A write that was acknowledged as synced survives any crash; every
// acknowledged write survives a crash of the process. What survives of
// unsynced writes is a prefix of the order in which they were made, whole
// batches only. A reader sees one state, never half of a batch. A filter never
// hides a key: one that is damaged or unknown means that blocks are read
// instead. Damaged bytes give a CorruptionError that names file and offset,
// never a wrong answer and never a panic.
//
// # Byte slices
//
// Arguments are only read during a call and may be reused after it. Get
// returns a copy that the caller owns. Two faster ways are named for what they
// do: AppendValue copies into a slice of the caller's, ViewValue shows the
// value without copying for as long as a function runs. An Entry of Scan and
// the Key and Value of an Iterator are valid until the next step.
//
// # Concurrency
//
// All methods of DB and Snapshot may be called concurrently. A Batch and an
// Iterator are for one goroutine at a time. A lookup to which all filters say
// no takes no lock; writers queue and share one write, and one fsync, of the
// log. Every call after Close returns ErrClosed.
//
// docs/ARCHITECTURE.md walks through the code, docs/FORMAT.md describes every
// byte on disk.
package shale
