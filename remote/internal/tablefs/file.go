package tablefs

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"

	"github.com/shaledb/shale/internal/base"
	"github.com/shaledb/shale/manifest"
	"github.com/shaledb/shale/remote/internal/bucket"
	"github.com/shaledb/shale/remote/internal/object"
	"github.com/shaledb/shale/sstable"
)

// What an object of a table or sidecar is called, how long it is, and how it is checked.

// A File is a table or a sidecar that is in a bucket, as the manifest describes it.
type File struct {
	fileID
	Size   int64 // of the object, in bytes
	filter int64 // bytes of the filter in it
	away   bool  // LearnFirst was told of it, so no local file has it
	// Of a sidecar: the table that it belongs to, with its checksum.
	table    uint64
	tableSum uint32
}

// A fileID names a File in caches. A number alone is not enough: two copies of one store give
// the same numbers to different tables, and a cache may outlive the one and serve the other.
type fileID struct {
	Kind object.Kind // KindTable or KindFilter
	Num  uint64
	sum  uint32 // the checksum that the manifest states
}

// Object returns which object it is, and Name that object's name.
func (f fileID) Object() object.Name { return object.Name{Kind: f.Kind, Num: f.Num} }
func (f fileID) Name() string        { return f.Object().String() }

// LocalName returns the name of the file in the directory of a store.
func (f fileID) LocalName() string {
	if f.Kind == object.KindFilter {
		return base.FilterName(base.FileNum(f.Num))
	}
	return base.TableName(base.FileNum(f.Num))
}

// Is reports whether both are the same file: in caches, and in the bucket.
func (f File) Is(other File) bool { return f.fileID == other.fileID }

// FileOf describes the object of a table.
func FileOf(t *manifest.Table) File {
	return File{fileID: fileID{object.KindTable, uint64(t.Num), t.Checksum}, Size: t.Size, filter: t.FilterBytes}
}

// SidecarOf describes the object of the sidecar of t. Requires: t has one.
func SidecarOf(t *manifest.Table) File {
	s := t.Sidecar
	return File{fileID: fileID{object.KindFilter, uint64(s.Num), s.Checksum}, Size: s.Size, filter: s.FilterBytes,
		table: uint64(t.Num), tableSum: t.Checksum}
}

// FilesOf yields the tables and sidecars of a version.
func FilesOf(v *manifest.Version) iter.Seq[File] {
	return func(yield func(File) bool) {
		for t := range v.Tables() {
			for f := range FilesOfTable(t) {
				if !yield(f) {
					return
				}
			}
		}
	}
}

// FilesOfTable yields a table and its sidecar, if it has one.
func FilesOfTable(t *manifest.Table) iter.Seq[File] {
	return func(yield func(File) bool) {
		if yield(FileOf(t)) && t.Sidecar != nil {
			yield(SidecarOf(t))
		}
	}
}

// NumsOf returns the numbers of the tables and sidecars of a version.
func NumsOf(v *manifest.Version) map[uint64]bool {
	nums := make(map[uint64]bool)
	for f := range FilesOf(v) {
		nums[f.Num] = true
	}
	return nums
}

// tailGuess returns how many bytes at the end of the object have all but its data blocks, if the table
// is an ordinary one. A sidecar has no data blocks.
// The manifest states the length of the filter. An index of blocks of the usual size is shorter
// than a 64th of the table, and 64 KiB are more than the properties take, or the index of a small
// table.
func (f File) tailGuess() int64 {
	if f.Kind == object.KindFilter {
		return f.Size
	}
	return min(f.Size, f.filter+f.Size/64+64<<10)
}

// Check reads what src has of the file and returns what is wrong with it: of a sidecar all, of a table
// the footer, the properties, the filter and the index, except for partitions of the index.
func (f File) Check(src io.ReaderAt, storeID uint64) error {
	if f.Kind == object.KindFilter {
		return sstable.NewSidecar(src, sstable.SidecarInfo{
			Num: base.FileNum(f.Num), StoreID: storeID, Size: f.Size, Checksum: f.sum,
			Table: base.FileNum(f.table), TableChecksum: f.tableSum,
		}).Check()
	}
	// Later: no byte is read that is not asked for, and so the tail has no more than these.
	r, err := sstable.Open(src, sstable.ReaderOptions{Num: base.FileNum(f.Num), StoreID: storeID, Size: f.Size, Checksum: f.sum, Later: true})
	if err != nil {
		return err
	}
	defer r.Retire()
	if err := r.LoadIndex(); err != nil {
		return err
	}
	_, err = r.LoadFilter(false)
	return err
}

// Damaged turns an error about the file, which names it as the store does, into one that names the
// object. Other errors are returned unchanged.
func (f File) Damaged(err error) error {
	var c *base.CorruptionError
	if errors.As(err, &c) {
		return base.Corruption(f.Name(), c.Offset, c.Part, c.Err)
	}
	return err
}

// ErrNoObject is the cause of the damage when an object is not there. It is not fs.ErrNotExist: that
// would say that there is no store.
var ErrNoObject = errors.New("there is no such object")

// read fills p with the bytes of the file from offset off, or with the last ones if off is negative,
// by one GET. The bytes are not checked. An object that is missing or too short is a
// *base.CorruptionError.
func (f File) read(ctx context.Context, b bucket.Bucket, p []byte, off int64) error {
	n, err := b.ReadAt(ctx, f.Name(), p, off)
	switch {
	case n == len(p) && (err == nil || err == io.EOF):
		return nil
	case errors.Is(err, fs.ErrNotExist):
		return base.Corruption(f.Name(), -1, "object named by a step", ErrNoObject)
	case err == nil || err == io.EOF:
		return base.Corruption(f.Name(), max(off, 0)+int64(n), "object named by a step", fmt.Errorf("it ends here, a step says that it has %d bytes", f.Size))
	}
	return err
}

// TableFooter is the length of the footer of a table in bytes (docs/FORMAT.md, section 4).
const TableFooter = 108

// FileSum returns the crc32c of the file. The manifest has that of all bytes of a table before the
// footer, since they were written. So damage on the local disk is noticed by the bucket, and the
// table need not be read twice.
func (f File) FileSum(ctx context.Context, src io.ReaderAt) (uint32, error) {
	switch {
	case f.Kind == object.KindFilter:
		return bucket.SumOf(ctx, src, nil, 0, 0, f.Size)
	case f.Size < TableFooter:
		return 0, fmt.Errorf("table of %d bytes", f.Size)
	}
	return bucket.SumOf(ctx, src, nil, f.sum, f.Size-TableFooter, f.Size)
}
