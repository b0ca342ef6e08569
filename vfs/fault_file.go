package vfs

// faultFile is an open file of a FaultFS.
type faultFile struct {
	fs   *FaultFS
	file File
	name string
}

// ReadAt counts as OpRead.
func (f *faultFile) ReadAt(p []byte, off int64) (n int, err error) {
	err = f.fs.do(OpRead, f.name, func() error {
		n, err = f.file.ReadAt(p, off)
		return err
	})
	return n, err
}

// Write counts as OpWrite.
func (f *faultFile) Write(p []byte) (int, error) {
	return f.fs.write(OpWrite, f.name, p, f.file.Write)
}

// WriteAt counts as OpWrite.
func (f *faultFile) WriteAt(p []byte, off int64) (int, error) {
	return f.fs.write(OpWrite, f.name, p, func(p []byte) (int, error) { return f.file.WriteAt(p, off) })
}

// write runs a write, or the first half of it, or none, as its fault says.
func (f *FaultFS) write(op Op, name string, p []byte, write func([]byte) (int, error)) (int, error) {
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
func (f *faultFile) Sync() error {
	fault := f.fs.next(OpSync, f.name)
	if fault == nil {
		return f.file.Sync()
	}
	if fault.After {
		if err := f.file.Sync(); err != nil {
			return err
		}
	} else if l, ok := f.file.(interface{ loseUnsynced() }); ok {
		l.loseUnsynced()
	}
	return fault.Err
}

// Truncate counts as OpTruncate.
func (f *faultFile) Truncate(size int64) error {
	return f.fs.do(OpTruncate, f.name, func() error { return f.file.Truncate(size) })
}

// Preallocate counts as OpPreallocate.
func (f *faultFile) Preallocate(size int64) error {
	return f.fs.do(OpPreallocate, f.name, func() error { return f.file.Preallocate(size) })
}

// Size counts as OpStat.
func (f *faultFile) Size() (size int64, err error) {
	err = f.fs.do(OpStat, f.name, func() error {
		size, err = f.file.Size()
		return err
	})
	return size, err
}

// Close always closes the file: a failure must not look like a leak.
func (f *faultFile) Close() error {
	return f.fs.always(OpClose, f.name, f.file.Close)
}

// loseUnsynced passes the loss on, if one FaultFS lies over another.
func (f *faultFile) loseUnsynced() {
	if l, ok := f.file.(interface{ loseUnsynced() }); ok {
		l.loseUnsynced()
	}
}

// Map maps the file, if the file below can be mapped.
func (f *faultFile) Map(size int64) (Mapping, error) {
	mapper, ok := f.file.(Mapper)
	if !ok {
		return nil, ErrUnsupported
	}
	var m Mapping
	err := f.fs.do(OpMap, f.name, func() (err error) {
		m, err = mapper.Map(size)
		return err
	})
	if err != nil {
		if m != nil {
			_ = m.Unmap() // it was mapped, but the caller got an error instead
		}
		return nil, err
	}
	return &faultMapping{f: f, base: m}, nil
}

// A faultMapping is a mapping of a FaultFS. After its first error, all writes fail.
type faultMapping struct {
	f    *faultFile
	base Mapping
	err  error // the first error of a write
}

// WriteAt fails for good after the first error, as the mapping of the operating system does.
func (m *faultMapping) WriteAt(p []byte, off int64) (int, error) {
	if m.err != nil {
		return 0, m.err
	}
	n, err := m.f.fs.write(OpMapWrite, m.f.name, p, func(p []byte) (int, error) { return m.base.WriteAt(p, off) })
	if err != nil {
		m.err = err
	}
	return n, err
}

// Unmap always ends the mapping, even if it returns an error.
func (m *faultMapping) Unmap() error {
	return m.f.fs.always(OpUnmap, m.f.name, m.base.Unmap)
}
