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
//   - Identity, Segment, Step, State and Pin are the objects, each with an encoder and a decoder.
//   - The functions that end in Name make the names of objects, and ParseName reads them.
//
// # Guarantees
//
// A decoder gets the name of an object and the id of the store, and accepts only an object that
// was written under this name for this store. Every byte of an object is covered by a checksum. A
// decoder allocates at most a small multiple of its input, and never panics. Damage is a
// *shale.CorruptionError with the object's name; an object of a newer format gives
// shale.ErrFormatTooNew. Encoders refuse what decoders would refuse.
//
// # Format
//
// docs/REMOTE.md has every byte. The following is the identity of store 0x1122334455667788, made
// 1,700,000,000,000 milliseconds after the beginning of 1970, in hexadecimal:
//
//	73 68 61 6c 65 42 4b 54  01 00 00 00  06 ff 74 ec   shaleBKT, version, its checksum
//	88 77 66 55 44 33 22 11                            store id
//	00 68 e5 cf 8b 01 00 00                            made
//	23 77 dd 06                                        checksum
//
// # Concurrency
//
// Any number of goroutines may use a Bucket, and any number of processes the same bucket. The
// other types are plain values.
package remote
