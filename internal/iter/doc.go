// Package iter makes one iterator out of several: a merging one over sources
// whose keys interleave (memtables, runs), and a concatenating one over the
// tables of a run, whose ranges are disjoint.
//
// What it guarantees:
//
//  1. An error of a child, or of opening a table, ends the movement: nil is
//     returned and Err gives it. It is never taken for the end of the child,
//     which would drop the child's entries from a scan and, worse, from a
//     compaction (facebook/rocksdb#11782).
//  2. After nil, at an end or after an error, Next and Prev return nil until
//     the iterator is positioned anew.
//  3. A step allocates nothing and copies no key: the entry returned is the
//     child's own.
//  4. Close closes every child once and returns all errors.
//
// Children may grow while they are read, as memtables do: what turns up has a
// sequence number that the reader hides, and the order holds all the same.
//
// Iterators are for one goroutine at a time, like their children. Versions
// that a reader may not see, and tombstones, are left to the users of this
// package.
//
// Example: merging a#3 c#1 with a#2 b#5 gives a#3, a#2, b#5, c#1. When the
// position is a#2 the children stand on c#1 and a#2. Next then has the second
// child step, to b#5, and b#5 wins.
package iter
