// Package sstable writes and reads tables: immutable files of sorted entries
// with an index, a filter and properties. It is public so that it can be read: its
// API is not covered by the compatibility promise of package shale.
//
// Guarantees. A reader answers from bytes whose checksum fits, or with an
// error: a *base.CorruptionError that names the file and the offset for
// damage, base.ErrFormatTooNew for what a newer program wrote, and the error
// of the read for a failing device. No file makes it panic, or allocate more
// than a small multiple of the file's size. A damaged or unknown filter means
// that there is none (Filter returns nil, FilterErr says why), never that a
// key is absent. A filter may also lie in a file of its own beside the table
// (Sidecar): if that is of no use, the one in the table is used.
//
// Concurrency. A Reader may be used by many goroutines at once, without
// locks of its own. A Writer and an iterator belong to one goroutine each.
//
// The format stands in docs/FORMAT.md, section 4. A data block keeps the
// prefix that its keys share once, and has a column of one-byte tags of the
// keys' hashes in front, so that a lookup goes straight to its entry. With
// the keys ab#7,PUT = "x" and ac#7,PUT = "y":
//
//	02 00 00 00                  two entries
//	02 00 01 00                  offsets of 2 bytes, no trailers, prefix of 1 byte
//	07 00 00 00 00 00 00 00      sequence numbers start at 7
//	2e 73                        tags: low bytes of the hashes of ab and ac
//	19 00 1c 00 1f 00            entries at 25 and 28, end at 31
//	61                           the prefix "a"
//	01 62 78                     suffix "b", value "x"
//	01 63 79                     suffix "c", value "y"
//
// Left out on purpose: comparators (keys are ordered by their bytes), and anything
// that would change a table after it was written. The sequence number that an
// ingested table gives all its entries is in the manifest (Options.Seq).
package sstable

// Limits of what a table can hold.
const (
	// maxKeySize is the largest user key in bytes.
	maxKeySize = 1<<16 - 1
	// maxValueSize is the largest value in bytes.
	maxValueSize = 256 << 20
)
