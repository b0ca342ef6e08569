package bucket

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
)

// Whole objects and their checksums, for every implementation and every caller of a bucket.

// Castagnoli is the polynomial of all checksums of the formats. Servers that speak S3 check the
// same one (x-amz-checksum-crc32c), so it goes with the bytes from the local file to the bucket's
// disk.
var Castagnoli = crc32.MakeTable(crc32.Castagnoli)

// Checksum returns the crc32c of b: CRC-32 with the Castagnoli polynomial.
func Checksum(b []byte) uint32 { return crc32.Checksum(b, Castagnoli) }

// PutObject makes an object of the bytes of data: see remote.PutObject.
func PutObject(ctx context.Context, b Bucket, name string, data []byte, absent bool) error {
	return b.Put(ctx, name, bytes.NewReader(data), int64(len(data)), Checksum(data), absent)
}

// ReadObject returns all bytes of an object, whose checksum it checks: see remote.ReadObject.
func ReadObject(ctx context.Context, b Bucket, name string, most int64) ([]byte, error) {
	info, err := b.Stat(ctx, name)
	if err != nil {
		return nil, err
	}
	if info.Size < 0 || info.Size > most {
		return nil, CallError("read", name, fmt.Errorf("it has %d bytes, at most %d are expected", info.Size, most))
	}
	data := make([]byte, info.Size)
	if len(data) == 0 {
		return data, nil
	}
	// Stat and ReadAt may see two objects if somebody replaces it in between. Then length or
	// checksum do not fit, which is an error and not a mixture.
	n, err := b.ReadAt(ctx, name, data, 0)
	if err == io.EOF {
		err = CallError("read", name, fmt.Errorf("it ends after %d of %d bytes: %w", n, len(data), io.ErrUnexpectedEOF))
	}
	if err != nil {
		return nil, err
	}
	if sum := Checksum(data); sum != info.CRC32C {
		return nil, CallError("read", name, fmt.Errorf("%w: crc32c %08x, it was written with %08x", ErrChecksum, sum, info.CRC32C))
	}
	return data, nil
}

// Chunk is how many bytes of a file or a body are in memory at a time.
const Chunk = 256 << 10

// SumOf returns the crc32c of the first to bytes of src, if sum is that of the first from bytes. It writes those that it
// reads to dst, if that is not nil.
func SumOf(ctx context.Context, src io.ReaderAt, dst io.Writer, sum uint32, from, to int64) (uint32, error) {
	buf := make([]byte, max(0, min(to-from, Chunk)))
	for from < to {
		if err := ctx.Err(); err != nil {
			return 0, err
		}
		buf = buf[:min(int64(len(buf)), to-from)]
		n, err := src.ReadAt(buf, from)
		if n < len(buf) {
			return 0, EndedEarly(err)
		}
		if dst != nil {
			if _, err := dst.Write(buf); err != nil {
				return 0, err
			}
		}
		sum = crc32.Update(sum, Castagnoli, buf)
		from += int64(n)
	}
	return sum, nil
}

// EndedEarly returns the error of a read that has given less than must be there: if that was the end, it
// is not one that a caller may take for the end of an object.
func EndedEarly(err error) error {
	if err == nil || err == io.EOF {
		return io.ErrUnexpectedEOF
	}
	return err
}

// NoEnd returns the error of a read of an object so that nobody takes it for the end of a file, which would be damage: the error of
// an answer that was cut off wraps io.ErrUnexpectedEOF.
func NoEnd(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return noEnd{err}
	}
	return err
}

// A noEnd is an error that wraps all that another one does, but the end of a file.
type noEnd struct{ error }

func (e noEnd) Is(target error) bool {
	return target != io.EOF && target != io.ErrUnexpectedEOF && errors.Is(e.error, target)
}

func (e noEnd) As(target any) bool { return errors.As(e.error, target) }

// IgnoreAbsence returns err, but nil if it says that an object is not there.
func IgnoreAbsence(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}
