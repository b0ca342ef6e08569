// Package hashes has hash functions for bloom.FilterOptions beside those of package
// bloom, and their ids. They stand apart so that importing bloom links none of
// them.
//
//	f, err := bloom.NewFilter(bloom.FilterOptions{
//		Keys: 1e6, Hash: hashes.XXH3, HashID: hashes.IDXXH3,
//	})
//
// Most programs need none: bloom.Murmur3 is the default, and bloom.HashXXH3 with 64 bits
// as fast as any for short keys. These are for who has such digests anyway, needs a filter that another
// program can ask by the same function, or has to use what a rule prescribes.
//
// In nanoseconds, for keys of
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
// A Filter copies the key for a function that is not of package bloom, which takes 7 more.
//
// None allocates, keeps the key, or has a seed: who chooses the keys can choose ones that
// pass. Against that, bloom.HashSipHash with a secret seed is the one to use, not
// MD5 or SHA1, which are not keyed.
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

// The ids of the functions, for FilterOptions.HashID. They stand in serialized filters
// and never change.
const (
	IDFNV  bloom.HashID = bloom.FirstOwnHashID + iota // FNV
	IDFNVa                                            // FNVa
	IDCRC                                             // CRC
	IDXXH3                                            // XXH3
	IDMD5                                             // MD5
	IDSHA1                                            // SHA1
)

// ByID returns the function of an id, or nil if it is not one of this package.
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

// FNV's constants.
const (
	offset64  = 0xcbf29ce484222325
	prime64   = 0x100000001b3
	offset128 = 0x6c62272e07bb0142 // the upper half
	low128    = 0x62b821756295c58d // the lower half of it
	shift128  = 24                 // the prime is 2^88 + prime128
	prime128  = 0x13b
)

// FNV is the pair of FNV-1 and FNV-1a, of 64 bits each, of the key, mixed. It needs no
// tables, goes byte by byte, and is quick for keys of up to 8 bytes only.
func FNV(key []byte) (h1, h2 uint64) {
	h1, h2 = offset64, offset64
	for _, b := range key {
		h1 = h1*prime64 ^ uint64(b)
		h2 = (h2 ^ uint64(b)) * prime64
	}
	return mix(h1), mix(h2)
}

// FNVa is FNV-1a of 128 bits, mixed: upper half, lower half. It is for who must
// have one digest of 128 bits by hand; it is slower than FNV.
func FNVa(key []byte) (h1, h2 uint64) {
	h1, h2 = offset128, low128
	for _, b := range key {
		h2 ^= uint64(b)
		// Times 2^88 + prime128.
		over, low := bits.Mul64(h2, prime128)
		h1 = h1*prime128 + over + h2<<shift128
		h2 = low
	}
	return mix(h1), mix(h2)
}

var iso, ecma = crc64.MakeTable(crc64.ISO), crc64.MakeTable(crc64.ECMA)

// CRC is the pair of CRC-64 ISO and ECMA of the key, mixed. Checksums find damage,
// but they are linear: whoever knows the form of the keys writes down as many with
// one checksum as they like. For who has them anyway.
func CRC(key []byte) (h1, h2 uint64) {
	return mix(crc64.Checksum(key, iso)), mix(crc64.Checksum(key, ecma))
}

// XXH3 is XXH3 of 128 bits: lower half, upper half. For keys of more than some 100 bytes,
// where it is the fastest by far.
func XXH3(key []byte) (h1, h2 uint64) {
	h := xxh3.Hash128(key)
	return h.Lo, h.Hi
}

// MD5 is the digest as two little-endian words. It is broken as a secure hash and slow
// as another one. For keys whose MD5 is there already, or other programs' filters.
func MD5(key []byte) (h1, h2 uint64) {
	d := md5.Sum(key)
	return binary.LittleEndian.Uint64(d[:]), binary.LittleEndian.Uint64(d[8:])
}

// SHA1 is the first 16 bytes of the digest as two little-endian words. What is said of
// MD5 holds.
func SHA1(key []byte) (h1, h2 uint64) {
	d := sha1.Sum(key)
	return binary.LittleEndian.Uint64(d[:]), binary.LittleEndian.Uint64(d[8:])
}

// mix spreads every bit of h over the whole word, one to one: a filter takes its
// places from the highest bits, which FNV and CRC hardly change for the last bytes of
// a key. It is murmur3's last step.
func mix(h uint64) uint64 {
	h ^= h >> 33
	h *= 0xff51afd7ed558ccd
	h ^= h >> 33
	h *= 0xc4ceb9fe1a85ec53
	return h ^ h>>33
}
