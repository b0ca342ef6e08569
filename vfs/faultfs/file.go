package faultfs

import "github.com/shaledb/shale/vfs"

// An openFile is an open file of an FS.
type openFile struct {
	fs   *FS
	file vfs.File
	name string
}

// ReadAt counts as OpRead.
func (f *openFile) ReadAt(p []byte, off int64) (n int, err error) {
	err = f.fs.do(vfs.OpRead, f.name, func() error {
		n, err = f.file.ReadAt(p, off)
		return err
	})
	return n, err
}

// Write counts as OpWrite.
func (f *openFile) Write(p []byte) (int, error) {
	return f.fs.write(vfs.OpWrite, f.name, p, f.file.Write)
}

// WriteAt counts as OpWrite.
func (f *openFile) WriteAt(p []byte, off int64) (int, error) {
	return f.fs.write(vfs.OpWrite, f.name, p, func(p []byte) (int, error) { return f.file.WriteAt(p, off) })
}

// write runs a write, or the first half of it, or none, as its fault says.
func (f *FS) write(op vfs.Op, name string, p []byte, write func([]byte) (int, error)) (int, error) {
	fault := f.next(op, name)
	switch {
	case fault == nil:
		return write(p)
	case fault.After:
	case fault.Short:
		p = p[:len(p)/2]
	default:
		return 0, fault.Err
	}
	n, err := write(p)
	if err == nil {
		err = fault.Err
	}
	return n, err
}

// Sync that fails loses the unsynced data for good, if the file below
// supports that. The next Sync succeeds without the data, as on real systems.
func (f *openFile) Sync() error {
	fault := f.fs.next(vfs.OpSync, f.name)
	if fault == nil {
		return f.file.Sync()
	}
	if fault.After {
		if err := f.file.Sync(); err != nil {
			return err
		}
	} else if l, ok := f.file.(interface{ LoseUnsynced() }); ok {
		l.LoseUnsynced()
	}
	return fault.Err
}

// Truncate counts as OpTruncate.
func (f *openFile) Truncate(size int64) error {
	return f.fs.do(vfs.OpTruncate, f.name, func() error { return f.file.Truncate(size) })
}

// Preallocate counts as OpPreallocate.
func (f *openFile) Preallocate(size int64) error {
	return f.fs.do(vfs.OpPreallocate, f.name, func() error { return f.file.Preallocate(size) })
}

// Size counts as OpStat.
func (f *openFile) Size() (size int64, err error) {
	err = f.fs.do(vfs.OpStat, f.name, func() error {
		size, err = f.file.Size()
		return err
	})
	return size, err
}

// Close always closes the file: a failure must not look like a leak.
func (f *openFile) Close() error {
	return f.fs.always(vfs.OpClose, f.name, f.file.Close)
}

// Unwrap returns the file below, which package vfs asks for a file of the operating system.
func (f *openFile) Unwrap() vfs.File { return f.file }

// LoseUnsynced passes the loss on, if one FS lies over another.
func (f *openFile) LoseUnsynced() {
	if l, ok := f.file.(interface{ LoseUnsynced() }); ok {
		l.LoseUnsynced()
	}
}

// Map maps the file, if the file below can be mapped.
func (f *openFile) Map(size int64) (vfs.Mapping, error) {
	mapper, ok := f.file.(vfs.Mapper)
	if !ok {
		return nil, vfs.ErrUnsupported
	}
	var m vfs.Mapping
	err := f.fs.do(vfs.OpMap, f.name, func() (err error) {
		m, err = mapper.Map(size)
		return err
	})
	if err != nil {
		if m != nil {
			_ = m.Unmap() // it was mapped, but the caller got an error instead
		}
		return nil, err
	}
	return &openMapping{f: f, base: m}, nil
}

// An openMapping is a mapping of an FS. After its first error, all writes fail.
type openMapping struct {
	f    *openFile
	base vfs.Mapping
	err  error // the first error of a write
}

// WriteAt fails for good after the first error, as the mapping of the operating system does.
func (m *openMapping) WriteAt(p []byte, off int64) (int, error) {
	if m.err != nil {
		return 0, m.err
	}
	n, err := m.f.fs.write(vfs.OpMapWrite, m.f.name, p, func(p []byte) (int, error) { return m.base.WriteAt(p, off) })
	if err != nil {
		m.err = err
	}
	return n, err
}

// Unmap always ends the mapping, even if it returns an error.
func (m *openMapping) Unmap() error {
	return m.f.fs.always(vfs.OpUnmap, m.f.name, m.base.Unmap)
}
