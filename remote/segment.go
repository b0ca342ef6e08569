package remote

import (
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"github.com/shaledb/shale/internal/base"
)

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
	Kind              SegmentKind
	// Body has the log's bytes, unchanged. It ends where a record ends.
	Body []byte
}

// A SegmentKind says what a segment means for its log.
type SegmentKind uint8

// The kinds of segments. Part of the format; they never change.
const (
	SegmentData  SegmentKind = 0 // another segment may follow
	SegmentSeal  SegmentKind = 1 // the log is complete: the body ends with its seal record
	SegmentFence SegmentKind = 2 // another writer has taken the store over: nothing may follow; no body
)

const (
	// segmentHeader is the length of the header, in bytes. Part of the format.
	segmentHeader = 84
	// logHeader is the length of the header of a log (docs/FORMAT.md, section 3).
	logHeader = 4096
	// maxBody is the longest body, in bytes. A record has one batch, of 512 MiB at most.
	maxBody = 1 << 30
	// maxLog is the largest offset at which a segment may end.
	maxLog = 1 << 60
)

// Name returns the name of the object.
func (s *Segment) Name() string { return SegmentName(s.Log, s.Offset) }

// End returns the offset in the log at which the body ends, where the next segment begins.
func (s *Segment) End() int64 { return s.Offset + int64(len(s.Body)) }

// Encode appends the object to dst, which belongs to the caller:
//
//	head 24 · log · offset · length · first and last sequence number · Unix ms (u64 each)
//	· kind u8 · zero 3 · crc32c of the body u32 · crc32c of bytes 0 to 79 u32 · body
func (s *Segment) Encode(dst []byte) ([]byte, error) {
	if err := s.check(); err != nil {
		return dst, encodeError(s.Name(), err)
	}
	start := len(dst)
	dst = appendHead(dst, segmentMagic, s.StoreID)
	for _, v := range []uint64{s.Log, uint64(s.Offset), uint64(len(s.Body)), s.FirstSeq, s.LastSeq, uint64(s.Written.UnixMilli())} {
		dst = binary.LittleEndian.AppendUint64(dst, v)
	}
	dst = append(dst, byte(s.Kind), 0, 0, 0)
	dst = binary.LittleEndian.AppendUint32(dst, Checksum(s.Body))
	dst = appendSum(dst, start)
	return append(dst, s.Body...), nil
}

// DecodeSegment decodes the object with the given name, which must be a segment of the store. The
// body of the result is a part of src. The records in it are not checked here. An error
// wraps a *shale.CorruptionError or shale.ErrFormatTooNew.
func DecodeSegment(name string, storeID uint64, src []byte) (*Segment, error) {
	s, err := decodeSegment(src)
	if err == nil {
		err = checkStore(s.StoreID, storeID)
	}
	if err == nil {
		err = checkPlace(s.Name(), name)
	}
	if err != nil {
		return nil, damage(name, "segment", err)
	}
	return s, nil
}

// decodeSegment decodes and checks a segment of any store.
func decodeSegment(src []byte) (*Segment, error) {
	id, err := checkHead(src, segmentMagic, segmentHeader)
	if err != nil {
		return nil, err
	}
	if err := checkStored(src[:segmentHeader-sumSize], src[segmentHeader-sumSize:]); err != nil {
		return nil, fmt.Errorf("header: %w", err)
	}
	d := decoder{src: src[headSize:segmentHeader]}
	s := &Segment{StoreID: id, Log: d.uint64(), Offset: d.signed(d.uint64())}
	length := d.uint64()
	s.FirstSeq, s.LastSeq, s.Written = d.uint64(), d.uint64(), d.time(d.uint64())
	s.Kind, s.Body = SegmentKind(src[72]), src[segmentHeader:]
	switch {
	case d.err != nil:
		return nil, d.err
	case length != uint64(len(s.Body)):
		return nil, fmt.Errorf("a body of %d bytes, the header says %d", len(s.Body), length)
	case src[73]|src[74]|src[75] != 0:
		return nil, fmt.Errorf("bytes 73 to 75 are %x, want zeros", src[73:76])
	}
	if err := checkStored(s.Body, src[76:]); err != nil {
		return nil, fmt.Errorf("body: %w", err)
	}
	return s, s.check()
}

// check returns what is impossible about s, or nil.
func (s *Segment) check() error {
	if err := errors.Join(checkNum("log", s.Log), checkTime(s.Written), checkSeq(s.LastSeq)); err != nil {
		return err
	}
	switch {
	case s.Offset < 0 || s.Offset > 0 && s.Offset < logHeader:
		return fmt.Errorf("it begins at offset %d, within the header of the log", s.Offset)
	case len(s.Body) > maxBody || s.Offset > maxLog-int64(len(s.Body)):
		return fmt.Errorf("%d bytes at offset %d of a log are too many", len(s.Body), s.Offset)
	case s.Kind == SegmentFence:
		if len(s.Body) > 0 || s.FirstSeq != 0 || s.LastSeq != 0 {
			return fmt.Errorf("a fence with %d bytes and sequence numbers %d to %d", len(s.Body), s.FirstSeq, s.LastSeq)
		}
		return nil
	case s.Kind > SegmentFence:
		return fmt.Errorf("kind %d: %w", s.Kind, base.ErrFormatTooNew)
	case len(s.Body) == 0 || s.Offset == 0 && len(s.Body) < logHeader:
		return fmt.Errorf("%d bytes at offset %d are no record", len(s.Body), s.Offset)
	case s.FirstSeq == 0 || s.FirstSeq > s.LastSeq+1:
		return fmt.Errorf("sequence numbers %d to %d", s.FirstSeq, s.LastSeq)
	}
	return nil
}
