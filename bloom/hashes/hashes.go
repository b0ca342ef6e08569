// Package hashes makes hash functions for bloom.FilterOptions of those of the standard library.
// It is not in package bloom itself, so that a program that imports bloom does not link it.
//
//	f, err := bloom.NewFilter(bloom.FilterOptions{
//		Keys: 1e6, Hash: hashes.Of(fnv.New128a), HashID: bloom.FirstOwnHashID,
//	})
//
// Most programs need none of them. bloom.Murmur3 is the default, and bloom.HashXXH3 is as fast
// as any. Use this package if another program has to ask the filter with the same function, or
// if a rule prescribes one.
//
// DoubleFNV, Murmur32 and Positions are for bit arrays of other programs, and not for
// bloom.FilterOptions.
//
// A function that is not a hash.Hash is a bloom.Hash128 after a line or two around it. Two kinds are left out
// on purpose. CityHash is for long keys what bloom.HashXXH3 is, which is newer and needs no other module.
// BKDRHash, JSHash, RSHash and others of 32 bits mix badly and have too few bits: with 10 million keys, one
// absent key in 430 has the hash of a present one, and passes a filter of any size.
//
// None of the functions has a seed, so someone who chooses the keys can choose keys that pass.
// Use bloom.HashSipHash with a secret seed against that. MD5 and SHA-1 do not help, because they
// have no secret either.
package hashes

import (
	"encoding/binary"
	"fmt"
	"hash"
	"sync"

	"github.com/shaledb/shale/bloom"
	"github.com/shaledb/shale/bloom/internal/form"
)

// second is what the second word is computed with where a digest has only one.
const second = 0x9e3779b97f4a7c15

// Of returns a function for filters that hashes with the hash.Hash that newHash makes, such as
// fnv.New64a, md5.New or sha1.New. Its words are the first 16 bytes of the digest as two
// little-endian words, each mixed: a filter takes positions from the highest bits, which the
// last bytes of a key hardly change in FNV and CRC-64. A digest of less than 16 bytes has one
// word, and the second is computed from it: see bloom.Hasher.Hash128. Of panics if a digest has
// less than 8 bytes, which are too few for a filter.
//
// The function keeps nothing of the key, and any number of goroutines may call it.
//
// Filters contain what it returns, so that never changes.
func Of[H hash.Hash](newHash func() H) bloom.Hash128 {
	if n := newHash().Size(); n < 8 {
		panic(fmt.Sprintf("hashes: a digest of %d bytes", n))
	}
	type state struct {
		h   H
		sum []byte
	}
	pool := sync.Pool{New: func() any { return &state{h: newHash()} }}
	return func(key []byte) (h1, h2 uint64) {
		s := pool.Get().(*state)
		s.h.Reset()
		_, _ = s.h.Write(key) // it never fails: see hash.Hash
		s.sum = s.h.Sum(s.sum[:0])
		h1 = form.Finish(binary.LittleEndian.Uint64(s.sum))
		if len(s.sum) < 16 {
			h2 = form.Finish(h1 + second)
		} else {
			h2 = form.Finish(binary.LittleEndian.Uint64(s.sum[8:]))
		}
		pool.Put(s)
		return h1, h2
	}
}
