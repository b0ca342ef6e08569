package tablefs

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/shaledb/shale/internal/fields"
	"github.com/shaledb/shale/remote/internal/bucket"
	"github.com/shaledb/shale/remote/internal/object"
)

// The file of a tail. Its checksums are of chunks, so that a read of a few bytes checks 16 KiB and
// not the whole tail.

// The tail of a table is everything behind its data blocks: the filter, the index, the properties and the
// footer. A reader keeps it in a local file of its own, which begins with a header:
//
//	head 24 · number · size of the object · offset of the tail (u64 each) · checksum that the manifest states u32
//	· kind u32 (2 table, 3 sidecar) · crc32c of each chunk of 16 KiB, u32 each · crc32c of everything before u32
//
// and goes on with the bytes of the tail. The file is a copy, never synced. It is not part of the format
// of the bucket: a header that does not check makes it worthless, and the tail is fetched again.
const (
	tailMagic = "shaleTAL"
	tailChunk = 16 << 10
	tailFixed = object.HeadSize + 3*8 + 2*4 // up to the checksums of the chunks
)

// A tailHeader says which tail a file has.
type tailHeader struct {
	fileID
	storeID uint64
	size    int64    // of the object
	at      int64    // offset in the object at which the tail begins
	sums    []uint32 // of the chunks
}

// chunks returns the number of chunks of a tail.
// Their checksums take 4 bytes each, a 4,096th of the tail.
func chunks(length int64) int64 { return (length + tailChunk - 1) / tailChunk }

// tailHeaderSize returns the length of the header of a tail, in bytes.
func tailHeaderSize(length int64) int64 { return tailFixed + 4*chunks(length) + object.SumSize }

// appendTail appends a whole file.
func appendTail(dst []byte, storeID uint64, f File, at int64, tail []byte) []byte {
	start := len(dst)
	dst = object.AppendHead(dst, tailMagic, storeID, f.Num, uint64(f.Size), uint64(at))
	dst = binary.LittleEndian.AppendUint32(dst, f.sum)
	dst = binary.LittleEndian.AppendUint32(dst, uint32(f.Kind))
	for _, sum := range chunkSums(tail) {
		dst = binary.LittleEndian.AppendUint32(dst, sum)
	}
	return append(object.AppendSum(dst, start), tail...)
}

// chunkSums returns the checksum of each chunk of a tail.
func chunkSums(tail []byte) []uint32 {
	sums := make([]uint32, 0, chunks(int64(len(tail))))
	for len(tail) > 0 {
		n := min(len(tail), tailChunk)
		sums = append(sums, bucket.Checksum(tail[:n]))
		tail = tail[n:]
	}
	return sums
}

// decodeTailHeader decodes and checks the header at the beginning of src. It keeps no part of src, and
// allocates no more than src has.
func decodeTailHeader(src []byte) (*tailHeader, error) {
	storeID, err := object.CheckHead(src, tailMagic, tailFixed+object.SumSize)
	if err != nil {
		return nil, err
	}
	d := fields.Decoder{Src: src[object.HeadSize:]}
	h := &tailHeader{storeID: storeID}
	h.Num, h.size, h.at = d.Uint64(), d.Signed(d.Uint64()), d.Signed(d.Uint64())
	h.sum, h.Kind = d.Uint32(), object.Kind(d.Uint32())
	switch {
	case d.Err != nil:
		return nil, d.Err
	case h.Kind != object.KindTable && h.Kind != object.KindFilter:
		return nil, fmt.Errorf("a tail of kind %d", h.Kind)
	case h.size <= 0 || h.at < 0 || h.at >= h.size:
		return nil, fmt.Errorf("a tail from %d of %d bytes", h.at, h.size)
	case chunks(h.size-h.at) > int64(len(d.Src)-object.SumSize)/4:
		return nil, errors.New("it ends within the header")
	}
	for range chunks(h.size - h.at) {
		h.sums = append(h.sums, d.Uint32())
	}
	return h, object.CheckStored(src[:len(src)-len(d.Src)], d.Src)
}
