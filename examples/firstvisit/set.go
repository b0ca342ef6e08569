package main

import (
	"slices"

	"github.com/shaledb/shale/bloom/sketch"
)

// A set is an exact set of IPv4 addresses. A single bit set for all of them would take 512
// MiB as soon as a high address comes. So the addresses are divided into blocks of 65,536,
// which begin with the same two bytes. A block exists from its first visitor on.
type set map[uint16]*block

// A block is a set of numbers of two bytes, the last two of an address. It begins as a
// sorted list, and becomes a bit set as soon as that is not larger than the list. So a
// block never takes more than 8 KiB.
type block struct {
	few  []uint16
	bits *sketch.Bitset // nil: the members are in few
}

const (
	blockSize = 1 << 16
	maxFew    = blockSize / 8 / 2 // two bytes for each number in the list
)

// add adds an address and reports whether it is new.
func (s set) add(ip [4]byte) (bool, error) {
	high, low := uint16(ip[0])<<8|uint16(ip[1]), uint16(ip[2])<<8|uint16(ip[3])
	if s[high] == nil {
		s[high] = new(block)
	}
	return s[high].add(low)
}

// add adds a number and reports whether it is new. It turns a list of maxFew numbers into bits.
func (b *block) add(low uint16) (isNew bool, err error) {
	if b.bits != nil {
		was, err := b.bits.CheckAndSet(uint64(low))
		return !was, err
	}
	i, found := slices.BinarySearch(b.few, low)
	if found {
		return false, nil
	}
	b.few = slices.Insert(b.few, i, low)
	if len(b.few) <= maxFew {
		return true, nil
	}
	if b.bits, err = sketch.NewBitset(sketch.BitsetOptions{Limit: blockSize}); err != nil {
		return false, err
	}
	for _, l := range b.few {
		if err := b.bits.Set(uint64(l)); err != nil {
			return false, err
		}
	}
	b.few = nil
	return true, nil
}

// bytes returns about how much memory the set takes.
func (s set) bytes() (n int) {
	const pointers = 64 // bytes of a block itself and of its entry in the map
	for _, b := range s {
		n += pointers + 2*cap(b.few)
		if b.bits != nil {
			n += b.bits.SizeBytes()
		}
	}
	return n
}
