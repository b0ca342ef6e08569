package bloom

import "fmt"

// A HashID names the function that made the hashes in a filter. It is part of
// the file format: numbers are never changed and never used again.
type HashID uint8

// The hash functions.
const (
	// HashMurmur3 is Hash: not keyed, seed 0.
	HashMurmur3 HashID = 1
	HashXXH3    HashID = 2
	HashSipHash HashID = 3
)

// A Hasher is a hash function with its seed: what a filter's hashes were made
// with and what it has to be asked with. The zero Hasher is Hash. Hashers are
// compared with ==.
type Hasher struct {
	id   HashID // 0 for HashMurmur3, so that the zero Hasher is equal to it
	seed uint64
}

// NewHasher returns the function of an id with a seed, or an error that is
// ErrUnknown if there is none. HashMurmur3 has no seed but 0.
func NewHasher(id HashID, seed uint64) (Hasher, error) {
	switch {
	case id != HashMurmur3:
		return Hasher{}, fmt.Errorf("bloom: %w: hash %d", ErrUnknown, id)
	case seed != 0:
		return Hasher{}, fmt.Errorf("bloom: %w: seed %d", ErrUnknown, seed)
	}
	return Hasher{}, nil
}

// Hash returns the hash of key. Nothing is kept or allocated.
func (h Hasher) Hash(key []byte) uint64 {
	return Hash(key)
}

// ID returns the function's number.
func (h Hasher) ID() HashID {
	if h.id == 0 {
		return HashMurmur3
	}
	return h.id
}

// Seed returns the function's seed or key.
func (h Hasher) Seed() uint64 { return h.seed }
