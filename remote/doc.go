// Package remote keeps a store in a bucket of an object store, so that it outlives the machine that
// writes it.
//
//   - Open opens a store and keeps it in a bucket: a Store ships its logs and publishes its
//     tables in the background. Salvage lists what a writer had not shipped that has lost its store to
//     another one.
//   - Restore makes a store from a bucket, as it was at a point of its life, and Verify checks that it
//     could.
//   - Bucket is the interface that an object store has to offer. NewMem makes a bucket in memory, and
//     NewDir one in a directory. Probe finds out whether a bucket keeps its promises, and Retrying
//     repeats calls that fail for a while. Package buckettest tests buckets thoroughly, and injects
//     faults for tests.
//
// # Errors
//
// Damage is a *shale.CorruptionError with the object's name; an object of a newer format gives shale.ErrFormatTooNew.
// docs/REMOTE.md has every byte of the objects.
//
// # Concurrency
//
// Any number of goroutines may use a Bucket, and any number of processes the same bucket. The
// other types are plain values.
package remote
