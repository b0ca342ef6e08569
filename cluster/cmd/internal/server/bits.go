package server

import (
	"encoding/binary"
	"errors"
	"math/bits"

	"github.com/shaledb/shale"
	"github.com/shaledb/shale/cluster/cmd/internal/resp"
)

// The commands on the bits of strings. Bit 0 is the highest one of the first byte.

const errBitOffset = refusal("ERR bit offset is not an integer or out of range")

// bitOffset reads the number of a bit.
func bitOffset(arg []byte) (uint64, error) {
	n, ok := resp.ParseInt(arg)
	if !ok || n < 0 || n >= 8*mostString {
		return 0, errBitOffset
	}
	return uint64(n), nil
}

// maskOf returns the bit of a number in its byte.
func maskOf(offset uint64) byte { return 0x80 >> (offset % 8) }

// setBit is SETBIT.
func (c *client) setBit(tx Txn, args [][]byte) error {
	offset, err := bitOffset(args[1])
	if err != nil {
		return err
	}
	on := string(args[2]) == "1"
	if !on && string(args[2]) != "0" {
		return refusal("ERR bit is not an integer or out of range")
	}
	t, err := c.textUnder(tx, args[0])
	if err != nil {
		return err
	}
	old, at := byte(0), offset/8
	switch {
	case at >= t.size():
	case !t.isLong:
		old = t.short[at]
	default:
		one, err := t.at(uint32(at / stringPiece))
		if err != nil {
			return err
		}
		old = one.bytes[at%stringPiece]
	}
	was := old&maskOf(offset) != 0
	c.Truth(was)
	if was == on && at < t.size() {
		return nil
	}
	now := old &^ maskOf(offset)
	if on {
		now |= maskOf(offset)
	}
	_, err = c.writeAt(tx, args[0], &t, at, []byte{now})
	return err
}

// getBit is GETBIT. Of a long string it reads one piece, which was the right one if the string is still the same afterwards.
func (c *client) getBit(r shale.Reader, args [][]byte) error {
	offset, err := bitOffset(args[1])
	if err != nil {
		return err
	}
	for {
		var t text
		b, at := byte(0), offset/8
		err := r.ViewValue(c.nameKey(args[0]), func(value []byte) (err error) {
			if t, err = textOf(value); err == nil && !t.isLong && at < t.size() {
				b = t.short[at]
			}
			return err
		})
		if err != nil && !errors.Is(err, shale.ErrNotFound) {
			return err
		}
		same := true
		if t.isLong && at < t.length {
			p := newPieces(r, args[0], t.generation, stringPiece)
			one, err := p.at(uint32(at / stringPiece))
			if err == nil {
				b = one.bytes[at%stringPiece]
				same, err = isOwned(r, p.prefix)
			}
			if err != nil {
				return err
			}
		}
		if same {
			c.Truth(b&maskOf(offset) != 0)
			return nil
		}
	}
}

// A bitRange is a part of a string, in bits: those from the first to the second number, which is not in it. It is crossed if both
// positions count from the end, and the second one comes before the first: BITCOUNT and GETRANGE then find nothing, whereas other
// positions of which only the second one is before the string stand for its first byte.
type bitRange struct {
	from, to uint64
	crossed  bool
}

// readRange reads [start [end [BYTE|BIT]]] of a string of n bytes. Positions below 0 count from the end.
func readRange(args [][]byte, n uint64) (r bitRange, err error) {
	unit := uint64(8)
	start, end := int64(0), int64(-1)
	ok1, ok2 := true, true
	if len(args) > 0 {
		start, ok1 = resp.ParseInt(args[0])
	}
	if len(args) > 1 {
		end, ok2 = resp.ParseInt(args[1])
	}
	r.crossed = ok1 && ok2 && start < 0 && end < 0 && start > end
	switch {
	case !ok1:
		return r, errNoInteger
	case len(args) > 3:
		return r, errSyntax
	case len(args) == 3 && resp.Is(args[2], "BIT"):
		unit = 1
	case len(args) == 3 && !resp.Is(args[2], "BYTE"):
		return r, errSyntax
	case !ok2:
		return r, errNoInteger
	}
	from, to := within(start, end, int64(n*8/unit))
	return bitRange{uint64(from) * unit, uint64(to) * unit, r.crossed}, nil
}

// within returns the part of n things from one position to another, both of which are in it, as from and to, of which to is not.
// Positions below 0 count from the end.
func within(start, end, n int64) (from, to int64) {
	if start < 0 {
		start = max(0, start+n)
	}
	if end < 0 {
		end = max(0, end+n)
	}
	if end = min(end, n-1); start > end {
		return 0, 0
	}
	return start, end + 1
}

// walkBits is walk for a part whose first and last bytes may be cut: what does not belong to it is 0.
func (t *text) walkBits(r bitRange, fn func(at uint64, part []byte) bool) error {
	var edge []byte
	return t.walk(r.from/8, (r.to+7)/8, func(at uint64, part []byte) bool {
		last := at + uint64(len(part)) - 1
		if at*8 < r.from || last*8+8 > r.to {
			edge = append(edge[:0], part...)
			if at*8 < r.from {
				edge[0] &= 0xff >> (r.from % 8)
			}
			if last*8+8 > r.to {
				edge[len(edge)-1] &^= 0xff >> (r.to % 8)
			}
			part = edge
		}
		return fn(at, part)
	})
}

// bitCount is BITCOUNT.
func (c *client) bitCount(t *text, args [][]byte) error {
	r, err := readRange(args[1:], t.size())
	switch {
	case !t.found || r.crossed:
		c.Integer(0)
		return nil
	case len(args) == 2:
		return errSyntax
	case err != nil:
		return err
	}
	n := 0
	err = t.walkBits(r, func(_ uint64, part []byte) bool {
		for ; len(part) >= 8; part = part[8:] {
			n += bits.OnesCount64(binary.LittleEndian.Uint64(part))
		}
		for _, b := range part {
			n += bits.OnesCount8(b)
		}
		return true
	})
	c.Integer(int64(n))
	return err
}

// bitPos is BITPOS.
func (c *client) bitPos(t *text, args [][]byte) error {
	bit, ok := resp.ParseInt(args[1])
	switch {
	case !ok:
		return errNoInteger
	case bit != 0 && bit != 1:
		return refusal("ERR The bit argument must be 1 or 0.")
	case !t.found:
		c.Integer(-bit)
		return nil
	}
	r, err := readRange(args[2:], t.size())
	if err != nil {
		return err
	}
	pos := int64(-1)
	if bit == 1 {
		err = t.walkBits(r, func(at uint64, part []byte) bool {
			for i, b := range part {
				if b != 0 {
					pos = int64(at+uint64(i))*8 + int64(bits.LeadingZeros8(b))
					return false
				}
			}
			return true
		})
	} else if r.from < r.to {
		next := r.from // the first bit that may be 0
		err = t.walkBits(r, func(at uint64, part []byte) bool {
			for i, b := range part {
				first := (at + uint64(i)) * 8
				if next < first {
					return false // zeros that were left out
				}
				ones := uint64(bits.LeadingZeros8(^(b | ^byte(0xff>>(next-first)))))
				if next = first + ones; ones < 8 {
					return false
				}
			}
			return true
		})
		if next < r.to || len(args) <= 3 {
			pos = int64(next)
		}
	}
	c.Integer(pos)
	return err
}

// setRange is SETRANGE.
func (c *client) setRange(tx Txn, args [][]byte) error {
	offset, ok := resp.ParseInt(args[1])
	switch {
	case !ok:
		return errNoInteger
	case offset < 0:
		return refusal("ERR offset is out of range")
	}
	t, err := c.textUnder(tx, args[0])
	if err != nil {
		return err
	}
	n := t.size()
	if len(args[2]) > 0 {
		if offset > mostString {
			return errLongest
		}
		n, err = c.writeAt(tx, args[0], &t, uint64(offset), args[2])
	}
	c.Integer(int64(n))
	return err
}
