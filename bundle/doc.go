// Package bundle puts all filters of a store into one file, which answers
// MayContain where the store is not: on an edge node, in a client, in another
// service. It imports package bloom, internal/keys (a search in sorted keys) and
// the standard library only, so a program that asks a bundle links no more of the
// store.
//
// shale's ExportFilters writes bundles, as does `shale filters export`; Write is
// below them. Open or Read makes a Bundle of the bytes.
//
// Guarantees. No is certain for the state of the store that the bundle is of,
// which Seq names: a key that was there is always answered maybe. What was
// written to the store later the bundle does not know. A filter that is damaged
// or of a kind that this program does not know makes its table answer maybe to
// every key between its bounds, and Damaged lists it; a damaged header or
// directory, a cut file and one of a later version are errors. No bytes make
// this package panic, loop, or allocate more than a few times their length.
//
// Concurrency. A Bundle may be asked by any number of goroutines, as long as
// nobody changes the bytes that it was opened from. There are no locks, and
// MayContain allocates nothing.
//
// Secrets. Filters say of every key that one may guess whether it may be there.
// Those made with a keyed hash (bloom.HashSipHash) have its key in them: who has
// the bundle can make absent keys that all filters let pass.
//
// The format stands in docs/FORMAT.md, section 6. A file is a header of 64
// bytes, a directory of runs and tables with their bounds, and the filters, each
// at a multiple of 64: if the file is mapped, or read by Read, a line of a filter
// is a cache line.
//
// What it leaves out: values, deletions (a deleted key may still be answered
// maybe), and changes; a newer state is a new file.
package bundle
