package object

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"time"

	"github.com/shaledb/shale/internal/base"
	"github.com/shaledb/shale/internal/fields"
	"github.com/shaledb/shale/remote/internal/bucket"
)

// The bytes of a segment. Its header says all that a reader needs to find the next segment, so a
// list can be followed without the bodies.

// A Segment is a stretch of a write-ahead log. The first segment of a log begins at offset 0, with
// the header of the log, and each other one where the one before it ends.
type Segment struct {
	StoreID uint64
	Log     uint64 // the number of the log
	Offset  int64  // where the stretch begins in the log, in bytes
	// FirstSeq and LastSeq are the first and the last sequence number that the body gives out. If it
	// gives out none, LastSeq is the last one before it, and FirstSeq is one more. A fence has 0 and 0.
	FirstSeq, LastSeq uint64
	Written           time.Time // to the millisecond
	// Next is the log with whose offset 0 the list of segments goes on after a seal or a fence. Data has
	// 0: the next segment begins at End.
	Next uint64
	Kind SegmentKind
	// Body has the log's bytes, unchanged. It ends where a record ends. A seal may have none.
	Body []byte
}

// A SegmentKind says what a segment means for its log.
type SegmentKind uint8

// The kinds of segments. Part of the format; they never change.
const (
	SegmentData  SegmentKind = 0 // the log goes on
	SegmentSeal  SegmentKind = 1 // the log ends here: with its seal record, or, if another log took its place without one, with what is there
	SegmentFence SegmentKind = 2 // another writer has taken the store over: the log ends here; no body
)

const (
	// SegmentHeader is the length of the header, in bytes. Part of the format.
	// It is the head of 24, seven numbers of 8 bytes, the kind with 3 zeros, and two checksums.
	SegmentHeader = 92
	// kindOffset is where the kind stands in the header. Part of the format.
	kindOffset = 80
	// BodySumOffset is where the checksum of the body stands in the header. Part of the format.
	BodySumOffset = 84
	// LogHeader is the length of the header of a log (docs/FORMAT.md, section 3).
	LogHeader = 4096
	// MaxBody is the longest body, in bytes. A record has one batch, of 512 MiB at most.
	MaxBody = 1 << 30
	// MaxLog is the largest offset at which a segment may end.
	MaxLog = 1 << 60
)

// Name returns the name of the object.
func (s *Segment) Name() string { return SegmentName(s.Log, s.Offset) }

// End returns the offset in the log at which the body ends, where the next segment begins.
func (s *Segment) End() int64 { return s.Offset + int64(len(s.Body)) }

// Encode appends the object to dst, which belongs to the caller:
//
//	head 24 · log · offset · length · first and last sequence number · Unix ms · next log (u64 each)
//	· kind u8 · zero 3 · crc32c of the body u32 · crc32c of bytes 0 to 87 u32 · body
func (s *Segment) Encode(dst []byte) ([]byte, error) {
	dst, _, err := EncodeSegmentHeader(s, dst)
	if err != nil {
		return dst, err
	}
	return append(dst, s.Body...), nil
}

// EncodeSegmentHeader appends the header of the object to dst. sum is the checksum of the whole object.
func EncodeSegmentHeader(s *Segment, dst []byte) (header []byte, sum uint32, err error) {
	if err := s.check(int64(len(s.Body))); err != nil {
		return dst, 0, EncodeError(s.Name(), err)
	}
	start, body := len(dst), bucket.Checksum(s.Body)
	dst = AppendHead(dst, segmentMagic, s.StoreID,
		s.Log, uint64(s.Offset), uint64(len(s.Body)), s.FirstSeq, s.LastSeq, uint64(s.Written.UnixMilli()), s.Next)
	dst = append(dst, byte(s.Kind), 0, 0, 0)
	dst = binary.LittleEndian.AppendUint32(dst, body)
	dst = AppendSum(dst, start)
	return dst, crc32.Update(bucket.Checksum(dst[start:]), bucket.Castagnoli, s.Body), nil
}

// DecodeSegment decodes the object with the given name, which must be a segment of the store. The
// body of the result is a part of src. The records in it are not checked here. An error
// wraps a *shale.CorruptionError or shale.ErrFormatTooNew.
func DecodeSegment(name string, storeID uint64, src []byte) (*Segment, error) {
	s, length, err := DecodeSegmentHeader(src)
	if err == nil {
		err = CheckWhere(s, s.StoreID, name, storeID)
	}
	if err == nil {
		if s.Body = src[SegmentHeader:]; length != int64(len(s.Body)) {
			err = fmt.Errorf("a body of %d bytes, the header says %d", len(s.Body), length)
		} else if err = CheckStored(s.Body, src[BodySumOffset:]); err != nil {
			err = fmt.Errorf("body: %w", err)
		}
	}
	if err != nil {
		return nil, Damage(name, "segment", err)
	}
	return s, nil
}

// DecodeSegmentHeader decodes and checks the header that src begins with. The segment has no body;
// length is the number of bytes that it has.
func DecodeSegmentHeader(src []byte) (s *Segment, length int64, err error) {
	id, err := CheckHead(src, segmentMagic, SegmentHeader)
	if err != nil {
		return nil, 0, err
	}
	if err := CheckStored(src[:SegmentHeader-SumSize], src[SegmentHeader-SumSize:]); err != nil {
		return nil, 0, fmt.Errorf("header: %w", err)
	}
	d := fields.Decoder{Src: src[HeadSize:SegmentHeader]}
	s = &Segment{StoreID: id, Log: d.Uint64(), Offset: d.Signed(d.Uint64())}
	length = d.Signed(d.Uint64())
	s.FirstSeq, s.LastSeq, s.Written, s.Next = d.Uint64(), d.Uint64(), timeOf(&d, d.Uint64()), d.Uint64()
	s.Kind = SegmentKind(src[kindOffset])
	zeros := src[kindOffset+1 : BodySumOffset]
	switch {
	case d.Err != nil:
		return nil, 0, d.Err
	case zeros[0]|zeros[1]|zeros[2] != 0:
		return nil, 0, fmt.Errorf("bytes 81 to 83 are %x, want zeros", zeros)
	}
	return s, length, s.check(length)
}

// check returns an error if s can't be true with a body of length bytes.
func (s *Segment) check(length int64) error {
	if err := errors.Join(checkNum("log", s.Log), checkTime(s.Written), CheckSeq(s.LastSeq)); err != nil {
		return err
	}
	switch {
	case s.Offset < 0 || s.Offset > 0 && s.Offset < LogHeader:
		return fmt.Errorf("it begins at offset %d, within the header of the log", s.Offset)
	case length > MaxBody || s.Offset > MaxLog-length:
		return fmt.Errorf("%d bytes at offset %d of a log are too many", length, s.Offset)
	case s.Kind > SegmentFence:
		return fmt.Errorf("kind %d: %w", s.Kind, base.ErrFormatTooNew)
	case s.Kind == SegmentData && s.Next != 0:
		return fmt.Errorf("data is followed by log %d, not by more of its own", s.Next)
	case s.Kind != SegmentData && (s.Next <= s.Log || s.Next > MaxNum):
		return fmt.Errorf("log %d is followed by log %d", s.Log, s.Next)
	case s.Kind == SegmentFence && (length > 0 || s.FirstSeq != 0 || s.LastSeq != 0):
		return fmt.Errorf("a fence with %d bytes and sequence numbers %d to %d", length, s.FirstSeq, s.LastSeq)
	case s.Kind == SegmentFence:
		return nil
	case s.Kind == SegmentData && length == 0 || s.Offset == 0 && length > 0 && length < LogHeader:
		return fmt.Errorf("%d bytes at offset %d are no record", length, s.Offset)
	case s.FirstSeq == 0 || s.FirstSeq > s.LastSeq+1 || length == 0 && s.FirstSeq != s.LastSeq+1:
		return fmt.Errorf("sequence numbers %d to %d", s.FirstSeq, s.LastSeq)
	}
	return nil
}
