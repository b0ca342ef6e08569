package vfs

import "fmt"

// An Op is a kind of operation on a file system or on one of its files.
type Op int

// The kinds of operations. OpMapWrite is a write
// through a Mapping. OpStat is also the size of a file. OpHeld
// asks whether a lock is still where it was.
const (
	OpCreate Op = iota
	OpOpen
	OpOpenReadWrite
	OpRename
	OpRemove
	OpLink
	OpMkdirAll
	OpList
	OpStat
	OpLock
	OpUnlock
	OpSyncDir
	OpRead
	OpWrite
	OpSync
	OpTruncate
	OpPreallocate
	OpMap
	OpMapWrite
	OpUnmap
	OpClose
	OpLockShared
	OpHeld
	numOps
)

// opNames has the names in the order of the constants.
var opNames = [numOps]string{
	"create", "open", "open for writing", "rename", "remove", "link", "mkdir", "list", "stat",
	"lock", "unlock", "sync directory", "read", "write", "sync", "truncate", "preallocate",
	"map", "write to mapping", "unmap", "close", "lock shared", "check lock",
}

// String returns the operation in words, as error messages name it.
func (op Op) String() string {
	if op < 0 || op >= numOps {
		return fmt.Sprintf("Op(%d)", int(op))
	}
	return opNames[op]
}

// AllOps returns every kind of operation.
func AllOps() []Op {
	ops := make([]Op, numOps)
	for i := range ops {
		ops[i] = Op(i)
	}
	return ops
}
