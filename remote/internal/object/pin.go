package object

import (
	"errors"
	"fmt"
	"time"

	"github.com/shaledb/shale/internal/fields"
)

// The bytes of a pin. How pins are made and seen is in the package chain.

// A Pin keeps the objects of a step from being deleted, after the step is below the floor. It names the step. What a
// restore of it needs is in the newest state that is not behind it, and in the steps from there up to it: collections keep
// these as well.
type Pin struct {
	StoreID uint64
	N       uint64    // the number of the step
	Written time.Time // when the step was, to the millisecond
	// Epoch and Writer are those of the step, so that no stray is taken for it.
	Epoch, Writer uint64
	// Label is the name of the pin, as PinName accepts it.
	Label string
	// Owner names the maker of the pin, for people: up to 1,024 bytes of UTF-8, or nothing.
	Owner string
	// Expires is when the pin may be removed, to the millisecond. The zero Time means never.
	Expires time.Time
}

// maxOwner is the largest length of Pin.Owner, in bytes.
const maxOwner = 1024

// Name returns the name of the object.
func (p *Pin) Name() string { return PinFolder + p.Label }

// Encode appends the object to dst, which belongs to the caller. It begins like a state, with another magic:
//
// head 24 · number · Unix ms (u64 each) · field* · crc32c u32
func (p *Pin) Encode(dst []byte) ([]byte, error) {
	if err := p.check(); err != nil {
		return dst, EncodeError(p.Name(), err)
	}
	out := AppendHead(dst, pinMagic, p.StoreID, p.N, uint64(p.Written.UnixMilli()))
	out = fields.Append(out, tagPinned, fields.AppendUvarints(nil, p.Epoch, p.Writer))
	out = fields.Append(out, tagLabel, []byte(p.Label))
	if !p.Expires.IsZero() {
		out = fields.Append(out, tagExpires, fields.AppendUvarints(nil, uint64(p.Expires.UnixMilli())))
	}
	if p.Owner != "" {
		out = fields.Append(out, tagOwner, []byte(p.Owner))
	}
	return AppendSum(out, len(dst)), nil
}

// DecodePin decodes the object with the given name, which must be a pin of the store. It keeps no
// part of src. An error wraps a *shale.CorruptionError or shale.ErrFormatTooNew.
func DecodePin(name string, storeID uint64, src []byte) (*Pin, error) {
	return decodeObject(name, pinMagic, "pin", leastState, storeID, src, func(id uint64, d *fields.Decoder) *Pin {
		return &Pin{StoreID: id, N: numOf(d), Written: timeOf(d, d.Uint64())}
	})
}

// decodeField decodes the content of one field into p, as State.decodeField does.
func (p *Pin) decodeField(tag uint64, d *fields.Decoder) (known bool) {
	switch tag {
	case tagLabel:
		p.Label = string(d.Rest())
	case tagExpires:
		p.Expires = timeOf(d, d.Uvarint())
	case tagOwner:
		p.Owner = string(d.Rest())
		if err := checkText("owner", p.Owner, maxOwner); err != nil {
			d.Fail(err)
		}
	case tagPinned:
		p.Epoch, p.Writer = d.Uvarint(), d.Uvarint()
	default:
		return false
	}
	return true
}

// check returns an error if p can't be true.
func (p *Pin) check() error {
	err := errors.Join(CheckPin(p.Label), checkNum("step", p.N), checkTime(p.Written))
	if p.Owner != "" {
		err = errors.Join(err, checkText("owner", p.Owner, maxOwner))
	}
	if !p.Expires.IsZero() {
		err = errors.Join(err, checkTime(p.Expires))
	}
	if err == nil && (p.Epoch == 0 || p.Epoch > MaxEpoch || p.Writer == 0) {
		err = fmt.Errorf("it names step %d of epoch %d, writer %d", p.N, p.Epoch, p.Writer)
	}
	return err
}
