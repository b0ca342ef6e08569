// Package xorfilter reads, writes and asks filters of github.com/FastFilter/xorfilter, the
// Go library of the authors of binary fuse filters (Graf and Lemire 2022) and xor filters
// (Graf and Lemire 2020), and of its sister in C, xor_singleheader. The comments here call
// the Go library the peer. Such filters are read-only: they are built from all keys at once.
//
// A Fuse is a BinaryFuse[T] of the peer, with fingerprints of 8, 16 or 32 bits. The bytes
// are those of its Save and LoadBinaryFuse, all numbers little-endian:
//
//	 0    8              12                     16       20     24     28
//	|seed|segment length|segment length minus 1|segments|places|length|fingerprints|
//
// A segment length is a power of two, places are segments times the segment length, and
// length is the number of fingerprints: that of segments + 2 segments. xor_singleheader
// writes a header of the same length that differs in two words:
//
//	|seed|keys|segment length|segments|places|length|fingerprints|
//
// Both are read here, as the third word tells them apart, and are written as they were read.
// AppendGo and AppendC choose the header.
//
// An Xor8 is a Xor8 of the peer. The peer cannot save it. Its users write its fields with
// encoding/gob or encoding/json. For that there is Xor8Fields, and FuseFields for users who
// do the same with a BinaryFuse:
//
//	var fields xorfilter.Xor8Fields
//	err := json.Unmarshal(file, &fields) // or gob
//	f, err := fields.Open()
//
// The binary form of an Xor8 is that of xor_singleheader, little-endian too: the seed (8
// bytes), a third of the number of fingerprints (8), the fingerprints.
//
// An example is the Fuse with fingerprints of 8 bits of the one hash 1, in 40 bytes:
//
//	c1 5c 02 89 ec 2d 0a 91  seed
//	04 00 00 00  03 00 00 00 segments of 4 places
//	01 00 00 00  04 00 00 00 one segment and two more
//	0c 00 00 00              12 fingerprints
//	00 … 00 71               all but the last are 0
//
// All this describes version v0.4.2-0.20260120015552-4e5a4d9df65a of the peer, which has
// Save since then, and xor_singleheader as of January 2026. Filters that both wrote are read
// here with the same answers, and the peer reads ours.
//
// What to mind:
//
//   - The peers have no hash function. Their users hash keys to 64 bits in a way of their
//     own, and the bytes do not say how. MayContainHash takes such hashes. MayContain takes a
//     key, and needs the function from SetHash. Without it MayContain says maybe to every
//     key. With another function than the filter was built with it denies keys that the
//     filter holds.
//   - xor_singleheader writes in the byte order of its machine. Filters from big-endian
//     machines are refused.
//   - For fingerprints of 16 bits binary_fuse16_serialization_bytes of xor_singleheader counts 4
//     bytes more than binary_fuse16_serialize writes. A file of that size ends with 4 bytes
//     of arbitrary memory. OpenFuse and UnmarshalBinary leave them out, and ReadFrom leaves
//     them in the stream.
//   - The formats have no checksum. Store one next to them.
//
// For filters that no other program reads, package bloom has the same kind: bloom.Fuse has
// fingerprints of any width from 4 to 16 bits, a checksum, and knows its hash function.
//
// Concurrency. Any number of goroutines may ask a filter. Reading into it and SetHash must
// run alone.
package xorfilter
