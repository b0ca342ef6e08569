package object

import (
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/shaledb/shale/internal/base"
	"github.com/shaledb/shale/internal/fields"
	"github.com/shaledb/shale/manifest"
)

// The bytes of a step. What makes a step the newest one, and when it is believed, is in the package
// chain.

// A Step is one link of the chain of a store's steps, which are numbered from 1. It says what has
// changed in the tables since the step before, and how far the logs are in the bucket. The tables
// after step N are the edits of the steps up to N, applied one after the other to an empty
// version, or the tables of a State and the edits after it.
type Step struct {
	StoreID uint64
	N       uint64
	Epoch   uint64    // how often the store has been claimed so far; from 1 to MaxEpoch
	Writer  uint64    // drawn at random by each Open, so that a writer knows its own steps; not 0
	Written time.Time // to the millisecond
	Kind    StepKind
	// Edit is all that has changed in the tables since the last step. nil: nothing.
	Edit *manifest.Edit
	// Extents are the logs that are needed to restore this step, in the order of their numbers. All
	// but the last are sealed. The last one is how far the list of segments has got: it is there even
	// if no restore needs it, once a step has had one.
	Extents []Extent
	// Floor says that earlier steps can't be restored or pinned any more. A step repeats the floor of
	// the step before, or raises it.
	Floor        uint64
	LastTableSeq uint64 // the highest sequence number in tables
}

// A StepKind says why there is a step.
type StepKind uint64

// The kinds of steps. Part of the format; they never change.
const (
	StepPublish StepKind = 0 // tables have changed, or logs have grown
	StepClaim   StepKind = 1 // a writer makes itself the owner; the tables do not change
)

const (
	// noKind is the kind of a step that does not say which it has.
	//
	// 0 is a kind, so a step without the field starts with a value that no field can state.
	noKind StepKind = math.MaxUint64
	// EpochShift is the number of bits for the file numbers of one epoch. The numbers of an epoch begin
	// at epoch << EpochShift, so no two writers give the same number to a file.
	// One writer has room for 68 billion files, and a store for 16 million writers one after the
	// other.
	EpochShift = 36
	// MaxEpoch is the last epoch whose file numbers a store accepts.
	MaxEpoch = MaxNum>>EpochShift - 1
)

// leastStep is the number of bytes of a step without fields: the head, the number, epoch, writer and
// time, and the checksum. Part of the format.
const leastStep = HeadSize + 4*8 + SumSize

// Name returns the name of the object.
func (s *Step) Name() string { return StepName(s.N) }

// Encode appends the object to dst, which belongs to the caller:
//
// head 24 · number · epoch · writer · Unix ms (u64 each) · field* · crc32c u32
func (s *Step) Encode(dst []byte) ([]byte, error) {
	if err := s.check(); err != nil {
		return dst, EncodeError(s.Name(), err)
	}
	out := AppendHead(dst, stepMagic, s.StoreID, s.N, s.Epoch, s.Writer, uint64(s.Written.UnixMilli()))
	out = fields.Append(out, tagKind, fields.AppendUvarints(nil, uint64(s.Kind)))
	if s.Edit != nil {
		edit, err := s.Edit.Encode(nil)
		if err != nil {
			return dst, EncodeError(s.Name(), err)
		}
		out = fields.Append(out, tagEdit, edit)
	}
	out = appendExtents(out, s.Extents)
	out = fields.AppendNumber(out, tagFloor, s.Floor)
	out = fields.AppendNumber(out, tagLastTableSeq, s.LastTableSeq)
	return AppendSum(out, len(dst)), nil
}

// DecodeStep decodes the object with the given name, which must be a step of the store. It keeps
// no part of src. Whether the edit fits to the steps before is not checked here. An error wraps a
// *shale.CorruptionError or shale.ErrFormatTooNew.
func DecodeStep(name string, storeID uint64, src []byte) (*Step, error) {
	return decodeObject(name, stepMagic, "step", leastStep, storeID, src, func(id uint64, d *fields.Decoder) *Step {
		return &Step{StoreID: id, N: numOf(d), Epoch: d.Uint64(), Writer: d.Uint64(), Written: timeOf(d, d.Uint64()), Kind: noKind}
	})
}

// decodeField decodes the content of one field into s. known is false if steps of this version do
// not have the tag.
func (s *Step) decodeField(tag uint64, d *fields.Decoder) (known bool) {
	switch tag {
	case tagKind:
		s.Kind = StepKind(d.Uvarint())
	case tagEdit:
		edit, err := manifest.DecodeEdit(d.Rest())
		if err != nil {
			d.Fail(err)
		}
		s.Edit = edit
	case tagExtent:
		s.Extents = append(s.Extents, decodeExtent(d))
	case tagFloor:
		s.Floor = d.Uvarint()
	case tagLastTableSeq:
		s.LastTableSeq = d.Uvarint()
	default:
		return false
	}
	return true
}

// check returns an error if s can't be true. The edit is checked where it is encoded and
// decoded.
func (s *Step) check() error {
	err := errors.Join(checkNum("step", s.N), checkTime(s.Written), checkExtents(s.Extents), CheckSeq(s.LastTableSeq))
	switch {
	case err != nil:
		return err
	case s.Kind == noKind:
		return errors.New("it has no kind")
	case s.Kind > StepClaim:
		return fmt.Errorf("kind %d: %w", s.Kind, base.ErrFormatTooNew)
	case s.Epoch == 0 || s.Epoch > MaxEpoch:
		return fmt.Errorf("epoch %d is not in [1, %d]", s.Epoch, uint64(MaxEpoch))
	case s.Writer == 0:
		return errors.New("writer 0 stands for none")
	case s.Kind == StepClaim && s.Edit != nil:
		return errors.New("a claim does not change tables")
	}
	return checkFloor(s.Floor, s.N)
}

// checkFloor returns an error if step n can't say that floor is the first that can be restored.
func checkFloor(floor, n uint64) error {
	if floor > n {
		return fmt.Errorf("step %d says that all below step %d is gone", n, floor)
	}
	return nil
}
