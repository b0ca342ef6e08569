package hashes

import "github.com/shaledb/shale/bloom/internal/form"

// Murmur32 returns MurmurHash3 x86 32 of the key, as mmh3.hash of Python does, whose number has a sign. Programs
// that take it for a bit array of their own call it once for each position, with another seed each time.
//
// It is not for bloom.FilterOptions: 32 bits are too few for large filters, and bloom.Murmur3 has 128 at once.
func Murmur32(key []byte, seed uint32) uint32 { return form.Murmur32(key, seed) }
