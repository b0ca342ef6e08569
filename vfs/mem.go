package vfs

import (
	"io/fs"
	"sync"
	"sync/atomic"
	"time"
)

// Mem is a file system in memory. It serves as the place of a store that
// needs no disk, and as a disk that can be crashed: it knows of each byte and
// each name whether a power cut would lose it (see Crash). By default a
// name is durable only after SyncDir, as POSIX has it. Removed files live on
// for those who have them open. All names are below one root; relative ones too.
//
// Reads take no lock but their file's, shared.
type Mem struct {
	// cut is held shared by each change and alone by Crash, which so sees all
	// files at one moment. Lock order: cut, mu, an inode's mu.
	cut sync.RWMutex

	mu      sync.RWMutex // guards what follows and the names in directories
	root    *memDir
	pending []nameOp // in order, not yet durable
	locks   map[*memLock]bool
	nextID  uint64

	nameSeq   atomic.Int64 // of the last change of names
	journaled atomic.Int64 // nameSeq when a file was last synced
	ops       atomic.Int64
	open      atomic.Int64
	onOp      atomic.Pointer[func(Op, string)]
}

// NewMem returns an empty file system.
func NewMem() *Mem {
	return &Mem{root: newMemDir(), locks: make(map[*memLock]bool)}
}

// Ops returns the number of operations so far that changed something or could
// have: all but opens for reading, reads, List, Stat, Size, and closes.
func (m *Mem) Ops() int64 { return m.ops.Load() }

// OnOp has fn called before each operation that Ops counts, which includes it
// already. fn may use the file system, and Crash. A nil fn ends this.
func (m *Mem) OnOp(fn func(op Op, name string)) {
	if fn == nil {
		m.onOp.Store(nil)
		return
	}
	m.onOp.Store(&fn)
}

// OpenFiles returns the number of open files and held locks.
func (m *Mem) OpenFiles() int { return int(m.open.Load()) }

// begin starts a change; m.cut.RUnlock ends it.
func (m *Mem) begin(op Op, name string) {
	m.ops.Add(1)
	if fn := m.onOp.Load(); fn != nil {
		(*fn)(op, name)
	}
	m.cut.RLock()
}

// Crash returns the file system as a machine finds it after a power cut now.
// All that is in it is durable, nothing is open or locked. m goes on unharmed;
// the two share memory until one of them writes. While Crash runs, changes to
// m wait.
func (m *Mem) Crash(c CrashConfig) *Mem {
	m.cut.Lock()
	defer m.cut.Unlock()
	after := NewMem()
	after.nextID = m.nextID
	names := m.crashNames(c)
	copies := make(map[memNode]memNode) // a file may have two names
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

// newInode makes a file. The caller holds m.mu.
func (m *Mem) newInode() *inode {
	m.nextID++
	return &inode{id: m.nextID, data: content{owner: owners.Add(1)}, modTime: time.Now()}
}

// memError is err as package os would return it; nil stands for ErrNotExist.
func memError(op Op, name string, err error) error {
	if err == nil {
		err = fs.ErrNotExist
	}
	return &fs.PathError{Op: op.String(), Path: name, Err: err}
}
