package main

import (
	"iter"
	"maps"
	"net/netip"
	"slices"

	"github.com/shaledb/shale/bloom"
	"github.com/shaledb/shale/bloom/sketch"
)

// A set is an exact set of IPv4 addresses. A single bit set for all of them would take 512
// MiB as soon as a high address comes. So the addresses are divided into blocks of 65,536,
// which begin with the same two bytes. A block exists from its first visitor on.
type set struct {
	blocks map[uint16]*block // by the first two bytes of an address
	count  uint64            // number of addresses
}

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
func (s *set) add(ip [4]byte) (bool, error) {
	high, low := uint16(ip[0])<<8|uint16(ip[1]), uint16(ip[2])<<8|uint16(ip[3])
	b := s.blocks[high]
	if b == nil {
		if s.blocks == nil {
			s.blocks = make(map[uint16]*block)
		}
		b = new(block)
		s.blocks[high] = b
	}
	isNew, err := b.add(low)
	if isNew {
		s.count++
	}
	return isNew, err
}

// add adds a number and reports whether it is new. It turns a list of maxFew
// numbers into bits.
func (b *block) add(low uint16) (isNew bool, err error) {
	if b.bits != nil {
		was, err := b.bits.CheckAndSet(uint64(low))
		return !was, err
	}
	i, found := slices.BinarySearch(b.few, low)
	if found {
		return false, nil
	}
	if len(b.few) < maxFew {
		b.few = slices.Insert(b.few, i, low)
		return true, nil
	}
	b.bits = bloom.Must(sketch.NewBitset(sketch.BitsetOptions{Limit: blockSize}))
	if err := b.bits.Grow(blockSize); err != nil {
		return false, err
	}
	for _, l := range append(b.few, low) {
		if err := b.bits.Set(uint64(l)); err != nil {
			return false, err
		}
	}
	b.few = nil
	return true, nil
}

// all yields the addresses in ascending order.
func (s *set) all() iter.Seq[netip.Addr] {
	return func(yield func(netip.Addr) bool) {
		for _, high := range slices.Sorted(maps.Keys(s.blocks)) {
			for low := range s.blocks[high].all() {
				if !yield(netip.AddrFrom4([4]byte{byte(high >> 8), byte(high), byte(low >> 8), byte(low)})) {
					return
				}
			}
		}
	}
}

// all yields the numbers in ascending order.
func (b *block) all() iter.Seq[uint16] {
	return func(yield func(uint16) bool) {
		if b.bits == nil {
			slices.Values(b.few)(yield)
			return
		}
		for low := range b.bits.All() {
			if !yield(uint16(low)) {
				return
			}
		}
	}
}

// bytes returns about how much memory the set takes.
func (s *set) bytes() (n int) {
	const pointers = 64 // bytes of a block itself and of its entry in the map
	for _, b := range s.blocks {
		n += pointers + 2*cap(b.few)
		if b.bits != nil {
			n += blockSize / 8
		}
	}
	return n
}
