package redisbloom

import "encoding/binary"

// murmurM is the multiplier of MurmurHash64A. RedisBloom also uses it as the seed
// of the first hash.
const murmurM = 0xc6a4a7935bd1e995

// murmur64A is MurmurHash64A (Appleby 2008, public domain).
func murmur64A(key []byte, seed uint64) uint64 {
	h := seed ^ uint64(len(key))*murmurM
	for ; len(key) >= 8; key = key[8:] {
		k := binary.LittleEndian.Uint64(key) * murmurM
		k = (k ^ k>>47) * murmurM
		h = (h ^ k) * murmurM
	}
	if len(key) > 0 {
		var tail [8]byte
		copy(tail[:], key)
		h = (h ^ binary.LittleEndian.Uint64(tail[:])) * murmurM
	}
	h = (h ^ h>>47) * murmurM
	return h ^ h>>47
}

// hash returns the two hashes of a key. The first one is the seed of the second.
func hash(key []byte) (a, b uint64) {
	a = murmur64A(key, murmurM)
	return a, murmur64A(key, a)
}
