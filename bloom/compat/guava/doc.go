// Package guava reads, writes and asks Bloom filters of Google's Guava
// (com.google.common.hash.BloomFilter), so that Java programs and Go programs can share
// filters. It writes and reads the same bytes as Guava's writeTo and readFrom.
//
// The format, in the words of Java: a byte with the number of the strategy, an unsigned
// byte with the number of hash functions k, a big-endian int with the number L of
// longs, and L big-endian longs. Bit i is bit i&63 of long i>>6. New(1, 0.5) with the
// one key "a" is written as 14 bytes:
//
//	01                       strategy MURMUR128_MITZ_64
//	01                       k = 1
//	00 00 00 01              L = 1
//	00 00 00 00 00 00 02 00  bit 9
//
// The format is the same in all releases. It was checked with filters that Guava 31.1
// wrote, of both strategies, five funnels of Guava's, and eight funnels as programs write
// them. Java's own serialization (ObjectOutputStream) is another format, which this package
// does not read.
//
// What to mind:
//
//   - The bytes do not say which funnel made them. Ask a filter with the method that
//     belongs to the funnel by which its keys were added; see the table below. Otherwise it
//     answers at random, and denies keys that it holds.
//   - Guava rounds the bits up to whole longs, and takes positions modulo the
//     rounded number.
//   - MITZ_32, the strategy of Guava 11 to 16, has 31-bit positions: bits past 2^31 are
//     never set, and larger filters have a higher rate.
//   - Both strategies use double hashing, with which small filters let more keys pass
//     than theory says of their bits: measured at 1 %, 4.4 times as many with 10 keys
//     (1.05 %, as bits are rounded up), and 1.09 times with 100. From 1000 keys up
//     the rate is that of theory.
//   - For few keys, releases differ in how k follows from the rate: see Options.K31. This
//     does not matter for reading, because k is in the bytes.
//   - Strangers who choose the keys can make them collide: see package bloom.
//
// The methods and their funnels:
//
//	Funnels.byteArrayFunnel()        Add, MayContain
//	Funnels.stringFunnel(UTF_8)      AddString, MayContainString
//	Funnels.unencodedCharsFunnel()   NewOf, with Sink.PutUnencodedChars
//	Funnels.longFunnel()             NewOf, with Sink.PutLong
//	Funnels.integerFunnel()          NewOf, with Sink.PutInt
//	Funnels.sequentialFunnel(...)    NewOf, with Sequence
//
// For a funnel that somebody wrote there is NewOf too: a function puts the fields of a value
// into a Sink, which has the methods of Guava's PrimitiveSink and writes the same bytes.
//
// A filter cannot be converted to one of package bloom or back: the positions of keys
// differ, and the filter does not have the keys.
//
// Concurrency. Any number of goroutines may ask a filter, Put into it, clone it and count its bits
// (FPR, EstimatedCount), as in Java, where put takes no lock either. Every other change must run alone, and
// so must writing: write a Clone.
package guava
