package object

import (
	"fmt"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/shaledb/shale/internal/base"
	"github.com/shaledb/shale/internal/fields"
)

// What steps, states and pins are made of, and the checks of single values that they share.

// Steps, states and pins consist of fields: a tag and a length as varints, and the content. A
// reader refuses an object with an even tag that it does not know, and skips odd ones. These are
// part of the format; they never change.
const (
	tagKind         = 2  // of steps
	tagEdit         = 4  // of steps
	tagExtent       = 6  // of steps and states, repeated
	tagFloor        = 8  // of steps and states
	tagLastTableSeq = 10 // of steps
	tagLabel        = 14 // of pins
	tagTables       = 16 // of states
	tagExpires      = 18 // of pins
	tagOwner        = 19 // of pins; odd: it is for people only
	tagPinned       = 20 // of pins
)

// decodeFields calls fn for each field of src, as fields.Decode does. Only extents may be repeated.
func decodeFields(src []byte, fn func(tag uint64, d *fields.Decoder) (known bool)) error {
	return fields.Decode(src, func(tag uint64) bool { return tag == tagExtent }, fn)
}

// Times are in milliseconds since the beginning of 1970. maxMilli is the end of the year 9999: time.Time
// can print everything up to there.
const maxMilli = 253_402_300_799_999

// checkTime returns an error if t can't be kept.
func checkTime(t time.Time) error {
	if ms := t.UnixMilli(); ms < 0 || ms > maxMilli {
		return fmt.Errorf("the time %v is not between 1970 and 9999", t)
	}
	return nil
}

// timeOf returns the time of ms, which must be one that checkTime accepts.
func timeOf(d *fields.Decoder, ms uint64) time.Time {
	if ms > maxMilli {
		d.Fail(fmt.Errorf("%d milliseconds are after the year 9999", ms))
		return time.Time{}
	}
	return time.UnixMilli(int64(ms)).UTC()
}

// checkNum returns an error if num is not a file number, or a number of a step, both of which
// begin at 1.
func checkNum(what string, num uint64) error {
	if num == 0 || num > MaxNum {
		return fmt.Errorf("%s %d is not in [1, %d]", what, num, uint64(MaxNum))
	}
	return nil
}

// numOf decodes the number of a step.
func numOf(d *fields.Decoder) uint64 {
	n := d.Uint64()
	if err := checkNum("step", n); err != nil {
		d.Fail(err)
	}
	return n
}

// MaxNum is the largest number of a file of a store, and of a step.
// A file's number has an epoch in its upper 24 bits, and 36 bits for the files of that epoch: see
// EpochShift.
const MaxNum = 1 << 60

// CheckSeq returns an error if seq is above the largest sequence number.
func CheckSeq(seq uint64) error {
	if seq > uint64(base.MaxSeq) {
		return fmt.Errorf("sequence number %d is too large", seq)
	}
	return nil
}

// checkText returns an error if s is empty, longer than most bytes, not UTF-8, or has control
// characters, which could do anything to the terminal that it is printed on.
func checkText(what, s string, most int) error {
	if s == "" || len(s) > most || !utf8.ValidString(s) || strings.ContainsFunc(s, unicode.IsControl) {
		return fmt.Errorf("%s %q must be UTF-8 of 1 to %d bytes without control characters", what, s, most)
	}
	return nil
}
