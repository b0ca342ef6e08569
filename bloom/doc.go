// Package bloom has Bloom filters: sets that answer "certainly not" or "maybe",
// in ten bits a key. It is made for stores that ask many filters for keys that
// mostly are not there, and is usable alone: beside the standard library it
// imports xorfilter, which solves fuse filters.
//
// Blocked is a finished filter in a stable byte format, AtomicBlocked one in
// memory that grows while it is asked. Fuse is a finished filter with fewer false
// positives in the same memory, which takes longer to build; Static is either, as
// its bytes tell. All take a 64-bit hash of the key, so that a key asked of many
// filters is hashed once: that of Hash, or for a Static that of its Hasher.
//
// Guarantees. No is certain: a filter never denies a hash that it was built
// from. Bytes that are damaged, cut, or of a kind, version or hash that this
// package does not know are an error of OpenBlocked, OpenFuse and OpenStatic,
// never a filter, and no bytes make them panic; the caller must take the error
// for maybe. The same hashes give the same Blocked on every machine. Questions
// and additions allocate nothing. How many absent keys pass is known beforehand
// (PredictFPR: 0.96 % at 10 bits a key, 0.0092 % at 20; FuseFPR), and is the same
// for counters as for random keys.
//
// Concurrency. A Blocked, Fuse or Static may be asked by any number of
// goroutines, as long as nobody changes the bytes that it was opened from. An
// AtomicBlocked may be asked and added to by any number of goroutines. There are
// no locks.
//
// The formats stand in docs/FORMAT.md, section 4, under "Filter block". A Blocked
// is lines of 64 bytes and a trailer of 32. A key sets a few bits of one line, so
// that a question costs one cache miss. The filter of "key-0" and "key-1" with 10
// bits a key is one line and the trailer:
//
//	00 00 00 00 00 00 00 00  00 02 00 00 00 80 00 00   Hash("key-0") = caa56e2e1cfe5b91
//	00 00 00 00 20 00 08 00  00 00 00 00 20 00 00 80     sets bits 419 406 300 255 388 111,
//	00 08 00 00 00 10 00 00  00 00 00 00 00 00 00 00   Hash("key-1") = fe328eca36176afe
//	10 00 40 00 08 80 00 00  00 00 00 00 00 00 00 00     sets bits 431 165 73 267 229 179
//	01 01 01 01              kind, version, hash, units
//	06 00 00 00              6 probes; no second unit; zero
//	02 00 00 00              2 keys
//	01 00 00 00 00 00 00 00  1 line; no second unit
//	00 00 00 00 00 00 00 00  seed
//	1b 11 9c 7b              crc32c of all that is above
//
// Which one. A Blocked is built in 5 to 10 ns a key and asked at the cost of one
// cache line. A Fuse takes 40 to 60 ns a key to build, and lets pass 0.39 % where a
// Blocked of 10 bits lets pass 0.96, and 0.006 % where one of 16 bits lets pass
// 0.054; out of cache it costs three lines, loaded side by side. Keys can not be
// taken out or listed, and none can be added to either.
//
// Strangers. Neither Hash nor HashXXH3 is a secret function: whoever may choose
// keys can choose ones that all pass together, and whoever knows all keys of a
// filter ones with which no fuse filter can be built. That costs time but never
// makes a wrong no. HashSipHash with a seed that they do not know prevents both.
package bloom
