package main

import "github.com/shaledb/shale/vfs"

// An unsynced is a file system that does not sync. What is written survives a crash of the
// process, but not of the machine.
type unsynced struct{ vfs.FS }

func (u unsynced) Create(name string) (vfs.File, error) { return withoutSync(u.FS.Create(name)) }

func (u unsynced) OpenReadWrite(name string) (vfs.File, error) {
	return withoutSync(u.FS.OpenReadWrite(name))
}

func (unsynced) SyncDir(string) error { return nil }

// withoutSync wraps a file that was just opened.
func withoutSync(f vfs.File, err error) (vfs.File, error) {
	if err != nil {
		return nil, err
	}
	return unsyncedFile{f}, nil
}

// An unsyncedFile is a file whose Sync does nothing.
type unsyncedFile struct{ vfs.File }

func (unsyncedFile) Sync() error { return nil }

// Map implements vfs.Mapper. Logs are written through memory, as in any other store.
func (f unsyncedFile) Map(size int64) (vfs.Mapping, error) {
	if m, ok := f.File.(vfs.Mapper); ok {
		return m.Map(size)
	}
	return nil, vfs.ErrUnsupported
}
