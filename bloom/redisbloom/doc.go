// Package redisbloom has the Bloom filters of RedisBloom, the module of Redis
// (since version 8 a part of it) behind BF.RESERVE, BF.ADD, BF.EXISTS, BF.INFO, BF.SCANDUMP and
// BF.LOADCHUNK: it makes, reads and writes them byte for byte, without a server.
//
// A filter is a chain of links, each a Bloom filter of its own. When the last one
// has as many items as it was made for, a new one of twice the capacity (the expansion) and
// half the error is added; so the errors of all add up to at most the one that was asked
// for. A NONSCALING filter is one link, and full at its capacity.
//
// The format is what BF.SCANDUMP returns: pairs of an iterator and a chunk, of
// which the first, with iterator 1, is a header and the others are the links'
// bits. Little-endian, packed, without a checksum:
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
// The bits of all links follow each other in chunks of at most 16 MiB that never
// span two links. The iterator that goes with a chunk is 1 + the number of bytes of bits
// up to its end; with iterator 0 it is over.
//
// MarshalBinary, which Redis does not have, gives the chunks one behind the other:
// header, bits of all links. MarshalText is that in base64.
//
// The facts are those of RedisBloom's main in the middle of 2026; checked with a
// scaling and a NONSCALING filter that its code wrote. Headers without the option
// of 64-bit hashes, of very old releases, are bloom.ErrUnknown. Filters of servers that
// were given a hash seed of their own, which development versions allow, are not
// supported.
//
// What to mind:
//
//   - When scaling, the first link has half the error that was asked for.
//   - Positions are taken modulo the bits rounded up to whole words, or modulo
//     2^n2 where n2 is not 0, as old releases made filters.
//   - Add counts what it changed: an item that is a false positive counts
//     nowhere, and BF.INFO's items are fewer than those added.
//   - An absent key is looked for in every link. A filter that began much too
//     small is slow.
//   - Positions follow by double hashing, which lets small links pass more than
//     theory says of their bits: measured at 1 %, 4.4 times as much with 10 keys (1.05 %,
//     as bits are rounded up), 1.08 times with 100. From 1000 keys on it is as in theory.
//   - The dump has no checksum: keep one beside it.
//   - Old releases cut chunks of 10 MiB, and took error rates above 0.25 as they
//     are; both are read.
//   - Keys that strangers choose can be made to collide: see package bloom.
//
// RedisBloom cannot merge filters, and neither does this package. A filter can not be
// turned into one of package bloom, nor the other way round: the positions of keys
// differ, and the keys are not in it.
//
// Concurrency. A filter that nobody changes can be asked by any number of
// goroutines. Nothing may run beside Add.
package redisbloom
