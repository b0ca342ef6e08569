// Package manifest stores which tables and logs a store consists of. A Version has the
// levels, their runs and the tables in them. A manifest is a file of Edits, each of which
// leads to the next version. The package is public so that others can read it. The
// compatibility promise of package shale does not cover its API.
//
// # Guarantees
//
// An edit that Append has synced survives every crash, and edits stay in their order. Load
// returns the state after some edit, never a part of one. Only the last append can be missing
// without an error, and only if it was never acknowledged. All other damage is a
// base.CorruptionError. A checksum binds each record to the record before it, and a second
// one binds it to its file. CURRENT states how much of the manifest must be there. After
// Log.Finish that is all of it.
//
// A read error never counts as the end of the manifest. No content of a file makes this
// package panic, or allocate more than a small multiple of the file's size.
//
// # Concurrency
//
// Versions, runs and tables are immutable, and any number of goroutines may use them. One
// goroutine at a time may use a Log. Load may run at the same time as a writer, even one in
// another process.
//
// # Format
//
// docs/FORMAT.md, section 5, describes the format. The following is a new manifest, number 1,
// of store 0x1122334455667788, in hexadecimal. The store is empty and its next file number is
// 2. So the manifest has one record with one field:
//
//	73 68 61 6c 65 4d 41 4e  01 00 00 00  00 00 00 00   shaleMAN, version, zero
//	88 77 66 55 44 33 22 11  01 00 00 00 00 00 00 00    store id, file number
//	82 08 87 f0                                         checksum
//	03 00 00 00  b5 02 30 fa  96 74 2b b5               length, payload and header checksum
//	02 01 02                                            tag 2, 1 byte, number 2
//
// It leaves out what only the tables can say: whether their files exist, and what is in them.
package manifest
