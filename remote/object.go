package remote

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// Checksum returns the crc32c of b: CRC-32 with the Castagnoli polynomial.
func Checksum(b []byte) uint32 { return crc32.Checksum(b, castagnoli) }

// PutObject makes an object of the bytes of data, with their checksum. absent and the error are
// those of Bucket.Put.
func PutObject(ctx context.Context, b Bucket, name string, data []byte, absent bool) error {
	return b.Put(ctx, name, bytes.NewReader(data), int64(len(data)), Checksum(data), absent)
}

// ReadObject returns all bytes of an object, and checks them against the checksum that Put was
// given: if they differ, the error wraps ErrChecksum. It refuses an object of more than most bytes.
// If there is no such object, the error wraps fs.ErrNotExist. The result belongs to the caller.
func ReadObject(ctx context.Context, b Bucket, name string, most int64) ([]byte, error) {
	info, err := b.Stat(ctx, name)
	if err != nil {
		return nil, err
	}
	if info.Size < 0 || info.Size > most {
		return nil, callError("read", name, fmt.Errorf("it has %d bytes, at most %d are expected", info.Size, most))
	}
	data := make([]byte, info.Size)
	if len(data) == 0 {
		return data, nil
	}
	n, err := b.ReadAt(ctx, name, data, 0)
	if err == io.EOF {
		err = callError("read", name, fmt.Errorf("it ends after %d of %d bytes: %w", n, len(data), io.ErrUnexpectedEOF))
	}
	if err != nil {
		return nil, err
	}
	if sum := Checksum(data); sum != info.CRC32C {
		return nil, callError("read", name, fmt.Errorf("%w: crc32c %08x, it was written with %08x", ErrChecksum, sum, info.CRC32C))
	}
	return data, nil
}

// chunk is how many bytes of a file or a body are in memory at a time.
const chunk = 256 << 10

// sumOf returns the crc32c of the first to bytes of src, if sum is that of the first from bytes. It writes those that it
// reads to dst, if that is not nil.
func sumOf(ctx context.Context, src io.ReaderAt, dst io.Writer, sum uint32, from, to int64) (uint32, error) {
	buf := make([]byte, max(0, min(to-from, chunk)))
	for from < to {
		if err := ctx.Err(); err != nil {
			return 0, err
		}
		buf = buf[:min(int64(len(buf)), to-from)]
		n, err := src.ReadAt(buf, from)
		if n < len(buf) {
			return 0, early(err)
		}
		if dst != nil {
			if _, err := dst.Write(buf); err != nil {
				return 0, err
			}
		}
		sum = crc32.Update(sum, castagnoli, buf)
		from += int64(n)
	}
	return sum, nil
}

// early returns the error of a read that has given less than must be there: if that was the end, it
// is not one that a caller may take for the end of an object.
func early(err error) error {
	if err == nil || err == io.EOF {
		return io.ErrUnexpectedEOF
	}
	return err
}

// ignoreAbsence returns err, but nil if it says that an object is not there.
func ignoreAbsence(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}
