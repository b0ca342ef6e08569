// Package redisbloom makes, reads and writes the Bloom filters of RedisBloom, byte for byte
// and without a server. RedisBloom is the module of Redis (since version 8 a part of it)
// behind BF.RESERVE, BF.ADD, BF.EXISTS, BF.INFO, BF.SCANDUMP and BF.LOADCHUNK.
//
// A filter is a chain of links. Each link is a Bloom filter, made for a number of items.
// When the last link is full, a new one is added, with twice the capacity (the expansion)
// and half the error. So the errors of all links add up to at most the error that was asked
// for. A NONSCALING filter has one link, and is full at its capacity.
//
// The format is that of BF.SCANDUMP, which returns pairs of an iterator and a chunk. The
// first pair, with iterator 1, is a header. The others hold the bits of the links. The
// header is little-endian and packed, and has no checksum:
//
//	 0    8        12      16     20
//	|items|links n|options|growth|n links of 53 bytes
//
//	 0     8    16    24    32  40     44      52
//	|bytes|bits|items|error|bpe|hashes|entries|n2|   a link
//
// The header of NewFilter(Options{Capacity: 1, ErrorRate: 0.5, NonScaling: true}):
//
//	00 00 00 00 00 00 00 00  01 00 00 00  0d 00 00 00  02 00 00 00
//	08 00 00 00 00 00 00 00  40 00 00 00 00 00 00 00  00 00 00 00 00 00 00 00
//	...
//
// The bits of the links follow in chunks of at most 16 MiB. A chunk never spans
// two links. Its iterator is 1 plus the number of bytes of bits up to its end.
// Iterator 0 ends the dump.
//
// MarshalBinary, which Redis does not have, returns the chunks one after the other: the
// header, then the bits of all links. MarshalText returns the same in base64.
//
// All this describes RedisBloom's main in the middle of 2026. It was checked with a scaling
// and a NONSCALING filter that RedisBloom's code wrote. Headers of very old releases,
// without the option of 64-bit hashes, are bloom.ErrUnknown. Development versions allow a
// server to have a hash seed of its own; filters of such servers are not supported.
//
// What to mind:
//
//   - The first link of a scaling filter has half the error that was asked for.
//   - Positions are taken modulo the bits, rounded up to whole words. In filters of old
//     releases n2 is not 0, and positions are taken modulo 2^n2.
//   - Add counts only items that changed a bit. An item that is a false positive counts
//     nowhere, so that BF.INFO reports fewer items than were added.
//   - A question for an absent key asks every link. A filter that began much too
//     small is slow.
//   - Positions follow by double hashing, with which small links let more keys pass
//     than theory says of their bits: measured at 1 %, 4.4 times as many with 10 keys
//     (1.05 %, as bits are rounded up), and 1.08 times with 100. From 1000 keys up
//     the rate is that of theory.
//   - The dump has no checksum. Store one next to it.
//   - Old releases write chunks of 10 MiB, and take error rates above 0.25 as
//     they are. Both can be read.
//   - Strangers who choose the keys can make them collide: see package bloom.
//
// NewLineShape is no filter of RedisBloom. It is for programs that keep bits in a store, such as shaled: of a key, all bits of a
// link lie in 64 bytes. Its header ends in a byte of 2, which RedisBloom refuses.
//
// RedisBloom cannot merge filters, and neither can this package. A filter cannot be
// converted to one of package bloom or back: the positions of keys differ, and the
// filter does not have the keys.
//
// Concurrency. Any number of goroutines may ask a filter, as long as none changes
// it. Add must run alone.
package redisbloom
