package remote

import (
	"errors"
	"time"
)

// A Pin keeps the objects of a step from being deleted, after the step itself is gone. It has a copy
// of everything that the steps say and a restore of this one needs.
type Pin struct {
	State // Floor is 0: a pin needs no other steps
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
func (p *Pin) Name() string { return pinFolder + p.Label }

// Encode appends the object to dst, which belongs to the caller. It is a state with another magic
// and more fields:
//
// head 24 · number · Unix ms (u64 each) · field* · crc32c u32
func (p *Pin) Encode(dst []byte) ([]byte, error) {
	err := p.check()
	if err != nil {
		return dst, encodeError(p.Name(), err)
	}
	out, err := p.appendTo(dst, pinMagic)
	if err != nil {
		return dst, encodeError(p.Name(), err)
	}
	out = appendField(out, tagLabel, []byte(p.Label))
	if !p.Expires.IsZero() {
		out = appendField(out, tagExpires, appendUvarints(nil, uint64(p.Expires.UnixMilli())))
	}
	if p.Owner != "" {
		out = appendField(out, tagOwner, []byte(p.Owner))
	}
	return appendSum(out, len(dst)), nil
}

// DecodePin decodes the object with the given name, which must be a pin of the store. It keeps no
// part of src. An error wraps a *shale.CorruptionError or shale.ErrFormatTooNew.
func DecodePin(name string, storeID uint64, src []byte) (*Pin, error) {
	p := new(Pin)
	err := p.decode(src, pinMagic, p.decodeField)
	if err == nil {
		err = p.check()
	}
	if err == nil {
		err = checkStore(p.StoreID, storeID)
	}
	if err == nil {
		err = checkPlace(p.Name(), name)
	}
	if err != nil {
		return nil, damage(name, "pin", err)
	}
	return p, nil
}

// decodeField decodes the content of one field into p, as State.decodeField does.
func (p *Pin) decodeField(tag uint64, d *decoder) (known bool) {
	switch tag {
	case tagLabel:
		p.Label = string(d.rest())
	case tagExpires:
		p.Expires = d.time(d.uvarint())
	case tagOwner:
		p.Owner = string(d.rest())
		if err := checkText("owner", p.Owner, maxOwner); err != nil {
			d.fail(err)
		}
	case tagFloor:
		return false // a floor is for the chain of steps, and a pin stands alone
	default:
		return p.State.decodeField(tag, d)
	}
	return true
}

// check returns what is impossible about p, or nil, except for what State.check finds.
func (p *Pin) check() error {
	if err := checkPin(p.Label); err != nil {
		return err
	}
	if p.Floor != 0 {
		return errors.New("a pin has no floor")
	}
	if p.Owner != "" {
		if err := checkText("owner", p.Owner, maxOwner); err != nil {
			return err
		}
	}
	if !p.Expires.IsZero() {
		return checkTime(p.Expires)
	}
	return nil
}
