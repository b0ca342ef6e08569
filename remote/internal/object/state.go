package object

import (
	"errors"
	"fmt"
	"time"

	"github.com/shaledb/shale/internal/base"
	"github.com/shaledb/shale/internal/fields"
	"github.com/shaledb/shale/manifest"
)

// The bytes of a state, and the sum of a state and a step. Verify compares the two, so both must
// lead to the same bytes.

// A State is the sum of all steps up to one of them. With it, a restore needs no step before that.
type State struct {
	StoreID uint64
	N       uint64    // the number of the step
	Written time.Time // to the millisecond
	// Tables are the tables of the store after the step. Their StoreID is the same as here. An encoded
	// State has a NextFileNum of N + 1 at least.
	Tables  *manifest.State
	Extents []Extent // those of the step
	Floor   uint64   // the highest floor of a step so far
}

// leastState is the number of bytes of a state without fields: the head, the number, the time and the
// checksum. Part of the format.
const leastState = HeadSize + 2*8 + SumSize

// Name returns the name of the object.
func (s *State) Name() string { return StateName(s.N) }

// ShippedUpTo returns the place up to which the logs were in the bucket, and the zero place if none was.
func ShippedUpTo(s *State) Position {
	if len(s.Extents) == 0 {
		return Position{}
	}
	return ExtentEnd(s.Extents[len(s.Extents)-1])
}

// Encode appends the object to dst, which belongs to the caller:
//
// head 24 · number · Unix ms (u64 each) · field* · crc32c u32
func (s *State) Encode(dst []byte) ([]byte, error) {
	if err := s.check(); err != nil {
		return dst, EncodeError(s.Name(), err)
	}
	tables, err := s.Tables.Encode(nil, base.FileNum(s.N))
	if err != nil {
		return dst, EncodeError(s.Name(), err)
	}
	out := AppendHead(dst, stateMagic, s.StoreID, s.N, uint64(s.Written.UnixMilli()))
	out = appendExtents(out, s.Extents)
	out = fields.AppendNumber(out, tagFloor, s.Floor)
	out = fields.Append(out, tagTables, tables)
	return AppendSum(out, len(dst)), nil
}

// DecodeState decodes the object with the given name, which must be a state of the store. It keeps
// no part of src. An error wraps a *shale.CorruptionError or shale.ErrFormatTooNew.
func DecodeState(name string, storeID uint64, src []byte) (*State, error) {
	return decodeObject(name, stateMagic, "state", leastState, storeID, src, func(id uint64, d *fields.Decoder) *State {
		return &State{StoreID: id, N: numOf(d), Written: timeOf(d, d.Uint64())}
	})
}

// decodeField decodes the content of one field into s. known is false if states of this version do
// not have the tag. Requires: s.N is set.
func (s *State) decodeField(tag uint64, d *fields.Decoder) (known bool) {
	switch tag {
	case tagExtent:
		s.Extents = append(s.Extents, decodeExtent(d))
	case tagFloor:
		s.Floor = d.Uvarint()
	case tagTables:
		tables, err := manifest.DecodeState(d.Rest(), base.FileNum(s.N))
		if err != nil {
			d.Fail(err)
		}
		s.Tables = tables
	default:
		return false
	}
	return true
}

// check returns an error if s can't be true. The tables are checked where they are encoded
// and decoded.
func (s *State) check() error {
	err := errors.Join(checkNum("step", s.N), checkTime(s.Written), checkExtents(s.Extents))
	switch {
	case err != nil:
		return err
	case s.Tables == nil:
		return errors.New("it has no tables")
	case s.Tables.StoreID != s.StoreID:
		return fmt.Errorf("its tables belong to store %016x, not to %016x", s.Tables.StoreID, s.StoreID)
	}
	return checkFloor(s.Floor, s.N)
}

// StateAfter returns the state after step, which must be the one after s. s does not change.
// The result shares with s and step what it has of them, so none of the three may be changed
// afterwards.
func StateAfter(s *State, step *Step) (*State, error) {
	if err := checkStore(step.StoreID, s.StoreID); err != nil {
		return nil, err
	}
	if step.N != s.N+1 {
		return nil, fmt.Errorf("step %d does not follow step %d", step.N, s.N)
	}
	if step.Floor < s.Floor {
		return nil, fmt.Errorf("it lowers the floor from %d to %d", s.Floor, step.Floor)
	}
	if err := CheckProgress(s.Extents, step.Extents); err != nil {
		return nil, err
	}
	next := &State{
		StoreID: s.StoreID, N: step.N, Written: step.Written, Tables: s.Tables,
		Extents: step.Extents, Floor: step.Floor,
	}
	if step.Edit != nil {
		v, err := s.Tables.Version.Apply(step.Edit)
		if err != nil {
			return nil, err
		}
		if next.Tables, err = s.Tables.Apply(step.Edit, v); err != nil {
			return nil, err
		}
	}
	// A store that is made of this state must not give out numbers again that tables and logs of
	// the step have. The tables may be shared with s, so a copy is changed.
	if lastSeq := base.Seq(step.LastTableSeq); lastSeq > next.Tables.LastSeq {
		tables := *next.Tables
		tables.LastSeq = lastSeq
		next.Tables = &tables
	}
	return next, nil
}

// CheckProgress returns an error if the list of segments is shorter in next than in last, which are the
// extents of two steps that follow each other.
// A step that went back would let a restore end before writes that an earlier step has shown to be
// there.
func CheckProgress(last, next []Extent) error {
	if len(last) == 0 {
		return nil
	}
	if len(next) == 0 {
		return errors.New("it has no extents, the step before has some")
	}
	before, now := last[len(last)-1], next[len(next)-1]
	if ExtentEnd(now).Before(ExtentEnd(before)) {
		return fmt.Errorf("the logs go up to %d bytes of log %d, and in the step before to %d bytes of log %d", now.Length, now.Log, before.Length, before.Log)
	}
	return nil
}

// EmptyState is the state of a store that has no steps.
// Step 1 is applied to it. It can't be encoded, because its number is 0.
func EmptyState(storeID uint64) *State {
	return &State{StoreID: storeID, Tables: &manifest.State{Version: new(manifest.Version), StoreID: storeID, NextFileNum: 1}}
}
