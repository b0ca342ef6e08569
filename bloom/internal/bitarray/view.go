package bitarray

import (
	"encoding/binary"
	"unsafe"
)

// WordsIn returns the words that AppendWords wrote as b. If this machine can read them there,
// they are b itself, and shared is true: the caller must not change them. If not, because the
// machine is big-endian or b does not begin at an address that 8 divides, they are a copy.
func WordsIn(b []byte) (words []uint64, shared bool) {
	p := unsafe.Pointer(unsafe.SliceData(b))
	if len(b) < 8 || binary.NativeEndian.Uint16([]byte{1, 0}) != 1 || uintptr(p)%8 != 0 {
		return DecodeWords(b), false
	}
	return unsafe.Slice((*uint64)(p), len(b)/8), true
}

// Open returns the array whose words AppendWords wrote as b. It keeps b if it can, and copies
// the words when they are changed for the first time.
func Open(b []byte, k int, count uint64) Array {
	words, shared := WordsIn(b)
	return Array{Words: words, M: 64 * uint64(len(words)), K: k, Count: count, Shared: shared}
}

// Own copies the words if they are shared. Call it before a change of Words.
func (a *Array) Own() {
	if a.Shared {
		a.Words, a.Shared = append([]uint64(nil), a.Words...), false
	}
}
