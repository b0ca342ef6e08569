package crypt

import (
	"crypto/aes"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"

	"github.com/shaledb/shale/vfs"
)

// An FS encrypts the files of another file system. All files that are
// opened through it must be encrypted. Locks and names are those below.
type FS struct {
	vfs.FS
	keys Keys
}

// New returns a file system over base. New files, and logs that are
// used again, take the last of the keys. The others serve to read older files.
func New(base vfs.FS, keys Keys) (*FS, error) {
	if err := keys.check(); err != nil {
		return nil, err
	}
	own := make(Keys, len(keys))
	for i, k := range keys {
		own[i] = Key{k.ID, append([]byte(nil), k.Secret...)}
	}
	return &FS{base, own}, nil
}

// Create creates a file with a new nonce and writes its header. A reader of
// an older file of this name, which is emptied, may read anything.
func (f *FS) Create(name string) (vfs.File, error) {
	base, err := f.FS.Create(name)
	if err != nil {
		return nil, err
	}
	file := &file{base: base, keys: f.keys, name: name}
	if err := file.begin(false); err != nil {
		return nil, errors.Join(err, base.Close())
	}
	return file, nil
}

// Open opens a file for reading.
func (f *FS) Open(name string) (vfs.File, error) {
	return f.open(name, f.FS.Open)
}

// OpenReadWrite opens a file for reading, and for writing what was not written yet.
func (f *FS) OpenReadWrite(name string) (vfs.File, error) {
	opened, err := f.open(name, f.FS.OpenReadWrite)
	if err != nil {
		return nil, err
	}
	file := opened.(*file)
	if file.mark, err = file.Size(); err != nil {
		return nil, errors.Join(err, file.Close())
	}
	file.pos = file.mark
	return file, nil
}

// open opens a file and reads its header. A file whose header is lost, because a crash came
// before it was durable or because both of its copies are damaged, reads as zeros: its owner
// knows whether there was something.
func (f *FS) open(name string, open func(string) (vfs.File, error)) (vfs.File, error) {
	base, err := open(name)
	if err != nil {
		return nil, err
	}
	file := &file{base: base, keys: f.keys, name: name}
	h, err := readHeader(base)
	if err == nil {
		err = file.unlock(h)
	}
	if err != nil && !errors.Is(err, errDamaged) {
		_ = base.Close() // err is the one to report
		return nil, fmt.Errorf("crypt: %s: %w", filepath.Base(name), err)
	}
	return file, nil
}

// readHeader reads the header of a file.
func readHeader(base vfs.File) (header, error) {
	page := make([]byte, headerSize)
	n, err := base.ReadAt(page, 0)
	if err != nil && err != io.EOF {
		return header{}, err
	}
	return decodeHeader(page[:n])
}

// Stat describes a file or directory. The size is that of an encrypted file.
func (f *FS) Stat(name string) (vfs.FileInfo, error) {
	info, err := f.FS.Stat(name)
	if err == nil && !info.IsDir {
		info.Size = max(info.Size-headerSize, 0)
	}
	return info, err
}

// Uses returns the names of the files in a directory by the number of
// the key that they need. Files that are not encrypted need none.
func (f *FS) Uses(dir string) (map[uint32][]string, error) {
	names, err := f.List(dir)
	if err != nil {
		return nil, err
	}
	uses := make(map[uint32][]string)
	for _, name := range names {
		path := filepath.Join(dir, name)
		switch info, err := f.FS.Stat(path); {
		case err == nil && info.IsDir, errors.Is(err, fs.ErrNotExist): // removed meanwhile
			continue
		case err != nil:
			return nil, err
		}
		base, err := f.FS.Open(path)
		if err != nil {
			return nil, err
		}
		h, err := readHeader(base)
		switch cerr := base.Close(); {
		case err == nil:
			uses[h.key] = append(uses[h.key], name)
		case cerr != nil:
			return nil, cerr
		case !errors.Is(err, errDamaged) && !errors.Is(err, ErrNotEncrypted):
			return nil, fmt.Errorf("crypt: read %s: %w", path, err)
		}
	}
	return uses, nil
}

// Rekey gives the files in a directory the newest key, so that the older ones can be thrown
// away. It writes new headers, and no data: their bytes stay as they are. Nobody may write to
// the files meanwhile. A crash leaves each file with the old key or the new one.
func (f *FS) Rekey(dir string) error {
	uses, err := f.Uses(dir)
	if err != nil {
		return err
	}
	for id, names := range uses {
		for _, name := range names {
			if id != f.keys.newest().ID {
				if err := f.rekey(filepath.Join(dir, name)); err != nil {
					return fmt.Errorf("crypt: rekey %s: %w", filepath.Join(dir, name), err)
				}
			}
		}
	}
	return nil
}

// rekey gives one file the newest key.
func (f *FS) rekey(name string) error {
	base, err := f.FS.OpenReadWrite(name)
	if err != nil {
		return err
	}
	h, err := readHeader(base)
	var secret []byte
	if err == nil {
		secret, err = h.unwrap(f.keys)
	}
	if err == nil {
		err = h.wrap(f.keys.newest(), secret)
	}
	// One of the two copies is whole at any time. That may be only the one that was read: a crash may have torn the other.
	for _, at := range []int{copyAt - h.at, h.at} {
		if err == nil {
			_, err = base.WriteAt(h.page()[:headerUsed], int64(at))
		}
		if err == nil {
			err = base.Sync()
		}
	}
	return errors.Join(err, base.Close())
}

// The file system below answers all that has to do with names.

// LockShared takes a shared lock, if the file system below has them.
func (f *FS) LockShared(name string) (io.Closer, error) {
	if l, ok := f.FS.(vfs.SharedLocker); ok {
		return l.LockShared(name)
	}
	return nil, vfs.ErrUnsupported
}

// Bind implements vfs.Binder.
func (f *FS) Bind(lock io.Closer) (vfs.FS, error) {
	base, err := vfs.Bind(f.FS, lock)
	if err != nil {
		return nil, err
	}
	return &FS{base, f.keys}, nil
}

// Abs implements vfs.PathFS: names are not encrypted, so the file system below has the answer.
func (f *FS) Abs(name string) (string, error) { return vfs.Abs(f.FS, name) }

// Within implements vfs.PathFS, as Abs does.
func (f *FS) Within(name, dir string) (bool, error) { return vfs.Within(f.FS, name, dir) }

// Resolve implements vfs.Resolver, as Abs implements vfs.PathFS.
func (f *FS) Resolve(name string) string { return vfs.Resolve(f.FS, name) }

// begin gives the file a key of its own, wrapped with the newest key, and writes the header.
func (f *file) begin(sparse bool) error {
	h := header{sparse: sparse}
	secret := make([]byte, keySize)
	_, _ = rand.Read(secret) // never fails
	err := h.wrap(f.keys.newest(), secret)
	if err == nil {
		err = f.unlock(h)
	}
	if err != nil {
		return err
	}
	f.stream, f.mark, f.pos = nil, 0, 0
	return f.writeHeader(h)
}

// unlock takes the key of the file from its header.
func (f *file) unlock(h header) error {
	secret, err := h.unwrap(f.keys)
	if err != nil {
		return err
	}
	f.block, err = aes.NewCipher(secret)
	f.header = h
	f.sparse.Store(h.sparse)
	return err
}

// writeHeader writes the header, which the next Sync makes durable.
func (f *file) writeHeader(h header) error {
	n, err := f.base.WriteAt(h.page(), 0)
	if err == nil && n < headerSize {
		err = io.ErrShortWrite
	}
	if err == nil {
		f.header = h
		f.sparse.Store(h.sparse)
	}
	return err
}
