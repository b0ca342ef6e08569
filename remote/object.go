package remote

import "github.com/shaledb/shale/remote/internal/object"

// The objects of a bucket. docs/REMOTE.md has every byte of them. Each has a method Encode, which appends it to a slice, and
// Name, which returns the name that it has in the bucket; an Identity always has IdentityName.
type (
	// An Identity says which store a bucket has (StoreID), and when it was Created. It is the first object, made if
	// it is absent, so that of two programs that begin with an empty bucket one is refused.
	Identity = object.Identity

	// A Segment is a stretch of a write-ahead log: the bytes in Body, from Offset of the log with number Log on. It gives
	// out the sequence numbers FirstSeq to LastSeq. Kind says whether the log goes on behind it, and Next where, if not.
	Segment = object.Segment

	// A Step is one link of the chain of a store's steps, which are numbered from 1 (N). Edit says what has changed in
	// the tables since the step before, and Extents how far the logs are in the bucket. Epoch and Writer say who has
	// written it. Steps below Floor can't be restored any more.
	Step = object.Step

	// A State is the sum of all steps up to step N: Tables, Extents and Floor. With it, a restore needs no step before.
	State = object.State

	// A Pin keeps the objects of step N from being deleted until it Expires, or is removed. Label is its name and Owner
	// its maker.
	Pin = object.Pin

	// An Extent says how much of a log is in the bucket: Length bytes from the beginning, with the sequence numbers up to
	// LastSeq. A log that is Sealed has ended there.
	Extent = object.Extent

	// A Name is the parsed name of an object: its Kind, and its Num, Offset or Pin as far as the kind has one.
	Name = object.Name

	// A Kind says what an object is for.
	Kind = object.Kind

	// A SegmentKind says what a segment means for its log.
	SegmentKind = object.SegmentKind

	// A StepKind says why there is a step.
	StepKind = object.StepKind
)

// The objects of a bucket.
const (
	KindIdentity = object.KindIdentity // id
	KindTable    = object.KindTable    // t/0c/000000000000000c.sst: a table, as its file is
	KindFilter   = object.KindFilter   // t/0d/000000000000000d.flt: a sidecar, as its file is
	KindSegment  = object.KindSegment  // w/000000000000000c/0000000000001000
	KindStep     = object.KindStep     // m/0000000000000007
	KindState    = object.KindState    // s/0000000000000007
	KindPin      = object.KindPin      // p/before-upgrade
	KindProbe    = object.KindProbe    // probe/0123456789abcdef: one that Probe has made
)

// The kinds of segments.
const (
	SegmentData  = object.SegmentData  // the log goes on
	SegmentSeal  = object.SegmentSeal  // the log ends here: with its seal record, or, if another log took its place without one, with what is there
	SegmentFence = object.SegmentFence // another writer has taken the store over: the log ends here; no body
)

// The kinds of steps.
const (
	StepPublish = object.StepPublish // tables have changed, or logs have grown
	StepClaim   = object.StepClaim   // a writer makes itself the owner; the tables do not change
)

const (
	// FormatVersion is the version of the objects that this package writes.
	FormatVersion = object.FormatVersion

	// EpochShift is the number of bits for the file numbers of one epoch. The numbers of an epoch begin
	// at epoch << EpochShift, so no two writers give the same number to a file.
	EpochShift = object.EpochShift

	// MaxEpoch is the last epoch whose file numbers a store accepts.
	MaxEpoch = object.MaxEpoch

	// IdentityName is the name of the object that says which store a bucket has.
	IdentityName = object.IdentityName
)

// DecodeIdentity decodes the object IdentityName. It keeps no part of src. An error wraps a
// *shale.CorruptionError or shale.ErrFormatTooNew.
func DecodeIdentity(src []byte) (*Identity, error) { return object.DecodeIdentity(src) }

// DecodeSegment decodes the object with the given name, which must be a segment of the store. The
// body of the result is a part of src. The records in it are not checked here. Its errors are those of DecodeIdentity.
func DecodeSegment(name string, storeID uint64, src []byte) (*Segment, error) {
	return object.DecodeSegment(name, storeID, src)
}

// DecodeStep decodes the object with the given name, which must be a step of the store. It keeps no part of src. Whether
// the edit fits to the steps before is not checked here. Its errors are those of DecodeIdentity.
func DecodeStep(name string, storeID uint64, src []byte) (*Step, error) {
	return object.DecodeStep(name, storeID, src)
}

// DecodeState is DecodeStep for a state.
func DecodeState(name string, storeID uint64, src []byte) (*State, error) {
	return object.DecodeState(name, storeID, src)
}

// DecodePin is DecodeStep for a pin.
func DecodePin(name string, storeID uint64, src []byte) (*Pin, error) {
	return object.DecodePin(name, storeID, src)
}

// TableName returns the name of table num. Its folder is the low byte of the number, because object
// stores spread their load by the first bytes of names.
func TableName(num uint64) string { return object.TableName(num) }

// FilterName returns the name of the sidecar num, a file with the filter of a table.
func FilterName(num uint64) string { return object.FilterName(num) }

// SegmentName returns the name of the segment of a log that begins at an offset, in bytes. The
// segments of a log follow each other in the order of their names, and so do logs.
// Requires: off >= 0.
func SegmentName(log uint64, off int64) string { return object.SegmentName(log, off) }

// StepName returns the name of step n. Steps follow each other in the order of their names.
func StepName(n uint64) string { return object.StepName(n) }

// StateName returns the name of the state after step n.
func StateName(n uint64) string { return object.StateName(n) }

// PinName returns the name of a pin, or an error if a pin can't be called that: it may be 1 to 200
// bytes long and have lower-case letters, digits, '.', '-' and '_', no '.' at either end.
func PinName(pin string) (string, error) { return object.PinName(pin) }

// ProbeName returns the name of the object with which Probe, having drawn num, tries a bucket.
func ProbeName(num uint64) string { return object.ProbeName(num) }

// ParseName parses the name of an object. ok is false for every name that the functions above would
// not have made, so that programs leave the objects of others alone.
func ParseName(name string) (n Name, ok bool) { return object.ParseName(name) }
