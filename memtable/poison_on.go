//go:build invariants

package memtable

// poison says that memory is overwritten when it is given back. So a reader that uses it
// without a pin finds wrong bytes, and tests notice that.
const poison = true
