package sstable

import (
	"errors"
	"fmt"
	"sync"

	"github.com/golang/snappy"
	"github.com/klauspost/compress/zstd"

	"github.com/shaledb/shale/internal/base"
)

// Compression says how a block of a table is compressed. The numbers are part of the file
// format and never change.
type Compression uint8

// The compressions. Snappy is the default of a store. This package has no default.
const (
	noCompression     Compression = 0
	snappyCompression Compression = 1
	zstdCompression   Compression = 2
)

// String returns the name.
func (c Compression) String() string {
	switch c {
	case noCompression:
		return "none"
	case snappyCompression:
		return "snappy"
	case zstdCompression:
		return "zstd"
	}
	return fmt.Sprintf("compression %d", uint8(c))
}

// A Codec compresses the blocks that a Writer writes. Each codec is a variable of its own, so
// that a program links the encoder of zstd, a quarter of a megabyte, only if it names
// ZstdCodec. A Reader decompresses all of them.
type Codec struct {
	id Compression
	// encode appends raw, compressed, to dst. ok is false if the result is so small that
	// readers would refuse it (maxRatio).
	encode func(dst, raw []byte) (compressed []byte, ok bool)
}

// The codecs. Do not change them.
var (
	// SnappyCodec is fast.
	SnappyCodec = Codec{id: snappyCompression, encode: encodeSnappy}
	// ZstdCodec makes smaller blocks and is slower.
	ZstdCodec = Codec{id: zstdCompression, encode: encodeZstd}
)

// String returns the codec's name, and "none" for nil.
func (c *Codec) String() string {
	if c == nil {
		return noCompression.String()
	}
	return c.id.String()
}

// The encoders and decoders of zstd are large. One is made when a block needs it and none is
// free. It works for one goroutine at a time, and is kept for the next block.
var (
	zstdEncoders = sync.Pool{New: func() any {
		e, err := zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1), zstd.WithEncoderCRC(false),
			zstd.WithWindowSize(128<<10), zstd.WithLowerEncoderMem(true))
		if err != nil {
			panic(fmt.Sprintf("sstable: zstd encoder: %v", err)) // our options, not data
		}
		return e
	}}
	zstdDecoders = sync.Pool{New: func() any {
		d, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true),
			zstd.WithDecodeAllCapLimit(true), zstd.WithDecoderMaxMemory(2*maxStored))
		if err != nil {
			panic(fmt.Sprintf("sstable: zstd decoder: %v", err)) // our options, not data
		}
		return d
	}}
)

// A compressor compresses the blocks of one writer. It belongs to one goroutine.
type compressor struct {
	codec *Codec // nil: none
	buf   []byte
}

// compress returns the payload to store. That is the compressed payload if it is at least an
// eighth smaller, else raw itself. If zstd shrinks a block more than maxRatio allows, it is
// compressed with snappy instead, which can't. The result is valid until the next call.
func (c *compressor) compress(raw []byte) ([]byte, Compression) {
	if c.codec == nil {
		return raw, noCompression
	}
	id, ok := c.codec.id, false
	if c.buf, ok = c.codec.encode(c.buf[:0], raw); !ok {
		c.buf, _ = encodeSnappy(c.buf[:0], raw)
		id = snappyCompression
	}
	if len(c.buf) > worthStoring(len(raw)) {
		return raw, noCompression
	}
	return c.buf, id
}

// encodeZstd compresses with zstd. ok is false if the result is smaller than maxRatio allows.
func encodeZstd(dst, raw []byte) ([]byte, bool) {
	e := zstdEncoders.Get().(*zstd.Encoder)
	defer zstdEncoders.Put(e)
	dst = e.EncodeAll(raw, dst)
	return dst, len(dst) >= (len(raw)+maxRatio-1)/maxRatio
}

// encodeSnappy compresses with snappy. The result is never smaller than a 22nd of raw, so it
// is always within maxRatio.
func encodeSnappy(dst, raw []byte) ([]byte, bool) { return snappy.Encode(dst[:cap(dst)], raw), true }

// worthStoring returns the largest compressed size for which a block of n bytes is stored
// compressed.
func worthStoring(n int) int { return n - n/8 }

var errDecompressed = errors.New("block does not decompress")

// decompress fills dst from a stored payload. The length of dst is the one that the index
// states. It never writes or allocates more than that, and fails if the payload has another
// length.
func decompress(dst, stored []byte, c Compression) error {
	switch c {
	case snappyCompression:
		if n, err := snappy.DecodedLen(stored); err != nil || n != len(dst) {
			return errRawLength
		}
		if _, err := snappy.Decode(dst, stored); err != nil {
			return errDecompressed
		}
		return nil
	case zstdCompression:
		d := zstdDecoders.Get().(*zstd.Decoder)
		out, err := d.DecodeAll(stored, dst[:0:len(dst)])
		zstdDecoders.Put(d)
		if err != nil {
			return errDecompressed
		}
		// Another array than dst means that the decoder had to allocate: the payload is
		// longer than the index states.
		if len(out) != len(dst) || len(out) > 0 && &out[0] != &dst[0] {
			return errRawLength
		}
		return nil
	}
	return fmt.Errorf("%w (%v)", base.ErrFormatTooNew, c)
}
