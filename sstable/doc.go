// Package sstable writes and reads tables. A table is an immutable file of sorted entries
// with an index, a filter and properties. The package is public so that others can read it.
// The compatibility promise of package shale does not cover its API.
//
// Guarantees. A reader answers only from bytes whose checksum is right. Otherwise it returns
// an error: a *base.CorruptionError, with file and offset, for damage; base.ErrFormatTooNew
// for what a newer program wrote; and the error of the read if the device fails. No file
// makes a reader panic, or allocate more than a small multiple of the file's size. A damaged
// or unknown filter counts as no filter (Filter returns nil, FilterErr says why). It never
// means that a key is absent. A table may also have a filter in a second file (Sidecar). If
// that one can't be used, the filter in the table is.
//
// Concurrency. Many goroutines may use a Reader at once, without locks of their own. A Writer
// belongs to one goroutine, and so does an iterator.
//
// A file consists of these parts, in this order:
//
//   - data blocks, each with some of the entries;
//   - the filter, a block without which the table works too, after zeros that align it;
//   - the partitions of the index, if the index is so large that it has two levels;
//   - the index, which has a separator and the place of each data block or partition;
//   - the properties: counts, bounds and sequence numbers;
//   - the footer, through which a reader finds the other parts.
//
// docs/FORMAT.md, section 4, describes the format. A data block stores the prefix that its
// keys share only once. In front of the entries it has a column of one-byte tags, one for
// each entry, which are bytes of the keys' hashes. A lookup searches the tags and so goes
// straight to its entry. With the keys ab#7,PUT = "x" and ac#7,PUT = "y":
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
// Left out on purpose: comparators (keys are ordered by their bytes), and anything that would
// change a table after it was written. All entries of an ingested table have one sequence
// number, which is in the manifest and not in the table (ReaderOptions.Seq).
package sstable

// Limits of what a table can hold.
const (
	// maxKeySize is the largest user key in bytes.
	maxKeySize = 1<<16 - 1
	// maxValueSize is the largest value in bytes.
	maxValueSize = 256 << 20
)
