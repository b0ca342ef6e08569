package buckets

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"

	"github.com/shaledb/shale/internal/base"
	"github.com/shaledb/shale/remote/internal/bucket"
	"github.com/shaledb/shale/vfs"
)

// The file of an object in a directory: the bytes, and a trailer that says whether they are all
// there.

// A file of a bucket in a directory has the bytes of the object and then a trailer:
//
// crc32c of the object u32 · crc32c of (the field before, size of the object u64) u32
//
// The second one finds a file that was cut, or that this package has not written. It is part of the
// format of the directory and never changes.
const trailerSize = 8

// appendTrailer appends the trailer of an object.
func appendTrailer(dst []byte, sum uint32, size int64) []byte {
	dst = binary.LittleEndian.AppendUint32(dst, sum)
	return binary.LittleEndian.AppendUint32(dst, trailerSum(sum, size))
}

// trailerSum returns the second field of a trailer.
func trailerSum(sum uint32, size int64) uint32 {
	var b [12]byte
	binary.LittleEndian.PutUint32(b[:], sum)
	binary.LittleEndian.PutUint64(b[4:], uint64(size))
	return crc32.Checksum(b[:], bucket.Castagnoli)
}

// write makes the file temp of the body and its trailer, and syncs it. Its name is not durable.
func (b *dirBucket) write(ctx context.Context, temp string, body io.ReaderAt, size int64, crc32c uint32) error {
	if size < 0 {
		return fmt.Errorf("size %d", size)
	}
	f, err := b.fs.Create(temp)
	if err != nil {
		return err
	}
	// The bytes are summed as they are written, so a body that has changed since its caller summed
	// it is found here.
	sum, err := bucket.SumOf(ctx, body, f, 0, 0, size)
	if err != nil {
		err = fmt.Errorf("copy the body: %w", err)
	} else {
		err = CheckSum(sum, crc32c)
	}
	if err == nil {
		_, err = f.Write(appendTrailer(nil, sum, size))
	}
	if err == nil {
		err = f.Sync()
	}
	return errors.Join(err, f.Close())
}

// CheckSum returns an error that wraps ErrChecksum if a body has another checksum than stated.
func CheckSum(sum, stated uint32) error {
	if sum != stated {
		return fmt.Errorf("%w: the body has crc32c %08x, %08x was stated", bucket.ErrChecksum, sum, stated)
	}
	return nil
}

// An openObject is an object whose file is open. The caller of dirBucket.open closes the file.
// The file stays the same object even if another one takes its name meanwhile: a rename replaces
// the name and not the file.
type openObject struct {
	file vfs.File
	size int64 // without the trailer
	sum  uint32
}

// open opens the file of an object and checks its trailer. The bytes before the trailer are not read: the checksums of blocks
// and records find what is wrong with them.
func (b *dirBucket) open(ctx context.Context, name string) (openObject, error) {
	if err := bucket.CheckCall(ctx, name); err != nil {
		return openObject{}, err
	}
	path := b.path(name)
	// A directory can be opened too, on most systems.
	if info, err := b.fs.Stat(path); err != nil || info.IsDir {
		if err == nil {
			err = fs.ErrNotExist
		}
		return openObject{}, err
	}
	f, err := b.fs.Open(path)
	if err != nil {
		return openObject{}, err
	}
	o := openObject{file: f}
	if err := o.readTrailer(name); err != nil {
		return openObject{}, errors.Join(err, f.Close())
	}
	return o, nil
}

// readTrailer sets size and sum.
func (o *openObject) readTrailer(name string) error {
	length, err := o.file.Size()
	if err != nil {
		return err
	}
	o.size = length - trailerSize
	if o.size < 0 {
		return base.Corruption(name, -1, "object in a directory", fmt.Errorf("its file has %d bytes, it must have %d at least", length, trailerSize))
	}
	var trailer [trailerSize]byte
	if n, err := o.file.ReadAt(trailer[:], o.size); n < trailerSize {
		return fmt.Errorf("read its trailer: %w", bucket.EndedEarly(err))
	}
	o.sum = binary.LittleEndian.Uint32(trailer[:])
	if trailerSum(o.sum, o.size) != binary.LittleEndian.Uint32(trailer[4:]) {
		return base.Corruption(name, o.size, "trailer of an object in a directory",
			errors.New("checksum mismatch: the file was cut, or another program has written it"))
	}
	return nil
}
