package vfs

import (
	"errors"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
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

var (
	errIsDir    = errors.New("is a directory")
	errNotDir   = errors.New("not a directory")
	errNotEmpty = errors.New("directory not empty")
)

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

// split returns the parts of a path below the root.
func split(name string) []string {
	name = filepath.ToSlash(filepath.Clean("/" + filepath.ToSlash(name)))
	if name = strings.Trim(name, "/"); name == "" {
		return nil
	}
	return strings.Split(name, "/")
}

// dir returns the directory with the parts. The caller holds m.mu.
func (m *Mem) dir(parts []string) (*memDir, error) {
	d := m.root
	for _, part := range parts {
		child, ok := d.names[part]
		if !ok {
			return nil, fs.ErrNotExist
		}
		if d, ok = child.(*memDir); !ok {
			return nil, errNotDir
		}
	}
	return d, nil
}

// place returns the place of a path whose parent exists, and what is there,
// or nil. The caller holds m.mu.
func (m *Mem) place(name string) (place, memNode, error) {
	parts := split(name)
	if len(parts) == 0 {
		return place{}, m.root, fs.ErrInvalid
	}
	last := len(parts) - 1
	d, err := m.dir(parts[:last])
	if err != nil {
		return place{}, nil, err
	}
	return place{d, parts[last]}, d.names[parts[last]], nil
}

func (m *Mem) Rename(oldname, newname string) error {
	m.begin(OpRename, newname)
	defer m.cut.RUnlock()
	m.mu.Lock()
	defer m.mu.Unlock()
	from, node, err := m.place(oldname)
	if err != nil || node == nil {
		return memError(OpRename, oldname, err)
	}
	to, there, err := m.place(newname)
	if err != nil {
		return memError(OpRename, newname, err)
	}
	if there == node {
		return nil
	}
	if err := replaceable(node, there, split(oldname), split(newname)); err != nil {
		return memError(OpRename, newname, err)
	}
	m.change(nameOp{set: to, del: from, node: node})
	return nil
}

// replaceable says why node can't take the place of there.
func replaceable(node, there memNode, oldPath, newPath []string) error {
	_, moveDir := node.(*memDir)
	if moveDir && len(newPath) > len(oldPath) && slices.Equal(newPath[:len(oldPath)], oldPath) {
		return fs.ErrInvalid // below itself
	}
	switch there := there.(type) {
	case *memDir:
		if !moveDir {
			return errIsDir
		}
		if len(there.names) > 0 {
			return errNotEmpty
		}
	case *inode:
		if moveDir {
			return errNotDir
		}
	}
	return nil
}

func (m *Mem) Remove(name string) error {
	m.begin(OpRemove, name)
	defer m.cut.RUnlock()
	m.mu.Lock()
	defer m.mu.Unlock()
	at, node, err := m.place(name)
	if err != nil || node == nil {
		return memError(OpRemove, name, err)
	}
	if d, ok := node.(*memDir); ok && len(d.names) > 0 {
		return memError(OpRemove, name, errNotEmpty)
	}
	m.change(nameOp{del: at})
	return nil
}

func (m *Mem) Link(oldname, newname string) error {
	m.begin(OpLink, newname)
	defer m.cut.RUnlock()
	m.mu.Lock()
	defer m.mu.Unlock()
	_, node, err := m.place(oldname)
	if err != nil || node == nil {
		return memError(OpLink, oldname, err)
	}
	if _, ok := node.(*inode); !ok {
		return memError(OpLink, oldname, errIsDir)
	}
	to, there, err := m.place(newname)
	if err == nil && there != nil {
		err = fs.ErrExist
	}
	if err != nil {
		return memError(OpLink, newname, err)
	}
	m.change(nameOp{set: to, node: node})
	return nil
}

func (m *Mem) MkdirAll(dir string) error {
	m.begin(OpMkdirAll, dir)
	defer m.cut.RUnlock()
	m.mu.Lock()
	defer m.mu.Unlock()
	d := m.root
	for _, part := range split(dir) {
		child := d.names[part]
		if child == nil {
			child = newMemDir()
			m.change(nameOp{set: place{d, part}, node: child})
			m.syncNames(d)
		}
		next, ok := child.(*memDir)
		if !ok {
			return memError(OpMkdirAll, dir, errNotDir)
		}
		d = next
	}
	return nil
}

func (m *Mem) List(dir string) ([]string, error) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	d, err := m.dir(split(dir))
	if err != nil {
		return nil, memError(OpList, dir, err)
	}
	names := make([]string, 0, len(d.names))
	for name := range d.names {
		names = append(names, name)
	}
	slices.Sort(names)
	return names, nil
}

func (m *Mem) Stat(name string) (FileInfo, error) {
	m.mu.RLock()
	_, node, err := m.place(name)
	m.mu.RUnlock()
	switch node := node.(type) {
	case *inode:
		return node.stat(), nil
	case *memDir:
		return FileInfo{IsDir: true}, nil
	}
	return FileInfo{}, memError(OpStat, name, err)
}

func (m *Mem) SyncDir(dir string) error {
	m.begin(OpSyncDir, dir)
	defer m.cut.RUnlock()
	m.mu.Lock()
	defer m.mu.Unlock()
	d, err := m.dir(split(dir))
	if err != nil {
		return memError(OpSyncDir, dir, err)
	}
	m.syncNames(d)
	return nil
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
