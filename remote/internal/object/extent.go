package object

import (
	"errors"
	"fmt"

	"github.com/shaledb/shale/internal/fields"
)

// How far each log had been shipped when a step was made. A restore learns from this which logs it
// needs, and a writer where the list of segments goes on.

// An Extent says how much of a log is in the bucket, in segments that follow each other from the
// offset 0.
type Extent struct {
	Log     uint64
	Length  int64  // bytes: where the last of the segments ends
	LastSeq uint64 // the last sequence number that is given out up to there
	Sealed  bool   // no segment of the log follows: a seal or a fence has ended it
}

// ExtentEnd returns the place up to which the log is in the bucket.
func ExtentEnd(e Extent) Position { return Position{e.Log, e.Length} }

// appendExtents appends a field for each extent:
//
// log · length · last sequence number · 1 if it is sealed, else 0 (varints)
func appendExtents(dst []byte, extents []Extent) []byte {
	for _, e := range extents {
		sealed := uint64(0)
		if e.Sealed {
			sealed = 1
		}
		dst = fields.Append(dst, tagExtent, fields.AppendUvarints(nil, e.Log, uint64(e.Length), e.LastSeq, sealed))
	}
	return dst
}

// extent decodes one field of appendExtents.
func decodeExtent(d *fields.Decoder) Extent {
	e := Extent{Log: d.Uvarint(), Length: d.Int64(), LastSeq: d.Uvarint()}
	sealed := d.Uvarint()
	if sealed > 1 {
		d.Fail(fmt.Errorf("a log is sealed, 1, or not, 0, but this says %d", sealed))
	}
	e.Sealed = sealed == 1
	return e
}

// checkExtents checks each extent, and that logs follow each other: the next one begins after the
// one before it is sealed, and sequence numbers go on. So only the last may not be sealed.
func checkExtents(extents []Extent) error {
	for i, e := range extents {
		if err := errors.Join(checkNum("log", e.Log), CheckSeq(e.LastSeq)); err != nil {
			return err
		}
		if e.Length < LogHeader || e.Length > MaxLog {
			return fmt.Errorf("log %d has a length of %d bytes", e.Log, e.Length)
		}
		if i == 0 {
			continue
		}
		switch before := extents[i-1]; {
		case before.Log >= e.Log:
			return fmt.Errorf("log %d stands before log %d", before.Log, e.Log)
		case !before.Sealed:
			return fmt.Errorf("log %d is followed by log %d but not sealed", before.Log, e.Log)
		case before.LastSeq > e.LastSeq:
			return fmt.Errorf("log %d goes up to sequence number %d, log %d after it to %d", before.Log, before.LastSeq, e.Log, e.LastSeq)
		}
	}
	return nil
}
