//go:build invariants

package memtable

// poison overwrites memory that is given back, so that a reader that does not
// hold it finds out.
const poison = true
