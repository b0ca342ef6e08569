// Package guava reads, writes and asks Bloom filters of Google's Guava
// (com.google.common.hash.BloomFilter), byte for byte as its writeTo and readFrom
// do, so that Java programs and Go programs can share filters.
//
// The format, in the words of Java: a byte with the number of the strategy, an
// unsigned byte with the number of hash functions k, a big-endian int with the
// number L of longs, and L big-endian longs. Bit i is bit i&63 of long i>>6. The
// filter of one key "a" by New(1, 0.5), 14 bytes:
//
//	01                       strategy MURMUR128_MITZ_64
//	01                       k = 1
//	00 00 00 01              L = 1
//	00 00 00 00 00 00 02 00  bit 9
//
// The bytes are the same in all releases; they were checked with filters that
// Guava 31.1 wrote, of both strategies and five funnels. Java's own serialization
// (ObjectOutputStream) is another format, and is not read.
//
// What to mind:
//
//   - The bytes do not say which funnel made them. A filter that is asked by
//     another method than its keys were added by answers at random, and denies
//     keys that are there. See the table below.
//   - Guava rounds the bits up to whole longs, and takes positions modulo the
//     rounded number.
//   - MITZ_32, the strategy of Guava 11 to 16, has 31-bit positions: bits past
//     2^31 are never set, and the rate of larger filters is worse.
//   - Both strategies hash doubly, which lets small filters pass more than theory
//     says of their bits: measured at 1 %, 4.4 times as much with 10 keys (1.05 %, as
//     bits are rounded up), 1.09 times with 100. From 1000 keys on it is as in theory.
//   - How k follows from the rate differs between releases for few keys: see
//     Options.K31. For reading it does not matter, k is in the bytes.
//   - Keys that strangers choose can be made to collide: see package bloom.
//
// Which method is which funnel:
//
//	Funnels.byteArrayFunnel()        Add, MayContain
//	Funnels.stringFunnel(UTF_8)      AddString, MayContainString
//	Funnels.unencodedCharsFunnel()   AddUTF16, MayContainUTF16
//	Funnels.longFunnel()             AddInt64, MayContainInt64
//	Funnels.integerFunnel()          AddInt32, MayContainInt32
//
// A funnel of one's own is Add of the bytes that it puts into the sink, where
// putInt, putLong, putChar and the like are little-endian and strings have no
// length. Funnels.sequentialFunnel is the bytes of its elements, one after the other.
//
// A filter can not be turned into one of package bloom, nor the other way
// round: the positions of keys differ, and the keys are not in it.
//
// Concurrency. A filter that nobody changes can be asked by any number of
// goroutines. Nothing may run beside a change.
package guava
