package remote

import (
	"errors"
	"fmt"
)

// A Parent says where a clone finds files that it has not copied.
type Parent struct {
	Below  uint64 // files with lower numbers, down to those of the parent before, are there
	Prefix string // the place of the parent's objects, as the program names it: 1 to 1,024 bytes of UTF-8
	Pin    string // the pin there that keeps them
}

// maxPrefix is the largest length of Parent.Prefix, in bytes.
const maxPrefix = 1024

// appendParents appends a field for each parent:
//
// below varint · prefix · pin (each a length as varint, and bytes)
func appendParents(dst []byte, parents []Parent) []byte {
	for _, p := range parents {
		content := appendText(appendText(appendUvarints(nil, p.Below), p.Prefix), p.Pin)
		dst = appendField(dst, tagParent, content)
	}
	return dst
}

// parent decodes one field of appendParents.
func (d *decoder) parent() Parent {
	return Parent{Below: d.uvarint(), Prefix: d.text(), Pin: d.text()}
}

// checkParents checks each parent, and that their numbers ascend.
func checkParents(parents []Parent) error {
	for i, p := range parents {
		if err := errors.Join(checkNum("file number", p.Below), checkText("prefix", p.Prefix, maxPrefix), checkPin(p.Pin)); err != nil {
			return err
		}
		if i > 0 && parents[i-1].Below >= p.Below {
			return fmt.Errorf("the parent below file %d stands before the one below file %d", parents[i-1].Below, p.Below)
		}
	}
	return nil
}
