// Package manifest keeps what a store consists of: a Version, the levels of
// runs of tables, and the log of Edits that leads to it. It is public so that it
// can be read: its API is not covered by the compatibility promise of package shale.
//
// # Guarantees
//
// An edit that Append has synced is there after any crash, and edits are there
// in order: what Load returns is the state after some edit, never a part of
// one. At most the last append can be missing without an error, and only if it
// was never acknowledged. Any other damage is a base.CorruptionError: every
// record is bound to the one before it by its checksum and to its file by a
// second one, and CURRENT states how much of the manifest must be there. After
// Log.Finish that is all of it.
//
// A read error is never an end, and no content of a file makes this package
// panic or allocate more than a small multiple of the file's size.
//
// # Concurrency
//
// Versions, runs and tables are immutable and may be shared freely. A Log is
// used by one goroutine at a time. Load may run beside a writer, also in
// another process.
//
// # Format
//
// docs/FORMAT.md, section 5. A new manifest of store 0x1122334455667788, number
// 1, for an empty store whose next file number is 2 (and which therefore holds
// one record with one field), in hexadecimal:
//
//	73 68 61 6c 65 4d 41 4e  01 00 00 00  00 00 00 00   shaleMAN, version, zero
//	88 77 66 55 44 33 22 11  01 00 00 00 00 00 00 00    store id, file number
//	82 08 87 f0                                         checksum
//	03 00 00 00  b5 02 30 fa  96 74 2b b5               length, payload and header checksum
//	02 01 02                                            tag 2, 1 byte, number 2
//
// It leaves out what a version cannot tell without reading tables: whether
// they exist, and what is in them.
package manifest
