// Package bloom has Bloom filters and their relatives: sets that answer "certainly not" or
// "maybe" when they are asked whether they hold a key. They need about ten bits a key,
// whatever the length of the keys. A program asks the filter before an expensive lookup,
// such as a read from disk, and saves the lookup if the answer is no.
//
// The package imports nothing of the store, and nothing else but the standard library.
//
// # Which type
//
// Take [Filter], unless one of the others has something that you need: make it with [New](n, p)
// from the number of keys and the rate of false positives, then call [Filter.Add] and
// [Filter.MayContain]. This is how the types differ:
//
//	              bits a key   passes    add   ask  delete  grows  written  concurrent
//	Filter               9.6   1 %        17    15  no      no     yes      asking
//	Blocked               10   0.96 %  5..10     7  no      no     yes      asking
//	Fuse                 9.1   0.39 % 20..30     7  no      no     yes      asking
//	AtomicBlocked         10   1.00 % 10..15    10  no      no     yes      all
//	Scalable          11..20   1 %        92    36  no      yes    yes      asking
//	Counting              44   1 %         8     7  yes     no     yes      asking
//	Cuckoo              12.6   0.19 %     18     6  yes     no     yes      asking
//	Bitset       1 a number    none        6     4  yes     yes    yes      asking
//	Exact                as the filter below it, and some 80 bytes for each mistake it knows
//
// The columns mean:
//
//   - "Passes" is the share of absent keys for which the filter answers maybe.
//   - "Add" and "ask" are times in nanoseconds. They hold for a filter that fits into the
//     processor's cache and for an absent key of 16 bytes. The times of Filter and Scalable
//     include hashing the key (4 to 6 ns); the other types are given the hash. Scalable is
//     measured with four layers.
//   - "Delete": keys can be removed.
//   - "Grows": the filter takes any number of keys and makes itself larger.
//   - "Written": the filter has a serialized form. Blocked and Fuse are built at once from
//     all hashes, and are probed in their serialized bytes.
//   - "Concurrent" says what several goroutines may do at once. "Asking": any number of
//     them may ask, as long as none changes the filter.
//
// How to choose:
//
//   - All keys are known before the filter is built: [Blocked], or [Fuse] if building may take
//     three to five times as long. If the filter does not fit into the cache, a question to a Blocked
//     costs one cache line, a question to a Fuse or Filter three.
//   - Keys come one by one, and their number is known: Filter, or [AtomicBlocked] if other
//     goroutines ask meanwhile.
//   - The number of keys is not known: [Scalable].
//   - Keys are removed again: [Cuckoo], or [Counting] if a key may be added more than
//     eight times.
//   - Keys are dense numbers: [Bitset], which makes no mistakes.
//   - The same absent keys are asked for again and again: [Exact] around a filter
//     of any type.
//   - Strangers choose the keys: any type, with [HashSipHash] and a secret seed.
//
// There is no partitioned filter, in which each probe has a part of the bits for itself: it lets
// pass more for the same bits, 16 % more with 10 keys and 1.5 % more with 100.
//
// Scalable, Counting, Cuckoo, Bitset and Exact are in package sketch. Filters that other
// programs wrote are read by the packages below compat, one for each format. Package [hashes]
// has more hash functions.
//
// # One name an operation
//
// The methods have the same names and signatures on all types, so that generic code can take
// any filter as a [Set], or as an [Adder]:
//
//	by key      Add            MayContain        Remove      CheckAndAdd
//	by string   AddString      MayContainString
//	by hash     AddHash        MayContainHash    RemoveHash  CheckAndAddHash
//	many keys   AddKeys        MayContainKeys
//	many hashes AddMany        MayContainMany
//	numbers     Count          SizeBytes         FPR
//	sets        Union          Intersect
//
// Add, AddString and AddKeys return an error on all types. It is nil for every filter that a
// constructor made and that cannot become full. A filter that can become full (Cuckoo,
// Scalable) returns one from AddHash, AddMany and CheckAndAdd too.
//
// The hash of a Filter or Scalable has 128 bits and is two words, h1 and h2. All others have
// 64 bits: those of the function Hash, or of the filter's Hasher. A key that is asked of many
// filters is hashed once, and its hash asked of each.
//
// # Many at once
//
// MayContainMany, MayContainKeys, AddMany and AddKeys are faster than single calls from about
// two dozen keys up, because the loads of the next keys do not wait for the answers to the
// first. Questions to a Blocked, by hash, at 10 bits a key, in nanoseconds:
//
//	                                       1 million keys   64 million keys
//	one by one, in Go (miss to half)           7 to 15          40 to 65
//	one by one, AVX2                                 6               34
//	many at once, in Go                              6               21
//	many at once, AVX2 or AVX-512                    2               10
//
// Package bloom/internal/lines has the instructions, and chooses them by what the processor
// has. The build tag purego leaves them out.
//
// # Zero values and constructors
//
// The zero value of every filter answers maybe to every key, because it does not know of
// any key that is absent. Its rates of false positives are 1. So a filter that could not be
// read from its bytes never says no.
//
// Zero values are there to be filled by UnmarshalBinary, UnmarshalText and ReadFrom. Nothing can be
// added to one: a method that can return an error returns one, and another method does
// nothing. A zero value cannot be written either. (The zero Bitset is different: it is the
// empty set, and takes numbers.)
//
// A constructor makes exactly the filter that it is asked for, or returns an error. It takes
// options, whose zero value is useful where there is a default:
//
//	f, err := bloom.NewFilter(bloom.FilterOptions{Keys: 1e6, FPR: 0.001})
//
// New(n, p) is the short way to a Filter, and panics instead. Must makes a panic of the error
// of any other constructor. Both are for arguments that are written in the program itself.
//
// # As text, and printed
//
// encoding/json, encoding/xml and encoding/gob write every filter that has a serialized
// form, by value or by pointer, alone or inside a struct. The text of a filter is its
// serialized form in base64, a third longer. (gob takes a value only if it can address it,
// and otherwise returns an error that says so.) An Exact has no serialized form: writing one is
// an error.
//
// MarshalBinary and UnmarshalBinary take the serialized form alone, all of it. In a stream,
// where something else may follow, WriteTo puts a frame with the length in front of the form,
// and ReadFrom stops at its end. OpenFilter, OpenBlocked and the other Open functions keep
// the bytes, for example those of a file in mapped memory, and do not copy them. A filter
// that is opened so and can be added to copies its bits at the first change.
//
// Two things to know:
//
//   - A struct that embeds a filter takes over its methods, and is then written as the
//     filter alone. Give the field a name instead.
//   - A logger of package log/slog writes the whole text of a filter. Log a number
//     of it instead.
//
// # More about Blocked and Fuse
//
// Guarantees. No is certain: a filter never denies a hash that it was built from.
// OpenBlocked, OpenFuse and OpenStatic return an error for bytes that are damaged or cut,
// and for a kind, a version or a hash function that they do not know. The caller must take
// such an error for maybe. No bytes make them panic. The same hashes give the same Blocked
// on every machine. Questions and additions allocate nothing. The share of absent keys that
// pass is known before the filter is built (PredictFPR: 0.96 % at 10 bits a key, 0.0092 %
// at 20; FuseFPR). It is the same for keys that count up as for random keys.
//
// Concurrency. Any number of goroutines may ask a Blocked, Fuse or Static, as long as
// nobody changes the bytes that it was opened from. Any number of goroutines may ask an
// AtomicBlocked and add to it, without locks, and write it meanwhile. Its CheckAndAdd tells
// at most one of several goroutines that a key is new; it takes a lock if the key is.
//
// A filter need not be in memory: a [Stored] asks it in a file, by reading the bytes that have the answer. It can't check them.
//
// Formats. docs/FORMAT.md describes them in section 4, under "Filter block". A Blocked is a
// row of lines of 64 bytes, and a trailer of 32 bytes. A key sets a few bits of one line,
// so that a question costs one cache miss. The filter of "key-0" and "key-1" with 10 bits a
// key is one line and the trailer:
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
// Costs. A Blocked takes 5 to 10 ns a key to build, a Fuse 20 to 30 ns. A Fuse lets pass
// 0.39 % where a Blocked of 10 bits lets pass 0.96 %, and 0.006 % where a Blocked of 16
// bits lets pass 0.054 %. Outside of the cache a question to a Blocked costs one cache
// line, and a question to a Fuse three, which are loaded in parallel. Once a filter is
// built, no key can be added, removed or listed.
//
// Strangers. Hash, Murmur3 and HashXXH3 are not secret functions. Someone who may choose
// keys can choose keys that all pass together. Someone who knows all keys of a filter can
// choose keys with which no fuse filter can be built. Both cost time, but neither makes a
// wrong no. HashSipHash prevents both, with a seed that they do not know.
//
// [Scalable]: https://pkg.go.dev/github.com/shaledb/shale/bloom/sketch#Scalable
// [Cuckoo]: https://pkg.go.dev/github.com/shaledb/shale/bloom/sketch#Cuckoo
// [Counting]: https://pkg.go.dev/github.com/shaledb/shale/bloom/sketch#Counting
// [Bitset]: https://pkg.go.dev/github.com/shaledb/shale/bloom/sketch#Bitset
// [Exact]: https://pkg.go.dev/github.com/shaledb/shale/bloom/sketch#Exact
// [hashes]: https://pkg.go.dev/github.com/shaledb/shale/bloom/hashes
package bloom
