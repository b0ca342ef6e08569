package object

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/shaledb/shale/remote/internal/bucket"
)

// The names of all objects. Numbers in names are in hexadecimal and of one length, so that the
// order of a list is that of the numbers: the search for the newest step and the walk along
// segments rest on it.

// IdentityName is the name of the object that says which store a bucket has.
const IdentityName = "id"

// The folders of a bucket. Part of the format; they never change.
const (
	TableFolder   = "t/"
	SegmentFolder = "w/"
	StepFolder    = "m/"
	StateFolder   = "s/"
	PinFolder     = "p/"
	ProbeFolder   = "probe/"
)

// A Kind says what an object is for.
type Kind int

// The objects of a bucket.
const (
	KindIdentity Kind = iota + 1 // id
	KindTable                    // t/0c/000000000000000c.sst: a table, as its file is
	KindFilter                   // t/0d/000000000000000d.flt: a sidecar, as its file is
	KindSegment                  // w/000000000000000c/0000000000001000
	KindStep                     // m/0000000000000007
	KindState                    // s/0000000000000007
	KindPin                      // p/before-upgrade
	KindProbe                    // probe/0123456789abcdef: one that Probe has made
)

// A Name is the parsed name of an object.
type Name struct {
	Kind   Kind
	Num    uint64 // the number of a table, filter, log, step or state, or that of a probe
	Offset int64  // of a segment in its log, in bytes
	Pin    string // the name of a pin
}

// TableName returns the name of table num. Its folder is the low byte of the number, because object
// stores spread their load by the first bytes of names.
func TableName(num uint64) string { return inTableFolder(num, ".sst") }

// FilterName returns the name of the sidecar num, a file with the filter of a table.
func FilterName(num uint64) string { return inTableFolder(num, ".flt") }

// inTableFolder is not made by Sprintf: a store that opens makes a name for each table in the bucket,
// and that took a twelfth of the time.
func inTableFolder(num uint64, ext string) string {
	s := strconv.FormatUint(num, 16)
	s = "0000000000000000"[len(s):] + s
	return TableFolder + s[14:] + "/" + s + ext
}

// SegmentName returns the name of the segment of a log that begins at an offset, in bytes. The
// segments of a log follow each other in the order of their names, and so do logs.
// Requires: off >= 0.
func SegmentName(log uint64, off int64) string {
	return fmt.Sprintf("%s%016x/%016x", SegmentFolder, log, uint64(off))
}

// StepName returns the name of step n. Steps follow each other in the order of their names.
func StepName(n uint64) string { return fmt.Sprintf("%s%016x", StepFolder, n) }

// StateName returns the name of the state after step n.
func StateName(n uint64) string { return fmt.Sprintf("%s%016x", StateFolder, n) }

// PinName returns the name of a pin, or an error if a pin can't be called that: it may be 1 to 200
// bytes long and have lower-case letters, digits, '.', '-' and '_', no '.' at either end.
func PinName(pin string) (string, error) {
	if err := CheckPin(pin); err != nil {
		return "", fmt.Errorf("remote: %w", err)
	}
	return PinFolder + pin, nil
}

// CheckPin returns an error if a pin can't be called that.
func CheckPin(pin string) error {
	if !bucket.IsNamePart(pin) {
		return fmt.Errorf("%q is not the name of a pin: choose 1 to %d lower-case letters, digits, '.', '-' or '_', without '.' at either end", pin, bucket.MaxNamePart)
	}
	return nil
}

// ProbeName returns the name of the object with which Probe, having drawn num, tries a bucket.
func ProbeName(num uint64) string { return fmt.Sprintf("%s%016x", ProbeFolder, num) }

// ParseName parses the name of an object. ok is false for every name that the functions above would
// not have made, so that programs leave the objects of others alone.
func ParseName(name string) (n Name, ok bool) {
	if n, ok = parse(name); !ok || n.String() != name {
		return Name{}, false
	}
	return n, true
}

// parse does the work of ParseName, except that it accepts some names that String would not make.
// Those have upper-case digits, or numbers of another length. ParseName makes the name again and
// compares.
func parse(name string) (n Name, ok bool) {
	if name == IdentityName {
		return Name{Kind: KindIdentity}, true
	}
	folder, rest, _ := strings.Cut(name, "/")
	switch folder + "/" {
	case TableFolder:
		_, file, _ := strings.Cut(rest, "/")
		number, ext, _ := strings.Cut(file, ".")
		kind := Kind(0)
		switch ext {
		case "sst":
			kind = KindTable
		case "flt":
			kind = KindFilter
		}
		return numbered(kind, number)
	case SegmentFolder:
		log, offset, _ := strings.Cut(rest, "/")
		if n, ok = numbered(KindSegment, log); !ok {
			return n, false
		}
		off, err := strconv.ParseInt(offset, 16, 64)
		n.Offset = off
		return n, err == nil && off >= 0
	case StepFolder:
		return numbered(KindStep, rest)
	case StateFolder:
		return numbered(KindState, rest)
	case PinFolder:
		return Name{Kind: KindPin, Pin: rest}, bucket.IsNamePart(rest)
	case ProbeFolder:
		return numbered(KindProbe, rest)
	}
	return Name{}, false
}

// numbered returns the name of an object with a number, which is in hexadecimal digits.
func numbered(kind Kind, digits string) (Name, bool) {
	num, err := strconv.ParseUint(digits, 16, 64)
	return Name{Kind: kind, Num: num}, err == nil && kind != 0
}

// String returns the name of the object, and "" for the zero Name.
func (n Name) String() string {
	switch n.Kind {
	case KindIdentity:
		return IdentityName
	case KindTable:
		return TableName(n.Num)
	case KindFilter:
		return FilterName(n.Num)
	case KindSegment:
		return SegmentName(n.Num, n.Offset)
	case KindStep:
		return StepName(n.Num)
	case KindState:
		return StateName(n.Num)
	case KindPin:
		return PinFolder + n.Pin
	case KindProbe:
		return ProbeName(n.Num)
	}
	return ""
}
