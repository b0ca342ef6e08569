package vfs

import (
	"io"
	"io/fs"
	"os"
	"strconv"
	"strings"
)

// A memLock is a lock of a Mem. It has the directory and the file, so that it
// keeps others out even if the lock file was removed or has another name.
type memLock struct {
	m    *Mem // not bound
	path []string
	at   *memDir // the directory
	n    *inode
	// shared says that it was taken by LockShared.
	shared bool
}

// Lock takes the exclusive lock. It keeps out all others that use the same Mem.
func (m *Mem) Lock(name string) (io.Closer, error) {
	m.begin(OpLock, name)
	defer m.cut.RUnlock()
	m.mu.Lock()
	defer m.mu.Unlock()
	at, node, _ := m.place(name) // createLocked returns the error, if there is one
	for l := range m.locks {
		if l.keepsOut(at, node) {
			return nil, lockedError(name, os.Getpid())
		}
	}
	n, err := m.createLocked(name)
	if err != nil {
		return nil, memError(OpLock, name, err)
	}
	n.resize(0, false)
	n.writeAt([]byte(strconv.Itoa(os.Getpid())+"\n"), 0, -1)
	l := &memLock{m: &Mem{memory: m.memory}, path: split(name), at: at.dir, n: n}
	m.locks[l] = true
	m.open.Add(1)
	return l, nil
}

// LockShared takes the shared lock, which keeps out Lock. Ops does not count it.
func (m *Mem) LockShared(name string) (io.Closer, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	at, node, _ := m.place(name)
	n, ok := node.(*inode)
	if !ok {
		return nil, memError(OpLockShared, name, nil)
	}
	for l := range m.locks {
		if !l.shared && l.keepsOut(at, node) {
			return nil, lockedError(name, os.Getpid())
		}
	}
	l := &memLock{m: &Mem{memory: m.memory}, path: split(name), at: at.dir, n: n, shared: true}
	m.locks[l] = true
	m.open.Add(1)
	return l, nil
}

// keepsOut reports whether l is a lock on the file node, or on an
// earlier one with the same place. Requires: mu is held.
func (l *memLock) keepsOut(at place, node memNode) bool {
	return node == memNode(l.n) || at == place{l.at, l.path[len(l.path)-1]}
}

// Held looks the name up. Ops does not count it.
func (l *memLock) Held() error {
	l.m.mu.RLock()
	defer l.m.mu.RUnlock()
	name := "/" + strings.Join(l.path, "/")
	if _, node, _ := l.m.place(name); node != memNode(l.n) {
		return memError(OpHeld, name, ErrMoved)
	}
	return nil
}

// Bind returns a Mem that shares everything with m, and finds the directory of the lock
// wherever it is.
func (m *Mem) Bind(lock io.Closer) (FS, error) {
	l, ok := lock.(*memLock)
	if !ok || l.m.memory != m.memory {
		return nil, ErrUnsupported
	}
	return &Mem{memory: m.memory, bound: l}, nil
}

// Close releases the lock. The file stays.
func (l *memLock) Close() error {
	l.m.mu.Lock()
	defer l.m.mu.Unlock()
	if !l.m.locks[l] {
		return memError(OpUnlock, "/"+l.path[len(l.path)-1], fs.ErrClosed)
	}
	delete(l.m.locks, l)
	l.m.open.Add(-1)
	return nil
}
