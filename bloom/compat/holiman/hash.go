package holiman

import (
	"encoding/binary"
	"hash"
	"sync"
)

// First8 is the hash of keys that are digests already: their first 8 bytes, big-endian, as
// Ethereum nodes take them from Keccak-256. Missing bytes count as zeros. Other keys need a
// real hash function.
func First8(key []byte) uint64 {
	var b [8]byte
	copy(b[:], key)
	return binary.BigEndian.Uint64(b[:])
}

// Sum64 returns a function for Options.Hash that hashes as those hash.Hash64 do which newHash
// makes. It is for filters whose users give the peer's Add such a hash: Sum64(fnv.New64a).
// Several goroutines may call the function at once.
func Sum64(newHash func() hash.Hash64) func(key []byte) uint64 {
	pool := sync.Pool{New: func() any { return newHash() }}
	return func(key []byte) uint64 {
		h := pool.Get().(hash.Hash64)
		h.Reset()
		_, _ = h.Write(key) // a hash.Hash never returns an error
		sum := h.Sum64()
		pool.Put(h)
		return sum
	}
}
