// Package hashes has more hash functions for bloom.FilterOptions, and their ids. They are
// not in package bloom itself, so that a program that imports bloom does not link them.
//
//	f, err := bloom.NewFilter(bloom.FilterOptions{
//		Keys: 1e6, Hash: hashes.XXH3, HashID: hashes.IDXXH3,
//	})
//
// Most programs need none of them. bloom.Murmur3 is the default, and bloom.HashXXH3,
// with 64 bits, is as fast as any for short keys. Use this package if you have such
// digests already, if another program has to ask the filter with the same function,
// or if a rule prescribes one.
//
// Times in nanoseconds, for keys of
//
//	            8     16    100   1000 bytes
//	XXH3      3.6    3.8    7.2     29
//	Murmur3   3.7    4.3     14    107
//	FNV       5.6     10     88    947
//	FNVa      7.0     15    110   1229
//	CRC        22     42     92    913
//	SHA1       65     63     96    506
//	MD5        83     80    142   1115
//
// A Filter copies the key for a function that is not of package bloom, which
// takes another 7.
//
// DoubleFNV and Positions are for bit arrays of other programs, and not for
// bloom.FilterOptions.
//
// None of the functions allocates or keeps the key. None has a seed, so someone who chooses
// the keys can choose keys that pass. Use bloom.HashSipHash with a secret seed against
// that. MD5 and SHA1 do not help, because they have no secret either.
package hashes

import (
	"crypto/md5"
	"crypto/sha1"
	"encoding/binary"
	"hash/crc64"
	"math/bits"

	"github.com/shaledb/shale/bloom"
	"github.com/zeebo/xxh3"
)

// The ids of the functions, for FilterOptions.HashID. They are written into
// serialized filters and never change.
const (
	IDFNV  bloom.HashID = bloom.FirstOwnHashID + iota // FNV
	IDFNVa                                            // FNVa
	IDCRC                                             // CRC
	IDXXH3                                            // XXH3
	IDMD5                                             // MD5
	IDSHA1                                            // SHA1
)

// ByID returns the function with this id, or nil if it is not one of this package.
// bloom.HashIDOf reads the id of a serialized filter.
func ByID(id bloom.HashID) bloom.Hash128 {
	switch id {
	case IDFNV:
		return FNV
	case IDFNVa:
		return FNVa
	case IDCRC:
		return CRC
	case IDXXH3:
		return XXH3
	case IDMD5:
		return MD5
	case IDSHA1:
		return SHA1
	}
	return nil
}

// The constants of FNV.
const (
	offset64  = 0xcbf29ce484222325
	prime64   = 0x100000001b3
	offset128 = 0x6c62272e07bb0142 // the upper half
	low128    = 0x62b821756295c58d // the lower half of it
	shift128  = 24                 // the prime is 2^88 + prime128
	prime128  = 0x13b
)

// FNV returns FNV-1 and FNV-1a of the key, of 64 bits each, both mixed. It needs no tables.
// It goes byte by byte, so it is fast only for keys of up to 8 bytes.
func FNV(key []byte) (h1, h2 uint64) {
	h1, h2 = offset64, offset64
	for _, b := range key {
		h1 = h1*prime64 ^ uint64(b)
		h2 = (h2 ^ uint64(b)) * prime64
	}
	return mix(h1), mix(h2)
}

// FNVa returns the two halves of FNV-1a of 128 bits, both mixed, the upper half
// first. It is slower than FNV. Use it if you need one digest of 128 bits that is
// easy to write in another program.
func FNVa(key []byte) (h1, h2 uint64) {
	h1, h2 = offset128, low128
	for _, b := range key {
		h2 ^= uint64(b)
		// h1 and h2 times the prime, 2^88 + prime128.
		over, low := bits.Mul64(h2, prime128)
		h1 = h1*prime128 + over + h2<<shift128
		h2 = low
	}
	return mix(h1), mix(h2)
}

var iso, ecma = crc64.MakeTable(crc64.ISO), crc64.MakeTable(crc64.ECMA)

// CRC returns CRC-64 ISO and CRC-64 ECMA of the key, both mixed. Checksums are made to find
// damage, and they are linear: someone who knows the form of the keys can write down any
// number of keys with the same checksum. Use it only if you have the checksums already.
func CRC(key []byte) (h1, h2 uint64) {
	return mix(crc64.Checksum(key, iso)), mix(crc64.Checksum(key, ecma))
}

// XXH3 returns the two halves of XXH3 of 128 bits, the lower half first. It is the fastest
// by far for keys of more than about 100 bytes.
func XXH3(key []byte) (h1, h2 uint64) {
	h := xxh3.Hash128(key)
	return h.Lo, h.Hi
}

// MD5 returns the digest as two little-endian words. It is not secure any more, and slow.
// Use it if you have the MD5 of the keys already, or for filters of other programs.
func MD5(key []byte) (h1, h2 uint64) {
	d := md5.Sum(key)
	return binary.LittleEndian.Uint64(d[:]), binary.LittleEndian.Uint64(d[8:])
}

// SHA1 returns the first 16 bytes of the digest as two little-endian words. What MD5
// says of its use holds here too.
func SHA1(key []byte) (h1, h2 uint64) {
	d := sha1.Sum(key)
	return binary.LittleEndian.Uint64(d[:]), binary.LittleEndian.Uint64(d[8:])
}

// mix spreads every bit of h over the whole word, and maps different words to different
// words. A filter takes positions from the highest bits, which the last bytes of a key
// hardly change in FNV and CRC. It is the finalizer of murmur3.
func mix(h uint64) uint64 {
	h ^= h >> 33
	h *= 0xff51afd7ed558ccd
	h ^= h >> 33
	h *= 0xc4ceb9fe1a85ec53
	return h ^ h>>33
}
