package object

import "fmt"

// A Position is where a segment stands or may stand: an offset of a log, in bytes.
//
// All segments of a store form one list (docs/REMOTE.md, section 4). Its end follows from what is in the
// bucket, and is the only position where a writer may append. Of all writers that try to append there
// one succeeds, which is how the others are fenced.
type Position struct {
	Log    uint64
	Offset int64
}

// RootPosition is where the list of segments begins. Part of the format.
var RootPosition = Position{Log: 1 << EpochShift}

// AnchorOf returns the first position of the writer of an epoch. Fences lead there.
func AnchorOf(epoch uint64) Position { return Position{Log: epoch << EpochShift} }

// Epoch returns the epoch of the writer that the position belongs to.
func (p Position) Epoch() uint64 { return p.Log >> EpochShift }

// Before reports whether p comes before q in the list of segments.
func (p Position) Before(q Position) bool {
	return p.Log < q.Log || p.Log == q.Log && p.Offset < q.Offset
}

// String returns the name of the segment.
func (p Position) String() string { return SegmentName(p.Log, p.Offset) }

// AfterSegment returns the position where the list goes on behind s.
func AfterSegment(s *Segment) Position { return BehindSegment(s, int64(len(s.Body))) }

// BehindSegment is AfterSegment for a segment whose body, of length bytes, was not read.
func BehindSegment(s *Segment, length int64) Position {
	if s.Kind == SegmentData {
		return Position{s.Log, s.Offset + length}
	}
	return Position{Log: s.Next}
}

// LogFolder returns the prefix of the names of all segments of a log.
func LogFolder(log uint64) string { return fmt.Sprintf("%s%016x/", SegmentFolder, log) }

// JustBefore returns a string that is less than the name of the segment at p, and not less than that of
// any before it.
// A list of what follows this string begins with the segment at p, if there is one.
func JustBefore(p Position) string {
	if p.Offset == 0 {
		return LogFolder(p.Log)
	}
	return SegmentName(p.Log, p.Offset-1)
}
