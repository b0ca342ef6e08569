// Package bbolt is the interface of go.etcd.io/bbolt over a store of shale: DB, Tx, Bucket and Cursor, with nested buckets,
// sequences and batches. A program moves by changing its import of "go.etcd.io/bbolt" to this package, whose name is the same.
// Errors are those of go.etcd.io/bbolt/errors.
//
// # What is the same
//
// One transaction writes at a time, and Begin(true) waits for it. Transactions that read see the state of their beginning,
// and any number of goroutines may read by one of them. A commit is on disk when Commit returns, unless NoSync is set, and
// only then do others see it. Slices are valid during the transaction; here they stay valid after it. Close waits for
// transactions.
//
// # What differs
//
//   - The path is that of a directory. A file of bbolt is refused; cmd/bolt-import brings its data.
//   - A cursor may go on after any change: Next gives the first key behind the one where the cursor stood, Prev the last one
//     before it. bbolt leaves that open.
//   - A value that was put as nil is empty, and not nil, already in its own transaction.
//   - The writes of a transaction are in memory until Commit, and have at most 512 MiB. A value has at most 256 MiB.
//   - If a read fails, for instance because a block is damaged, there may be no error to return it by. Then View, Update and
//     Batch end with that error, which a panic takes there. In a transaction that was begun by hand, the panic is the
//     caller's, and its value is the error. No such read ever seems to have found nothing.
//   - ReadOnly takes no lock, so it waits for no writer. It shows the state of the time when it was opened.
//   - A deleted Bucket takes no writes any more: they give ErrBucketNotFound.
//
// # What is missing
//
// Tx.WriteTo and Tx.Copy return an error: a store is no single file. Tx.CopyFile makes a directory, and DB.Store has
// Checkpoint. Tx.Page, Bucket.Root, Compact and what belongs to them are not there, because there are no pages;
// DB.Info has the system's page size, and no address. Open
// refuses Options.MaxSize and Options.OpenFile. Options and fields that are about pages and their memory have no effect, and
// counters of pages are 0.
//
// # Format
//
// All numbers are unsigned varints, if nothing else is said. Each bucket has a number of its own, which never changes and is
// never used again. The root has number 0. So a bucket is moved by moving one entry, and deleted by one DeleteRange for each
// run of numbers in it. Keys of the store, in their order:
//
//	0x00                         -> "bolt" | version u8 = 1 | transaction | next number
//	number of a bucket | 0x00 | name -> number of the bucket in it | its sequence | flags u8
//	number of a bucket | 0x01 | key  -> value
//
// The number of a bucket is there as one byte, 1 to 8, with how many bytes follow, and these bytes, big-endian, without
// leading zeros; 0 is 0x01 0x00. So the keys of a bucket lie together, in its order. Bit 0 of flags says that the bucket
// may have buckets in it. Where it is not set, a Put needs no lookup, and a cursor has one iterator; otherwise it merges two.
// "transaction" is the ID of the last transaction that has written something. The sequence of the root is not stored, as in bbolt.
//
// A key is in at most one of the two parts of its bucket.
package bbolt
