package remote

import (
	"bytes"
	"context"
	"fmt"
	"hash/crc32"
	"io"
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
