package vfs

import (
	"io"
	"io/fs"
	"os"
	"slices"
	"strconv"
)

// A memLock is a lock of a Mem. It has the path and the file, so that it
// keeps others out even if the lock file was removed or has another name.
type memLock struct {
	m    *Mem
	path []string
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
	path := split(name)
	_, node, _ := m.place(name) // createLocked returns the error, if there is one
	for l := range m.locks {
		if slices.Equal(l.path, path) || node == memNode(l.n) {
			return nil, lockedError(name, os.Getpid())
		}
	}
	n, err := m.createLocked(name)
	if err != nil {
		return nil, memError(OpLock, name, err)
	}
	n.resize(0, false)
	n.writeAt([]byte(strconv.Itoa(os.Getpid())+"\n"), 0, -1)
	l := &memLock{m: m, path: path, n: n}
	m.locks[l] = true
	m.open.Add(1)
	return l, nil
}

// LockShared takes the shared lock, which keeps out Lock. Ops does not count it.
func (m *Mem) LockShared(name string) (io.Closer, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	path := split(name)
	_, node, _ := m.place(name)
	n, ok := node.(*inode)
	if !ok {
		return nil, memError(OpLockShared, name, nil)
	}
	for l := range m.locks {
		if !l.shared && (slices.Equal(l.path, path) || l.n == n) {
			return nil, lockedError(name, os.Getpid())
		}
	}
	l := &memLock{m: m, path: path, n: n, shared: true}
	m.locks[l] = true
	m.open.Add(1)
	return l, nil
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
