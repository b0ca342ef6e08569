// Package bitsandblooms reads, writes and asks filters of version 3 of
// github.com/bits-and-blooms/bloom, byte for byte as its WriteTo, ReadFrom,
// MarshalBinary, GobEncode, MarshalJSON and UnmarshalJSON do.
//
// The format is big-endian words of 64 bits: m, the number of bits; k, the number of
// probes; the length of the bitset in bits, which is m; and the bitset, bit i of
// which is bit i&63 of word i>>6. The filter of "a" by New(64, 3), 32 bytes:
//
//	00 00 00 00 00 00 00 40  m = 64
//	00 00 00 00 00 00 00 03  k = 3
//	00 00 00 00 00 00 00 40  64 bits follow
//	04 00 00 00 00 00 02 00  bits 9 and 58: two of the probes meet
//
// In JSON that is {"m":64,"k":3,"b":"..."}, where b is the last two of these in
// URL-safe base64.
//
// The facts are those of v3.7.1, checked with a filter that it wrote in both
// ways and with its Locations.
//
// What to mind:
//
//   - m is not rounded: positions are taken modulo m itself, and each costs a
//     division.
//   - Version 2 and older had other hashes in the same format. Nothing in the
//     bytes tells: such a filter answers at random, and denies keys that are there.
//   - The bitset may be longer than m if the filter was made by the peer's From
//     or FromWithM. It is read and written so.
//   - Positions follow from four hashes, which lets very small filters pass more
//     than theory says: 1.3 times as much with 10 keys at 1 %. From 100 keys on it is as
//     in theory.
//   - The format has no checksum: keep one beside it.
//   - Keys that strangers choose can be made to collide: see package bloom.
//
// A filter can not be turned into one of package bloom, nor the other way
// round: the positions of keys differ, and the keys are not in it.
//
// Concurrency. A filter that nobody changes can be asked by any number of
// goroutines. Nothing may run beside a change.
package bitsandblooms
