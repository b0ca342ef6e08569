package form

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"math"
)

// A serialized filter ends with its trailer, so a reader has to know its length before it can
// read it. In a stream, where something else may follow, a frame of 24 bytes stands in front:
//
//	 0       8       12     20     24
//	|shaleFRM|version|length|crc32c|serialized filter
//
// length is that of the serialized filter. The checksum covers the 20 bytes in front of it, so
// that a damaged length does not make a reader take bytes of what follows.

// FrameLen is the length of a frame. Part of the format, never changes.
const (
	FrameLen     = 24
	frameMagic   = "shaleFRM"
	frameVersion = 1
)

// putFrame writes the frame of a serialized filter of n bytes into b.
func putFrame(b []byte, n uint64) {
	copy(b, frameMagic)
	binary.LittleEndian.PutUint32(b[8:], frameVersion)
	binary.LittleEndian.PutUint64(b[12:], n)
	binary.LittleEndian.PutUint32(b[20:], crc32.Checksum(b[:20], Castagnoli))
}

// lengthIn returns the length that a frame holds. It checks the magic first, then the
// version, then the checksum.
func lengthIn(b []byte) (uint64, error) {
	switch n := binary.LittleEndian.Uint64(b[12:]); {
	case string(b[:8]) != frameMagic:
		return 0, fmt.Errorf("%w: it does not begin with %q; bytes of MarshalBinary have no frame, and are read by UnmarshalBinary",
			ErrUnknown, frameMagic)
	case binary.LittleEndian.Uint32(b[8:]) != frameVersion:
		return 0, fmt.Errorf("%w: version %d of the frame", ErrUnknown, binary.LittleEndian.Uint32(b[8:]))
	case binary.LittleEndian.Uint32(b[20:]) != crc32.Checksum(b[:20], Castagnoli):
		return 0, fmt.Errorf("%w: the checksum of the frame is wrong", ErrDamaged)
	case n > math.MaxInt:
		return 0, fmt.Errorf("%w: %d bytes are more than this machine can address", ErrDamaged, n)
	default:
		return n, nil
	}
}

// WriteFrame writes the frame of a serialized filter of n bytes to w.
func WriteFrame(w io.Writer, n int) (int64, error) {
	var b [FrameLen]byte
	putFrame(b[:], uint64(n))
	wrote, err := w.Write(b[:])
	if err != nil {
		return int64(wrote), fmt.Errorf("bloom: write filter: %w", err)
	}
	return int64(wrote), nil
}

// WriteTo writes a frame and the bytes that appendBinary appends to w. It holds them in memory,
// and makes one write.
func WriteTo(w io.Writer, appendBinary func(dst []byte) ([]byte, error)) (int64, error) {
	b, err := appendBinary(make([]byte, FrameLen))
	if err != nil {
		return 0, err
	}
	putFrame(b, uint64(len(b)-FrameLen))
	n, err := w.Write(b)
	if err != nil {
		return int64(n), fmt.Errorf("bloom: write filter: %w", err)
	}
	return int64(n), nil
}

// ReadFrom reads a frame and the serialized filter behind it from r, and not a byte more. It
// calls unmarshal with the filter, and returns how many bytes it has read.
//
// The memory that it takes grows with the bytes that arrive, whatever length the frame
// promises. The error is io.EOF if r has ended, and io.ErrUnexpectedEOF if it ends inside.
func ReadFrom(r io.Reader, unmarshal func(b []byte) error) (n int64, err error) {
	var frame [FrameLen]byte
	got, err := io.ReadFull(r, frame[:])
	if n = int64(got); err != nil {
		return n, fmt.Errorf("bloom: read filter: %w", err)
	}
	length, err := lengthIn(frame[:])
	if err != nil {
		return n, fmt.Errorf("bloom: read filter: %w", err)
	}
	var body bytes.Buffer
	read, err := io.CopyN(&body, r, int64(length))
	n += read
	if errors.Is(err, io.EOF) {
		err = io.ErrUnexpectedEOF
	}
	if err != nil {
		return n, fmt.Errorf("bloom: read filter: %d bytes of %d: %w", read, length, err)
	}
	return n, unmarshal(body.Bytes())
}
