// Package parquet reads, writes and asks the Bloom filters of Apache Parquet files: split
// block filters with XXH64, and the Thrift header in front of them. It does not know the
// rest of Parquet. The metadata of a file says where the filter of a column in a row group
// is (bloom_filter_offset, bloom_filter_length).
//
// A filter is z blocks of eight little-endian words of 32 bits. The hash x of a value is
// XXH64 with seed 0 of its plain encoding. The value's block is ((x >> 32)·z) >> 32. In
// word j of the block, it sets the bit (uint32(x)·salt[j]) >> 27. In front of the blocks
// there is a BloomFilterHeader in Thrift's compact protocol:
//
//	15 40              field 1, int: 32 bytes follow the header
//	1c 1c 00 00        field 2, algorithm: BLOCK
//	1c 1c 00 00        field 3, hash: XXHASH
//	1c 1c 00 00        field 4, compression: UNCOMPRESSED
//	00                 the end
//
// All this follows parquet-format's BloomFilter.md and parquet.thrift. Sizes follow
// parquet-go v0.32 and Arrow. It was checked with the bits that parquet-go v0.32 wrote, and
// with the header in arrow-rs's tests.
//
// What to mind:
//
//   - The hash is that of the plain encoding of a value. Of a BYTE_ARRAY that is only the
//     bytes, without the length that precedes them in a page. Of numbers it is the 4 or 8
//     bytes, little-endian. A logical type (a date, a decimal, a UUID) is encoded as its
//     physical type. A question with another type finds nothing.
//   - Floating point numbers are compared by their bits: 0 and -0 are two values,
//     and so are the many NaNs.
//   - A file has a filter for each row group of the columns for which its writer was asked
//     to make one. A dictionary of the column may give the same answers exactly.
//   - The writer chooses the size: Arrow and parquet-java take powers of two,
//     parquet-java sometimes the next larger one; parquet-go takes what is needed. A
//     reader takes it from the header.
//   - XXH64 has no secret: strangers who choose the values can make them collide.
//
// A filter cannot be converted to one of package bloom or back: the positions of keys
// differ, and the filter does not have the keys.
//
// Encrypted filters have to be decrypted before they are read.
//
// Concurrency. Any number of goroutines may ask a filter, as long as none changes
// it. A change must run alone.
package parquet
