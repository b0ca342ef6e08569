package lines

import (
	"math/bits"
	"sync/atomic"
)

// lineWords is how many words of 64 bits a line has.
const lineWords = Bytes / 8

// AtomicHas reports whether the six bits of h are set in its line, one of those in words. A key sets two
// bits in each of three words of the line: package bloom has the layout (AtomicBlocked). Others may set
// bits atomically at the same time.
//
// Requires: words is a number of whole lines, at least one.
func AtomicHas(words []uint64, h uint64) bool {
	o := Place(h, uint64(len(words)/lineWords)) * lineWords
	line := (*[lineWords]uint64)(words[o : o+lineWords])
	p := h * probeMul
	word, step := p>>61, p>>58&6|1
	p <<= 5
	missing := twoBits(p) &^ atomic.LoadUint64(&line[word&7])
	missing |= twoBits(p<<12) &^ atomic.LoadUint64(&line[(word+step)&7])
	missing |= twoBits(p<<24) &^ atomic.LoadUint64(&line[(word+2*step)&7])
	return missing == 0
}

// twoBits returns the mask of the two bits at the top of p.
func twoBits(p uint64) uint64 {
	mask := uint64(1)<<(p>>58) | 1<<(p>>52&63)
	if BigEndian { // the bytes of a word are the same on all machines
		mask = bits.ReverseBytes64(mask)
	}
	return mask
}

// AtomicHasMany sets out[i] to the answer of AtomicHas for hashes[i], for each i below len(out).
// Requires: what AtomicHas requires, and hashes is as long as out.
func AtomicHasMany(words []uint64, hashes []uint64, out []bool) {
	_, hashes = words[lineWords:], hashes[:len(out)]
	if len(out) > 0 {
		atomicHasMany(words, hashes, out)
	}
}

// atomicHasManyGo is AtomicHasMany in Go.
func atomicHasManyGo(words []uint64, hashes []uint64, out []bool) {
	for len(out) > 0 {
		m := min(len(out), atOnce)
		AtomicTouch(words, hashes[:m])
		for i, h := range hashes[:m] {
			out[i] = AtomicHas(words, h)
		}
		hashes, out = hashes[m:], out[m:]
	}
}

// AtomicTouch loads a word of the line of each hash, for a caller that will look at all these lines. The
// loads do not depend on each other, so they overlap. The result means nothing: AtomicTouch is not inlined,
// so that the compiler keeps the loads. Requires: what AtomicHas requires.
//
//go:noinline
func AtomicTouch(words []uint64, hashes []uint64) (all uint64) {
	n := uint64(len(words) / lineWords)
	for _, h := range hashes {
		all |= atomic.LoadUint64(&words[Place(h, n)*lineWords])
	}
	return all
}
