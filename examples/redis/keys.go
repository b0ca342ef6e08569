package main

import (
	"encoding/binary"
	"hash/maphash"
	"math/bits"
	"sync"
)

// The first byte of a key of the store says what it is. Numbers are big-endian.
//
//	k name         what a name stands for: s and the string, or f and the id of a filter
//	f id           a filter: see record
//	c id gen at    a piece of the filter's dump: see saveFilter
//	l id slot      what BF.ADD and the like have added since: see logRecord
//	d id at        a chunk of a BF.LOADCHUNK that is not complete
//
// The ids of filters are those of the server alone. What has an id that no record has is
// garbage of a deleted filter.
const (
	nameSpace  = 'k'
	filterMeta = 'f'
	pieceSpace = 'c'
	logSpace   = 'l'
	loadSpace  = 'd'
)

// The first byte of the value of a name.
const (
	stringValue = 's'
	filterValue = 'f'
)

// maxName is the longest name, in bytes: the store's limit less the first byte.
const maxName = 1<<16 - 2

func appendNameKey(dst, name []byte) []byte {
	return append(append(dst, nameSpace), name...)
}

// idKey returns a key of a space whose keys begin with the id of a filter.
func idKey(space byte, id uint64, more ...uint64) []byte {
	key := binary.BigEndian.AppendUint64([]byte{space}, id)
	for _, n := range more {
		key = binary.BigEndian.AppendUint64(key, n)
	}
	return key
}

// stripes are locks for names. Whoever changes what a name stands for holds its lock. So
// SET NX, for instance, sees no other change between its question and its write.
type stripes struct {
	seed  maphash.Seed
	locks [256]sync.Mutex
}

// A held set has a bit for each lock that is held.
type held [4]uint64

// lock locks the names. It takes the locks in one order, so that no two callers
// wait for each other.
func (s *stripes) lock(names ...[]byte) (h held) {
	for _, name := range names {
		i := maphash.Bytes(s.seed, name) % uint64(len(s.locks))
		h[i/64] |= 1 << (i % 64)
	}
	h.each(func(i int) { s.locks[i].Lock() })
	return h
}

func (s *stripes) unlock(h held) {
	h.each(func(i int) { s.locks[i].Unlock() })
}

func (h held) each(fn func(i int)) {
	for word, set := range h {
		for ; set != 0; set &= set - 1 {
			fn(64*word + bits.TrailingZeros64(set))
		}
	}
}
