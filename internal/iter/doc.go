// Package iter combines several iterators into one. A merging iterator combines
// sources whose keys are mixed, such as memtables and runs. A concatenating
// iterator combines the tables of a run, whose ranges are disjoint.
//
// It guarantees:
//
//  1. An error of a child, or of opening a table, ends the movement: it returns nil, and Err
//     returns the error. The error is never taken for the end of the child. That would leave
//     out the child's entries in a scan and, worse, in a compaction (facebook/rocksdb#11782).
//  2. After nil, at an end or after an error, Next and Prev return nil
//     until First, Last or a seek gives the iterator a position again.
//  3. A step allocates nothing and copies no key. The
//     entry that it returns belongs to the child.
//  4. Close closes every child once and returns all errors.
//
// Children may grow while they are read, as memtables do. New entries do not change
// the order of the others, and have sequence numbers that the reader does not see.
//
// An iterator is used by one goroutine at a time, and so are
// its children. The iterators return all entries. Their users
// leave out versions that a reader may not see, and tombstones.
//
// Example: merging a#3 c#1 with a#2 b#5 gives a#3, a#2, b#5, c#1. At
// the position a#2, the first child stands on c#1 and the second on
// a#2. Next moves the second child to b#5, which comes before c#1.
package iter
