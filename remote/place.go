package remote

import "fmt"

// A place is where a segment stands or may stand: an offset of a log, in bytes.
//
// All segments of a store form one list (docs/REMOTE.md, section 4). The list's end is a place
// that is known from what is in the bucket, and the only one where a writer may append. Of all who try
// to append there one succeeds, which is how a writer is fenced.
type place struct {
	log uint64
	off int64
}

// rootPlace is where the list of segments begins. Part of the format.
var rootPlace = place{log: 1 << EpochShift}

// anchorPlace returns the first place of the writer of an epoch. Fences lead there.
func anchorPlace(epoch uint64) place { return place{log: epoch << EpochShift} }

// epoch returns the epoch of the writer that the place belongs to.
func (p place) epoch() uint64 { return p.log >> EpochShift }

// before reports whether p comes before q in the list of segments.
func (p place) before(q place) bool { return p.log < q.log || p.log == q.log && p.off < q.off }

// String returns the name of the segment.
func (p place) String() string { return SegmentName(p.log, p.off) }

// afterSegment returns the place where the list goes on behind s.
func afterSegment(s *Segment) place { return behindSegment(s, int64(len(s.Body))) }

// behindSegment is after for a segment whose body, of length bytes, was not read.
func behindSegment(s *Segment, length int64) place {
	if s.Kind == SegmentData {
		return place{s.Log, s.Offset + length}
	}
	return place{log: s.Next}
}

// logFolder returns the prefix of the names of all segments of a log.
func logFolder(log uint64) string { return fmt.Sprintf("%s%016x/", segmentFolder, log) }

// justBefore returns a string that is less than the name of the segment at p, and not less than that of
// any before it.
func justBefore(p place) string {
	if p.off == 0 {
		return logFolder(p.log)
	}
	return SegmentName(p.log, p.off-1)
}
