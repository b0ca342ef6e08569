// Package blobloom reads, writes and asks blocked Bloom filters of
// github.com/greatroar/blobloom, which the comments here call the peer. It writes and reads
// the same bytes as Dump and Loader of the peer.
//
// The bytes stand in this order, all numbers little-endian:
//
//	 0          8         12            16       20        64
//	|"blobloom"|version 0|blocks minus 1|hashes|comment|blocks of 64 bytes
//
// The comment has at most 44 bytes. Zeros fill the rest, and there is no other zero in it.
// Bit i of a block is bit i&7 of its byte i>>3. A filter of one block and 3 hashes, with the
// comment "c" and the hash 0x0000000100000002, is 128 bytes:
//
//	62 6c 6f 62 6c 6f 6f 6d  "blobloom"
//	00 00 00 00              version
//	00 00 00 00              one block
//	03 00 00 00              3 hashes
//	63 00 … 00               comment
//	48 00 … 00               bits 3 and 6
//
// All this describes v0.8.0. Filters that v0.8.0 wrote are read here with the same answers,
// and the other way round.
//
// What to mind:
//
//   - The peer has no hash function. Its users hash keys to 64 bits in a way of their own,
//     often with xxhash, and the bytes do not say how unless the comment does. Filter has
//     AddHash and MayContainHash for such hashes. Add and MayContain take keys, and need the
//     function in Options.Hash or by SetHash: xxhash.Sum64, for example. Without it
//     MayContain says maybe to every key. With another function than the filter was made
//     with it denies keys that the filter holds.
//   - The number of hashes is one more than the number of bits that a key sets, because the
//     one that chooses the block counts too.
//   - Two keys of a block have the same bits with the probability 2^-18, however many bits
//     that are. So the rate is never below the number of keys in a block divided by 2^18.
//     Measured with the peer, 100,000 keys: 0.0135 % where its Optimize was asked for 0.01 %,
//     and 0.0045 % where it was asked for 0.0001 %. New and NewFilter reckon with that, and
//     refuse rates that cannot be had.
//   - The block follows from 32 bits of the hash. With hundreds of millions of keys in one
//     filter more of them share all bits, and the rate rises.
//   - The format has no checksum. Store one next to it.
//
// A filter cannot be converted to a bloom.Blocked or back: the positions of keys differ, and
// the filter does not have the keys.
//
// Concurrency. Any number of goroutines may ask a filter, as long as none changes it. A
// change must run alone. The peer's SyncFilter has the same form.
package blobloom
