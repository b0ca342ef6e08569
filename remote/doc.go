// Package remote keeps a store in a bucket of an object store, such as S3, so that it outlives the machine that writes it.
//
//   - [Open] opens a store and keeps it in a bucket: a [Store] ships its logs and publishes its tables in the background.
//     [Attach] does so with a store that is open already.
//   - [Restore] makes a store from a bucket, as it was at a point of its life, and [Verify] checks that it could.
//   - [OpenReader] reads a store from its bucket next to the writer, on any number of machines. [Reader.Promote] and
//     [TakeOver] make a process the writer, and [Salvage] lists what the writer before had not shipped.
//   - [Bucket] is the interface that an object store has to offer. Package s3 has those of servers, [NewDir] makes one in
//     a directory, and [NewMem] one in memory. [Probe] finds out whether a bucket keeps its promises, and [Retrying]
//     repeats calls that fail for a while. Package buckettest tests buckets thoroughly, and injects faults for tests.
//
// # Words
//
// To ship is to copy new bytes of the logs into the bucket: a piece of them is a segment. To publish is to upload new
// tables and then a step, an object with a number that names all tables of a state. A restore fetches the tables of a step,
// and takes later writes from segments. A pin keeps the objects of a step; without one they are collected, which means
// deleted, some time after a newer step has come. One writer owns the store. Another one that claims it fences the first,
// whose writes fail from then on. A sidecar is a file of its own with the filter of a table.
//
// # Errors
//
// Damage is a [*shale.CorruptionError] with the object's name. An object of a newer format gives [shale.ErrFormatTooNew].
// docs/REMOTE.md has every byte of the objects.
//
// # Concurrency
//
// Any number of goroutines may use a [Bucket], a [Store] or a [Reader], and any number of processes the same bucket. The
// other types are plain values.
package remote
