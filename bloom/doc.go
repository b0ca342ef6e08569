// Package bloom has Bloom filters: sets that answer "certainly not" or "maybe",
// in ten bits a key. They save whoever asks for keys that mostly are not there the
// dear lookup. It imports nothing of shale; beside the standard library it imports
// xorfilter, which solves fuse filters.
//
// # Which type
//
// Filter, if nothing speaks for another one: New(n, p) with the number of keys and the
// rate of false positives, Add, MayContain. The others have something that it has not:
//
//	              bits a key   passes    add   ask  delete  grows  written  concurrent
//	Filter               9.6   1 %        17    15  no      no     yes      asking
//	Blocked               10   0.96 %  5..10     7  no      no     yes      asking
//	Fuse                 9.1   0.39 % 40..60     8  no      no     yes      asking
//	AtomicBlocked         10   1.00 %     10    10  no      no     no       all
//	Scalable          11..20   1 %        92    36  no      yes    yes      asking
//	Counting              44   1 %         8     7  yes     no     yes      asking
//	Cuckoo              12.6   0.19 %     18     6  yes     no     yes      asking
//	Bitset       1 a number    none        6     4  yes     yes    yes      asking
//	Exact                as the filter below it, and some 80 bytes for each mistake it knows
//
// Times are in nanoseconds, for a filter that fits the processor's cache and a key of
// 16 bytes that is not there. Those of Filter and Scalable include hashing it (4 to 6 ns),
// the others have the hash given. Scalable is at its fourth layer. Blocked and Fuse are
// built at once from all hashes, and are probed in the bytes that they are written as.
// "Asking": any number of goroutines may ask at once, as long as nobody changes the
// filter.
//
//   - All keys are known beforehand: Blocked, or Fuse if building may take ten times as
//     long. Out of cache a Blocked costs one cache line, a Fuse or Filter three.
//   - Keys come one by one, and their number is known: Filter; while others
//     ask: AtomicBlocked.
//   - Their number is not known: Scalable.
//   - Keys leave again: Cuckoo, or Counting if one key may be added more than eight times.
//   - Keys are dense numbers: Bitset, which is exact.
//   - The same absent keys are asked for again and again: Exact around any of them.
//   - Keys are values of a type, not bytes: Of around any of them.
//   - Strangers choose the keys: any, with HashSipHash and a secret seed.
//
// Filters that other programs wrote are read by packages of their own below this one.
// Package hashes has more hash functions.
//
// # Two ways to ask
//
// A key is asked of a Filter, Scalable, Exact, Counting or Cuckoo as it is. Blocked,
// Fuse, Static (either, as its bytes tell) and AtomicBlocked take 64 bits of hash: that
// of Hash, or for a Static that of its Hasher, so that a key asked of many filters
// is hashed once. Filter and Scalable take 128 bits of it too, with AddHash and
// MayContainHash or HasHash.
//
// # Zero values and constructors
//
// The zero value of every filter says maybe to every key, because it does not know of
// any that is absent, and its rates are 1. A filter whose bytes could not be read into
// it thus never says no. It is for UnmarshalBinary and UnmarshalText: what can report an
// error refuses to add to it, what cannot keeps nothing, and none can be written. (The
// zero Bitset is the empty set, to which numbers are added.)
//
// A constructor makes the filter that it is asked for, or refuses. The long forms, with
// options (NewFilter, NewScalable, NewCountingFor, NewCuckooFor, NewAtomicBlockedFor),
// return an error. The short ones (New, NewCounting, NewCuckoo, NewAtomicBlocked,
// NewBitset, NewExact, NewOf) are for numbers that stand in the program: they panic with
// that error.
//
// # As text, and printed
//
// Every filter with a serialized form is written by encoding/json, encoding/xml and
// encoding/gob, by value or by pointer, alone or inside a struct: as text it is the
// serialized form in base64, a third longer. (gob takes values only where it can address
// them, and says so.) AtomicBlocked, Exact and Of have none, and are an error. Two things
// to know: a struct that embeds a filter takes its methods over and is written as the
// filter alone, so give the field a name; and a logger of package log/slog writes the
// whole text, so log what String returns, which is one line.
//
// # More about Blocked and Fuse
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
// A Blocked is built in 5 to 10 ns a key and asked at the cost of one
// cache line. A Fuse takes 40 to 60 ns a key to build, and lets pass 0.39 % where a
// Blocked of 10 bits lets pass 0.96, and 0.006 % where one of 16 bits lets pass
// 0.054; out of cache it costs three lines, loaded side by side. Keys can not be
// taken out or listed, and none can be added to either.
//
// Strangers. None of Hash, Murmur3 and HashXXH3 is a secret function: whoever may choose
// keys can choose ones that all pass together, and whoever knows all keys of a
// filter ones with which no fuse filter can be built. That costs time but never
// makes a wrong no. HashSipHash with a seed that they do not know prevents both.
package bloom
