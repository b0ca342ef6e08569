package restore

import (
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"path/filepath"
	"sync"

	"github.com/shaledb/shale/internal/base"
	"github.com/shaledb/shale/manifest"
	"github.com/shaledb/shale/remote/internal/bucket"
	"github.com/shaledb/shale/remote/internal/object"
	"github.com/shaledb/shale/remote/internal/tablefs"
	"github.com/shaledb/shale/sstable"
	"github.com/shaledb/shale/vfs"
)

// How an object becomes a local file that can be trusted: its bytes are checked while they come,
// and its name appears when they are durable.

// PieceSize is how many bytes of an object are read at once, and so the memory of one fetch.
// The default of 16 fetches at the same time takes 64 MiB.
const PieceSize = 4 << 20

// fetchBuffers lends the memory of fetches, so that a restore of thousands of tables has no more
// buffers than fetches at the same time.
var fetchBuffers = sync.Pool{New: func() any { return new([PieceSize]byte) }}

// fetchTries is how often a file is fetched whose bytes do not check: they may have been damaged on
// their way.
const fetchTries = 2

// Table makes a file of a table of the bucket, and checks it: its size, the checksum of its bytes,
// and that the footer is that of this table of this store. want is what the manifest says. The file is
// durable when it returns, its name is not. A file that was there is replaced, and never written
// to: it may be a second name of a file that others need.
func Table(ctx context.Context, b bucket.Bucket, storeID uint64, fsys vfs.FS, path string, want *manifest.Table) error {
	name := object.TableName(uint64(want.Num))
	return fetchChecked(name, func() error {
		return File(ctx, b, name, fsys, path, want.Size, want.Size-tablefs.TableFooter, func(path string, sum uint32) error {
			return CheckTable(fsys, path, storeID, want, func(vfs.File) (uint32, error) { return sum, nil })
		})
	})
}

// Filter makes a file of the sidecar of a table, as Table does of a table.
func Filter(ctx context.Context, b bucket.Bucket, storeID uint64, fsys vfs.FS, path string, of *manifest.Table) error {
	side := tablefs.SidecarOf(of)
	return fetchChecked(side.Name(), func() error {
		return File(ctx, b, side.Name(), fsys, path, side.Size, 0, func(path string, _ uint32) error { return CheckFilter(fsys, path, storeID, of) })
	})
}

// CheckFilter checks the file of the sidecar of a table.
func CheckFilter(fsys vfs.FS, path string, storeID uint64, of *manifest.Table) error {
	f, err := fsys.Open(path)
	if err != nil {
		return err
	}
	defer f.Close() // opened for reading
	return tablefs.SidecarOf(of).Check(f, storeID)
}

// fetchChecked calls fetch, and again if its bytes were damaged and the object may be whole. Damage of
// a file that was fetched gets the name of the object: the file is as the bucket has it.
func fetchChecked(name string, fetch func() error) error {
	var damage *base.CorruptionError
	for try := 1; ; try++ {
		err := fetch()
		if !errors.As(err, &damage) {
			return err
		}
		if try == fetchTries || errors.Is(err, ErrMissing) {
			return base.Corruption(name, damage.Offset, damage.Part, damage.Err)
		}
	}
}

// File makes a file of a store, with the bytes of an object, which must have the given size. check gets the crc32c of those
// up to summed, and where they are; nil: they are not checked. The file gets its name when its bytes are checked and
// durable: bytes whose sync has failed may still be read, although no later sync makes them durable, so nothing may find them
// there. Until then it has the name of a temporary file, which an Open of the store removes.
func File(ctx context.Context, b bucket.Bucket, name string, fsys vfs.FS, path string, size, summed int64, check func(path string, sum uint32) error) error {
	_, num, _ := base.ParseFileName(filepath.Base(path))
	temp := filepath.Join(filepath.Dir(path), base.TempName(num))
	if err := fsys.Remove(temp); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	f, err := fsys.Create(temp)
	if err != nil {
		return err
	}
	sum, err := copyObject(ctx, b, name, f, size, summed)
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err == nil && check != nil {
		err = check(temp, sum)
	}
	if err == nil {
		err = fsys.Rename(temp, path)
	}
	if err != nil {
		_ = fsys.Remove(temp) // nothing uses it, and what stays is removed later
	}
	return err
}

// copyObject writes the bytes of an object to a file, for File. It asks for one byte more than
// there should be, so that an object that is too long is found without another request.
func copyObject(ctx context.Context, b bucket.Bucket, name string, f vfs.File, size, summed int64) (sum uint32, err error) {
	lent := fetchBuffers.Get().(*[PieceSize]byte)
	defer fetchBuffers.Put(lent)
	buf := lent[:min(PieceSize, size+1)]
	for off := int64(0); off <= size; {
		p := buf[:min(int64(len(buf)), size+1-off)]
		n, err := b.ReadAt(ctx, name, p, off)
		if err != nil && err != io.EOF {
			return 0, IfMissing(err, name, "object named by a step")
		}
		end := off + int64(n)
		// The step and the object disagree about its length. Neither is believed, and the caller
		// tries another way.
		if end > size || end < size && n < len(p) {
			return 0, base.Corruption(name, -1, "size", fmt.Errorf("the object ends at %d or later, its step states %d bytes", end, size))
		}
		if _, err := f.Write(p[:n]); err != nil {
			return 0, err
		}
		sum = crc32.Update(sum, bucket.Castagnoli, p[:max(0, min(int64(n), summed-off))])
		if off = end; n < len(p) {
			break
		}
	}
	return sum, nil
}

// CheckTable checks the file of a table: the checksum of its bytes before the footer, which sum returns, the footer and
// the properties, and that it ends where it should.
// sum is a function because a table that has just come was summed on its way, and one that was
// there must be read for it.
func CheckTable(fsys vfs.FS, path string, storeID uint64, want *manifest.Table, sum func(f vfs.File) (uint32, error)) error {
	f, err := fsys.Open(path)
	if err != nil {
		return err
	}
	defer f.Close() // opened for reading
	got, err := sum(f)
	if err == nil && got != want.Checksum {
		err = base.Corruption(base.TableName(want.Num), -1, "file", fmt.Errorf("checksum %08x, the manifest states %08x", got, want.Checksum))
	}
	if err != nil {
		return err
	}
	// Nobody is going to ask it for keys.
	_, err = sstable.Open(f, sstable.ReaderOptions{Num: want.Num, StoreID: storeID, Size: want.Size, Checksum: want.Checksum, Seq: want.MaxSeq,
		NoFilter: true, NoIndex: true})
	return err
}
