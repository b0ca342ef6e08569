package vfs

import (
	"io/fs"
	"sync"
	"sync/atomic"
	"time"
)

// A Mem is a file system in memory. It serves stores that need no disk. It also serves as a
// disk that can crash: of each byte and each name it knows whether a power cut would lose it
// (see Crash). By default a name is durable only after SyncDir, as POSIX says. A removed file
// exists as long as somebody has it open. All names lie below one root, relative ones too.
//
// A read takes only the lock of its file, shared with other reads.
type Mem struct {
	*memory
	bound *memLock // names in its directory are looked up in the directory itself; nil: see Bind
}

// A memory is the contents of a Mem. Those that Bind returns share it.
type memory struct {
	// cut is held shared by each change, and exclusively by Crash, which
	// therefore sees all files at one moment. Lock order: cut, mu, an inode's mu.
	cut sync.RWMutex

	mu      sync.RWMutex // protects the following fields up to nextID, and the names in directories
	root    *memDir
	pending []nameOp // changes of names that are not durable yet, oldest first
	locks   map[*memLock]bool
	nextID  uint64

	nameSeq   atomic.Int64 // number of the last change of names
	journaled atomic.Int64 // value of nameSeq when a file was last synced
	ops       atomic.Int64 // see Ops
	open      atomic.Int64 // see OpenFiles
	onOp      atomic.Pointer[func(Op, string)]
}

// NewMem returns an empty file system.
func NewMem() *Mem {
	return &Mem{memory: &memory{root: newMemDir(), locks: make(map[*memLock]bool)}}
}

// Ops returns the number of operations so far that changed something or could have done
// so. These are all operations except opens for reading, reads, shared locks, Map,
// List, Stat, Size, and all that end something: Close, Unmap and the release of a lock.
func (m *Mem) Ops() int64 { return m.ops.Load() }

// OnOp makes the Mem call fn before each operation that Ops counts.
// The count already includes the operation. fn may use the file
// system and call Crash. With nil, no function is called any more.
func (m *Mem) OnOp(fn func(op Op, name string)) {
	if fn == nil {
		m.onOp.Store(nil)
		return
	}
	m.onOp.Store(&fn)
}

// OpenFiles returns the number of open files and held locks.
func (m *Mem) OpenFiles() int { return int(m.open.Load()) }

// begin begins a change. The caller ends it with m.cut.RUnlock.
func (m *Mem) begin(op Op, name string) {
	m.ops.Add(1)
	if fn := m.onOp.Load(); fn != nil {
		(*fn)(op, name)
	}
	m.cut.RLock()
}

// Crash returns the file system as a machine finds it after a power cut at this moment.
// All that is in it is durable, and nothing is open or locked. m is not changed. The
// two share memory until one of them writes. While Crash runs, changes of m wait.
//
// First crashNames decides which changes of names survive. Then the tree is built again from
// the root, with the surviving names. The contents of each file are those that the policy
// leaves (inode.crash). A file that has lost all its names is not reached, and so is gone.
func (m *Mem) Crash(c CrashConfig) *Mem {
	m.cut.Lock()
	defer m.cut.Unlock()
	after := NewMem()
	after.nextID = m.nextID
	names := m.crashNames(c)
	copies := make(map[memNode]memNode) // by original: a file may have two names
	var rebuild func(memNode) memNode
	rebuild = func(n memNode) memNode {
		if have := copies[n]; have != nil {
			return have
		}
		switch n := n.(type) {
		case *inode:
			copies[n] = &inode{id: n.id, data: n.crash(c), modTime: n.modTime}
		case *memDir:
			d := newMemDir()
			copies[n] = d
			from := names[n]
			if from == nil {
				from = n.durable
			}
			for name, child := range from {
				child = rebuild(child)
				d.names[name], d.durable[name] = child, child
			}
		}
		return copies[n]
	}
	after.root = rebuild(m.root).(*memDir)
	return after
}

// newInode creates a file without a name. Requires: mu is held.
func (m *Mem) newInode() *inode {
	m.nextID++
	return &inode{id: m.nextID, data: content{owner: owners.Add(1)}, modTime: time.Now()}
}

// memError wraps err as package os would do. If err is nil, it stands for fs.ErrNotExist.
func memError(op Op, name string, err error) error {
	if err == nil {
		err = fs.ErrNotExist
	}
	return &fs.PathError{Op: op.String(), Path: name, Err: err}
}
