package vfs

import (
	"errors"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
)

var (
	errIsDir    = errors.New("is a directory")
	errNotDir   = errors.New("not a directory")
	errNotEmpty = errors.New("directory not empty")
)

// split returns the parts of a path below the root.
func split(name string) []string {
	name = filepath.ToSlash(filepath.Clean("/" + filepath.ToSlash(name)))
	if name = strings.Trim(name, "/"); name == "" {
		return nil
	}
	return strings.Split(name, "/")
}

// dir returns the directory with the given path. Requires: mu is held.
func (m *Mem) dir(parts []string) (*memDir, error) {
	if l := m.bound; l != nil && slices.Equal(parts, l.path[:len(l.path)-1]) {
		if l.at.removed {
			return nil, fs.ErrNotExist
		}
		return l.at, nil
	}
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

// place returns the place of a path, and what is there, or
// nil. The parent directory must exist. Requires: mu is held.
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

// Rename moves a file or directory and replaces newname in one step: after a
// crash the file has one of the two names. The rename is durable when either
// directory is synced, as with a journal. A directory may replace an empty one.
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
	if d, ok := there.(*memDir); ok {
		d.removed = true
	}
	m.change(nameOp{set: to, del: from, node: node})
	return nil
}

// replaceable returns the error with which node can't replace there, or nil if it can.
func replaceable(node, there memNode, oldPath, newPath []string) error {
	_, moveDir := node.(*memDir)
	if moveDir && len(newPath) > len(oldPath) && slices.Equal(newPath[:len(oldPath)], oldPath) {
		return fs.ErrInvalid // the directory would be below itself
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

// Remove removes a name. The bytes of the file stay as long as the file
// is open, has another name, or could get the name back in a crash.
func (m *Mem) Remove(name string) error {
	m.begin(OpRemove, name)
	defer m.cut.RUnlock()
	m.mu.Lock()
	defer m.mu.Unlock()
	at, node, err := m.place(name)
	if err != nil || node == nil {
		return memError(OpRemove, name, err)
	}
	if d, ok := node.(*memDir); ok {
		if len(d.names) > 0 {
			return memError(OpRemove, name, errNotEmpty)
		}
		d.removed = true
	}
	m.change(nameOp{del: at})
	return nil
}

// Link gives a file a second name, which is durable after SyncDir of its directory.
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

// MkdirAll creates the missing directories. Each new name
// becomes durable, and with it all others in its directory.
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

// List returns the names as they are now, durable or not.
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

// Stat describes a file. ModTime is the time of the last sync, and
// not of the last change, so that a write need not read the clock.
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

// SyncDir makes the changes of names in dir durable, and earlier changes elsewhere
// that they depend on: a file that was renamed into dir had to be created first.
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
