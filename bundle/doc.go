// Package bundle puts all filters of a store into one file. The file answers MayContain
// where the store itself is not: on an edge node, in a client, in another service. The
// package imports only package bloom, internal/keys (a search in sorted keys) and the
// standard library. So a program that asks a bundle links no more of the store.
//
// shale's ExportFilters and `shale filters export` write bundles; both call Write. Open or
// Read makes a Bundle from the bytes.
//
// Guarantees. A bundle describes the store at one sequence number, which Seq returns. No is
// certain for that state: every key that was there is answered with maybe. The bundle does
// not know later writes. If a filter is damaged, or of a kind that this program does not
// know, its table answers maybe to every key between its bounds, and Damaged lists it. A
// damaged header or directory, a cut file and a file of a later version are errors. No
// bytes make this package panic, loop, or allocate more than a few times their length.
//
// Concurrency. Any number of goroutines may ask a Bundle, as long as nobody changes the
// bytes that it was opened from. There are no locks, and MayContain allocates nothing.
//
// Secrets. Someone who has a bundle can ask it for every key that they can guess. If the
// filters were made with a keyed hash (bloom.HashSipHash), they contain its key: with
// the bundle one can make absent keys that all filters let pass.
//
// docs/FORMAT.md, section 6, describes the format. A file is a header of 64
// bytes, a directory of runs and tables with their bounds, and the filters. Each
// filter begins at a multiple of 64. So a line of a filter is a cache line if the
// file is mapped, or read by Read.
//
// A bundle leaves out values, deletions (a deleted key may still be answered with maybe),
// and changes; a newer state is a new file.
package bundle
