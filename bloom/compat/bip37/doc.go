// Package bip37 has the Bloom filters of Bitcoin's BIP 37. A client sends such a
// filter to a node, and the node then tells it only of transactions that match. The
// package reads and writes the filter of the message filterload, byte for byte as
// Bitcoin Core's CBloomFilter does.
//
// The format is a CompactSize with the number of bytes, the bytes, and little-endian
// the number of hash functions (4 bytes), the tweak (4) and the flags (1). Hash
// function n is MurmurHash3 x86 32 with the seed n·0xfba4c795 + tweak. It sets the bit
// hash mod (8 · bytes), where bit i is bit i&7 of byte i>>3. A filter of three
// addresses, from Bitcoin Core's tests:
//
//	03           3 bytes
//	61 4e 9b
//	05 00 00 00  5 hash functions
//	00 00 00 00  tweak
//	01           UpdateAll
//
// The limits are 36,000 bytes and 50 hash functions. A node bans a client that sends more.
//
// All this follows BIP 37 and Bitcoin Core's CBloomFilter. It was checked with the filters
// and hashes of Core's tests (bloom_tests, hash_tests).
//
// What to mind:
//
//   - The number of hash functions is computed from a whole number of bits an element,
//     because Core divides integers. So it is often one or two lower than the best number.
//   - A filter has at most 288,000 bits. With 30,000 elements at 1 % it is full, and more
//     elements raise the rate.
//   - A filter of no bytes matches everything, and so does a filter of no hash functions.
//   - An element is added in its serialized form. Transaction ids and outpoints have
//     the byte order of the wire, the reverse of the one in which they are shown. Keys,
//     hashes of keys and other data of scripts are added as they are pushed.
//     AddOutPoint serializes an outpoint.
//   - BIP 37 gives away which addresses a client has. Nodes see the filter, and a node that
//     sees two filters with different tweaks knows that only elements in both can be real.
//     Since 2019 Core serves BIP 37 only if it is configured to.
//
// Transactions are left to programs. A node asks the filter for the id of a transaction, for
// the data that its scripts push and for the outpoints that it spends, and adds outpoints as
// the flags say.
//
// Core cannot merge filters, and neither can this package. A filter cannot be
// converted to one of package bloom or back: the positions of keys differ, and the
// filter does not have the keys.
//
// Concurrency. Any number of goroutines may ask a filter, as long as none changes
// it. A change must run alone.
package bip37
