// Package parquet reads, writes and asks the Bloom filters of Apache Parquet
// files: split block filters with XXH64, and the Thrift header in front of them.
// It knows nothing else of Parquet: where the filter of a column is, and in which
// row group, is in the file's metadata (bloom_filter_offset, bloom_filter_length).
//
// A filter is z blocks of eight little-endian words of 32 bits. The hash x of a value
// is XXH64 with seed 0 of its plain encoding. Its block is ((x >> 32)·z) >> 32; in
// word j of that the bit (uint32(x)·salt[j]) >> 27 is set. In front of the blocks
// stands a BloomFilterHeader in Thrift's compact protocol:
//
//	15 40              field 1, int: 32 bytes follow the header
//	1c 1c 00 00        field 2, algorithm: BLOCK
//	1c 1c 00 00        field 3, hash: XXHASH
//	1c 1c 00 00        field 4, compression: UNCOMPRESSED
//	00                 the end
//
// The facts are those of parquet-format's BloomFilter.md and parquet.thrift, and
// of parquet-go v0.32 and Arrow for the sizes; checked with the bits that
// parquet-go v0.32 wrote, and with the header of arrow-rs's tests.
//
// What to mind:
//
//   - What is hashed is the plain encoding of a value: of a BYTE_ARRAY only the
//     bytes, without the length that stands before them in a page; of numbers the
//     4 or 8 bytes little-endian. A logical type (a date, a decimal, a UUID) is
//     its physical type's. Another type finds nothing.
//   - Of floating point numbers the bits count: 0 and -0 are two values, and so
//     are the many NaNs.
//   - Files have a filter for each row group and column that was asked for. A
//     dictionary may tell the same exactly.
//   - Sizes are up to the writer: Arrow and parquet-java take powers of two, parquet-java
//     sometimes one more than Arrow; parquet-go takes what is needed. A reader
//     goes by the header.
//   - XXH64 is not keyed: values that strangers choose can be made to collide.
//
// A filter can not be turned into one of package bloom, nor the other way
// round: the positions of keys differ, and the keys are not in it.
//
// Encrypted filters are not read: they have to be decrypted first.
//
// Concurrency. A filter that nobody changes can be asked by any number of
// goroutines. Nothing may run beside a change.
package parquet
