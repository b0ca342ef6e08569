// Package bitsandblooms reads, writes and asks filters of version 3 of
// github.com/bits-and-blooms/bloom. It writes and reads the same bytes as WriteTo,
// ReadFrom, MarshalBinary, GobEncode, MarshalJSON and UnmarshalJSON of that package, which
// the comments here call the peer.
//
// The format is a row of big-endian words of 64 bits: m, the number of bits; k, the number
// of probes; the length of the bitset in bits, which is m; and the bitset. Bit i is bit
// i&63 of word i>>6. New(64, 3) with the key "a" is written as 32 bytes:
//
//	00 00 00 00 00 00 00 40  m = 64
//	00 00 00 00 00 00 00 03  k = 3
//	00 00 00 00 00 00 00 40  64 bits follow
//	04 00 00 00 00 00 02 00  bits 9 and 58: two of the probes meet
//
// In JSON that is {"m":64,"k":3,"b":"..."}, where b is the last two of these
// words in URL-safe base64.
//
// All this describes v3.7.1. It was checked with a filter that v3.7.1 wrote in both
// ways and with its Locations.
//
// What to mind:
//
//   - m is not rounded: positions are taken modulo m itself, and each costs a division.
//   - Version 2 and older had other hashes in the same format. The bytes do not show the
//     difference: such a filter answers at random, and denies keys that it holds.
//   - The bitset may be longer than m if the filter was made by the peer's From or
//     FromWithM. Such filters are read, and written with the same length.
//   - Positions follow from four hashes, with which very small filters let more keys
//     pass than theory says: 1.3 times as many with 10 keys at 1 %. From 100 keys up
//     the rate is that of theory.
//   - The format has no checksum. Store one next to it.
//   - Strangers who choose the keys can make them collide: see package bloom.
//
// A filter cannot be converted to one of package bloom or back: the positions of keys
// differ, and the filter does not have the keys.
//
// Concurrency. Any number of goroutines may ask a filter, as long as none changes
// it. A change must run alone.
package bitsandblooms
