// Package bip37 has the Bloom filters of Bitcoin's BIP 37, which a client sends
// to a node so that it hears of its own transactions only: the filter of the
// message filterload, byte for byte as Bitcoin Core's CBloomFilter writes it.
//
// The format is a CompactSize with the number of bytes, the bytes, and little-endian
// the number of hash functions (4 bytes), the tweak (4) and the flags (1). Hash
// function n is MurmurHash3 x86 32 with seed n·0xfba4c795 + tweak; it sets the bit
// hash mod (8 · bytes), where bit i is bit i&7 of byte i>>3. A filter of three
// addresses, from Bitcoin Core's tests:
//
//	03           3 bytes
//	61 4e 9b
//	05 00 00 00  5 hash functions
//	00 00 00 00  tweak
//	01           UpdateAll
//
// The limits are 36,000 bytes and 50 hash functions: a node bans who sends more.
//
// The facts are those of BIP 37 and of Bitcoin Core's CBloomFilter; checked with
// the filters and hashes of its tests (bloom_tests, hash_tests).
//
// What to mind:
//
//   - The number of hash functions comes from a whole number of bits an element:
//     Core's division of integers. So it is often one or two less than would be best.
//   - A filter has at most 288,000 bits: with 30,000 elements at 1 % it is full, and more
//     raise the rate.
//   - A filter of no bytes matches everything, one of no hash functions too.
//   - What is added is the serialized form: a transaction id and an outpoint are in the
//     order of the wire, the reverse of what is shown; keys, hashes of keys and other data
//     of scripts as they are pushed. AddOutPoint does it for outpoints.
//   - BIP 37 gives away which addresses a client has: nodes see the filter, and two filters
//     with other tweaks cut each other down. Since 2019 Core does not serve it unless told to.
//
// What a filter says of a whole transaction, and how a node adds to it by the
// flags, is left to programs that can read transactions.
//
// Core cannot merge filters, and neither does this package. A filter can not be
// turned into one of package bloom, nor the other way round: the positions of keys
// differ, and the keys are not in it.
//
// Concurrency. A filter that nobody changes can be asked by any number of
// goroutines. Nothing may run beside a change.
package bip37
