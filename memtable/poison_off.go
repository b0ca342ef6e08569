//go:build !invariants

package memtable

// poison says whether memory is overwritten when it is given back: see poison_on.go.
const poison = false
