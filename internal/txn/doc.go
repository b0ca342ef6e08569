// Package txn has what a transaction remembers: Overlay its own writes, and ReadSet what it has read.
package txn
