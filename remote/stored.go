package remote

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
	"github.com/shaledb/shale/sstable"
)

// A storedFile is a table or a sidecar that is in a bucket, as the manifest describes it.
type storedFile struct {
	fileID
	size   int64 // of the object, in bytes
	filter int64 // bytes of the filter in it
	// Of a sidecar: the table that it belongs to, with its checksum.
	table    uint64
	tableSum uint32
}

// A fileID names a storedFile in caches. A number alone is not enough: two copies of one store give
// the same numbers to different tables, and a cache may outlive the one and serve the other.
type fileID struct {
	kind Kind // KindTable or KindFilter
	num  uint64
	sum  uint32 // the checksum that the manifest states
}

// object returns which object it is, and name that object's name.
func (f fileID) object() Name { return Name{Kind: f.kind, Num: f.num} }
func (f fileID) name() string { return f.object().String() }

// file returns the name of the file in the directory of a store.
func (f fileID) file() string {
	if f.kind == KindFilter {
		return base.FilterName(base.FileNum(f.num))
	}
	return base.TableName(base.FileNum(f.num))
}

// tableFile describes the object of a table.
func tableFile(t *manifest.Table) storedFile {
	return storedFile{fileID: fileID{KindTable, uint64(t.Num), t.Checksum}, size: t.Size, filter: t.FilterBytes}
}

// sidecarFile describes the object of the sidecar of t. Requires: t has one.
func sidecarFile(t *manifest.Table) storedFile {
	s := t.Sidecar
	return storedFile{fileID: fileID{KindFilter, uint64(s.Num), s.Checksum}, size: s.Size, filter: s.FilterBytes,
		table: uint64(t.Num), tableSum: t.Checksum}
}

// filesOf yields the tables and sidecars of a version.
func filesOf(v *manifest.Version) iter.Seq[storedFile] {
	return func(yield func(storedFile) bool) {
		for t := range v.Tables() {
			for f := range filesOfTable(t) {
				if !yield(f) {
					return
				}
			}
		}
	}
}

// filesOfTable yields a table and its sidecar, if it has one.
func filesOfTable(t *manifest.Table) iter.Seq[storedFile] {
	return func(yield func(storedFile) bool) {
		if yield(tableFile(t)) && t.Sidecar != nil {
			yield(sidecarFile(t))
		}
	}
}

// numsOf returns the numbers of the tables and sidecars of a version.
func numsOf(v *manifest.Version) map[uint64]bool {
	nums := make(map[uint64]bool)
	for f := range filesOf(v) {
		nums[f.num] = true
	}
	return nums
}

// tailGuess returns how many bytes at the end of the object have all but its data blocks, if the table
// is an ordinary one. A sidecar has no data blocks.
func (f storedFile) tailGuess() int64 {
	if f.kind == KindFilter {
		return f.size
	}
	return min(f.size, f.filter+f.size/64+64<<10)
}

// check reads what src has of the file and returns what is wrong with it: of a sidecar all, of a table
// the footer, the properties, the filter and the index, except for partitions of the index.
func (f storedFile) check(src io.ReaderAt, storeID uint64) error {
	if f.kind == KindFilter {
		return sstable.NewSidecar(src, sstable.SidecarInfo{
			Num: base.FileNum(f.num), StoreID: storeID, Size: f.size, Checksum: f.sum,
			Table: base.FileNum(f.table), TableChecksum: f.tableSum,
		}).Check()
	}
	r, err := sstable.Open(src, sstable.ReaderOptions{Num: base.FileNum(f.num), StoreID: storeID, Size: f.size, Checksum: f.sum})
	if err != nil {
		return err
	}
	defer r.Retire()
	return r.FilterErr()
}

// damaged turns an error about the file, which names it as the store does, into one that names the
// object. Other errors are returned unchanged.
func (f storedFile) damaged(err error) error {
	var c *base.CorruptionError
	if errors.As(err, &c) {
		return base.Corruption(f.name(), c.Offset, c.Part, c.Err)
	}
	return err
}

// errNoObject is the cause of the damage when an object is not there. It is not fs.ErrNotExist: that
// would say that there is no store.
var errNoObject = errors.New("there is no such object")

// read fills p with the bytes of the file from offset off, or with the last ones if off is negative,
// by one GET. The bytes are not checked. An object that is missing or too short is a
// *base.CorruptionError.
func (f storedFile) read(ctx context.Context, b Bucket, p []byte, off int64) error {
	n, err := b.ReadAt(ctx, f.name(), p, off)
	switch {
	case n == len(p) && (err == nil || err == io.EOF):
		return nil
	case errors.Is(err, fs.ErrNotExist):
		return base.Corruption(f.name(), -1, "object named by a step", errNoObject)
	case err == nil || err == io.EOF:
		return base.Corruption(f.name(), max(off, 0)+int64(n), "object named by a step", fmt.Errorf("it ends here, a step says that it has %d bytes", f.size))
	}
	return err
}

// tableFooter is the length of the footer of a table in bytes (docs/FORMAT.md, section 4).
const tableFooter = 108

// fileSum returns the crc32c of the file. The manifest has that of all bytes of a table before the
// footer, since they were written. So damage on the local disk is noticed by the bucket, and the
// table need not be read twice.
func (f storedFile) fileSum(ctx context.Context, src io.ReaderAt) (uint32, error) {
	switch {
	case f.kind == KindFilter:
		return bucket.SumOf(ctx, src, nil, 0, 0, f.size)
	case f.size < tableFooter:
		return 0, fmt.Errorf("table of %d bytes", f.size)
	}
	return bucket.SumOf(ctx, src, nil, f.sum, f.size-tableFooter, f.size)
}
