// Package holiman reads, writes and asks Bloom filters of
// github.com/holiman/bloomfilter/v2, which the comments here call the peer. Ethereum nodes
// keep such filters. It writes and reads the peer's three forms: the plain bytes of
// MarshalBinary and GobEncode, the gzip of WriteTo and WriteFile, and the JSON of
// MarshalJSON.
//
// The plain bytes stand in this order, all numbers little-endian, each a word of 64 bits:
//
//	 0       8       12 20 28 36    36+8k                         the last 48
//	|8 zeros|"v02\n"|k |n |m |seeds|⌈m/64⌉ words with the m bits|SHA-384 of all before it|
//
// k is the number of probes and of seeds, n how many keys were added, and m the number of
// bits. Bit i is bit i&63 of word i>>6. A filter of 64 bits with the seeds 1 and 2, to which
// the hash 5 was added, is 108 bytes:
//
//	00 00 00 00 00 00 00 00 76 30 32 0a
//	02 00 00 00 00 00 00 00  k = 2
//	01 00 00 00 00 00 00 00  n = 1
//	40 00 00 00 00 00 00 00  m = 64
//	01 00 00 00 00 00 00 00  seeds
//	02 00 00 00 00 00 00 00
//	06 00 00 00 00 00 00 00  bits 1 and 2
//	f5 f0 d0 9b … 6f f9 15   SHA-384
//
// In JSON that is {"version":"v02\n","bits":[6],"keys":[1,2],"m":64,"n":1}. It has no
// checksum.
//
// All this describes v2.0.3. Filters that v2.0.3 wrote in the three forms are read here with
// the same answers, and the other way round. The plain bytes and the JSON are the same bit
// for bit. Of the gzip, the content is; compressed bytes differ between versions of Go.
//
// What to mind:
//
//   - The peer has no hash function. Its users give it a hash.Hash64 that has hashed the key,
//     or 64 bits of hash, and the bytes do not say which. Filter has AddHash and
//     MayContainHash for such hashes. Add and MayContain take keys, and need the function in
//     Options.Hash or by SetHash. Sum64 makes one of a hash.Hash64, and First8 is the one for
//     keys that are digests already. Without a function MayContain says maybe to every key.
//     With another function than the filter was made with it denies keys that the filter
//     holds.
//   - The seeds are random for each filter, so two filters can be united only if one was made
//     from the other: see Options.Seeds.
//   - m is not rounded: positions are taken modulo m itself, and each costs a division.
//   - A gzip stream can be a thousand times smaller than the filter in it. For streams from
//     strangers use ReadMax, which takes a limit.
//
// A filter cannot be converted to one of package bloom or back: the positions of keys
// differ, and the filter does not have the keys.
//
// Concurrency. Any number of goroutines may ask a filter, as long as none changes it. A
// change must run alone. The peer has a lock in each filter instead.
package holiman
