//go:build !invariants

package memtable

const poison = false
