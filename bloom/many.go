package bloom

import (
	"math/bits"
	"runtime"
	"unsafe"

	"github.com/shaledb/shale/bloom/internal/form"
	"github.com/shaledb/shale/bloom/internal/lines"
)

// This file has the questions about many hashes at once. Their answers are those of single questions.
// They are faster because no branch depends on an answer, so that the processor loads what the next
// questions look at while it waits for the first.

// someKeys is how many keys are hashed, or looked at, at a time, where that takes several steps.
const someKeys = 64

// askable sets the answers to maybe for which there is no question, and returns the other answers.
func askable(questions int, out []bool) []bool {
	n := min(len(out), questions)
	sayMaybe(out[n:])
	return out[:n]
}

// sayMaybe sets all answers to maybe.
func sayMaybe(out []bool) {
	for i := range out {
		out[i] = true
	}
}

// AddMany adds the keys with these hashes. A key has two words, h1 and h2, one after the
// other (see Hash). A last word that has no second is left out.
func (f *Filter) AddMany(hashes []uint64) {
	if f.bits.M != 0 {
		f.bits.AddMany(hashes)
	}
}

// MayContainMany sets out[i] to MayContainHash(hashes[2*i], hashes[2*i+1]). If out is longer
// than there are such pairs, the rest of out becomes true. It allocates nothing.
func (f *Filter) MayContainMany(hashes []uint64, out []bool) {
	out = askable(len(hashes)/2, out)
	if f.bits.M == 0 {
		sayMaybe(out)
		return
	}
	f.bits.HasMany(hashes, out)
}

// AddMany is AddHash for each of hashes. If the filter is larger than the cache, it takes a third of
// the time.
func (f *AtomicBlocked) AddMany(hashes []uint64) {
	if len(f.lines) == 0 {
		return
	}
	for len(hashes) > 0 {
		n := min(len(hashes), someKeys)
		lines.AtomicTouch(f.words(), hashes[:n])
		for _, h := range hashes[:n] {
			f.AddHash(h)
		}
		hashes = hashes[n:]
	}
}

// MayContainMany sets out[i] to MayContainHash(hashes[i]). If out is longer than hashes, the
// rest of out becomes true. It allocates nothing. If the filter is larger than the cache, it takes
// about half of the time of single questions.
func (f *AtomicBlocked) MayContainMany(hashes []uint64, out []bool) {
	out = askable(len(hashes), out)
	if len(f.lines) == 0 {
		sayMaybe(out)
		return
	}
	lines.AtomicHasMany(f.words(), hashes[:len(out)], out)
}

// words returns the words of the lines. They may be read and changed atomically only.
func (f *AtomicBlocked) words() []uint64 {
	return unsafe.Slice((*uint64)(unsafe.Pointer(unsafe.SliceData(f.lines))), len(f.lines)*len(atomicLine{}))
}

// MayContainMany sets out[i] to MayContainHash(hashes[i]). If out is longer than hashes, the
// rest of out becomes true. It allocates nothing. A question takes a third or a fifth of the time of a
// single one, if there are two dozen of them or more: see bloom/internal/lines.
func (f *Blocked) MayContainMany(hashes []uint64, out []bool) {
	out = askable(len(hashes), out)
	u := &f.units
	if u.First.Lines == 0 {
		sayMaybe(out)
		return
	}
	lines.HasMany(u.First.Bytes, u.First.Lines, u.First.K, hashes, out)
	if u.Second.Lines != 0 {
		lines.HasManySecond(u.Second.Bytes, u.Second.Lines, u.Second.K, hashes, out)
	}
}

// MayContainMany sets out[i] to MayContainHash(hashes[i]). If out is longer than hashes, the
// rest of out becomes true. It allocates nothing. If the filter is larger than the cache, it takes half
// of the time of single questions.
func (f *Fuse) MayContainMany(hashes []uint64, out []bool) {
	out = askable(len(hashes), out)
	for len(out) > 0 {
		n := min(len(out), someKeys)
		if len(f.bytes) > cachedBytes {
			f.touch(hashes[:n])
		}
		for i, h := range hashes[:n] {
			out[i] = f.MayContainHash(h)
		}
		hashes, out = hashes[n:], out[n:]
	}
}

// cachedBytes is the size of a filter that the caches of a core probably have. To load it ahead does not pay.
const cachedBytes = 2 << 20

// touch loads the fingerprints that MayContainHash will look at. The loads do not depend on each other,
// so they overlap. The result means nothing: touch is not inlined, so that the compiler keeps the loads.
//
//go:noinline
func (f *Fuse) touch(hashes []uint64) (all byte) {
	for _, h := range hashes {
		h = form.Finish(h + f.seed)
		first, _ := bits.Mul64(h, f.span)
		second := (first + f.length) ^ (h >> 18 & (f.length - 1))
		third := (first + 2*f.length) ^ (h & (f.length - 1))
		if third*f.r>>3 < uint64(len(f.bytes)) { // not the zero Fuse; first and second are smaller
			all |= f.bytes[first*f.r>>3] | f.bytes[second*f.r>>3] | f.bytes[third*f.r>>3]
		}
	}
	return all
}

// MayContainMany sets out[i] to MayContainHash(hashes[i]). If out is longer than hashes, the
// rest of out becomes true. It allocates nothing, and is as fast as that of Blocked or Fuse.
func (s *Static) MayContainMany(hashes []uint64, out []bool) {
	if s.fuse != nil {
		s.fuse.MayContainMany(hashes, out)
	} else {
		s.blocked.MayContainMany(hashes, out)
	}
	runtime.KeepAlive(s) // see OpenStatic
}

// hashSome hashes the first keys, as many as there is room for, and returns how many these are.
func hashSome(hasher Hasher, keys [][]byte, hashes *[someKeys]uint64) int {
	n := min(len(keys), someKeys)
	for i, key := range keys[:n] {
		hashes[i&(someKeys-1)] = hasher.Hash(key)
	}
	return n
}
