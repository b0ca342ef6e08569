package bloom

import (
	"encoding/binary"
	"fmt"
	"math"

	"github.com/shaledb/shale/bloom/internal/form"
)

// maxFuseKeys is a limit because the solver numbers the places in 32 bits.
const maxFuseKeys = 1 << 30

// FuseFPR returns the share of absent keys that pass a Fuse with fingerprints of r bits.
func FuseFPR(r int) float64 { return math.Ldexp(1, -r) }

// FuseBits returns how many bits a key a Fuse has, with n keys and fingerprints of r bits.
// It is 1.13 · r from a million keys up, 1.21 · r at 60,000, 1.4 · r at 1000, and more and
// more for fewer keys. r is from 4 to 16.
func FuseBits(n, r int) float64 {
	t := fuseLayout(n, r)
	return float64(t.bodySize()) * 8 / float64(max(n, 1))
}

// FuseFor returns the widest fingerprints, of 4 to 16 bits, with which a Fuse of n keys has
// at most bitsPerKey bits a key. It returns 4 if there are none.
func FuseFor(n int, bitsPerKey float64) (r int) {
	for r = maxFuse; r > minFuse && !(FuseBits(n, r) <= bitsPerKey); r-- {
	}
	return r
}

// fuseLayout returns the segments that the solver tries first. It may also halve
// length and double the rest; the number of places is then the same.
func fuseLayout(n, r int) fuseTrailer {
	t := fuseTrailer{head: head{keys: countOf(n)}, r: uint64(r), length: 4, segments: 1}
	if n <= 1 {
		return t
	}
	lnN := math.Log(float64(n))
	t.length = min(uint64(1)<<uint(math.Floor(lnN/math.Log(3.33)+2.25)), maxFuseLength)
	places := uint64(math.Round(float64(n) * math.Max(1.125, 0.875+0.25*math.Log(1e6)/lnN)))
	t.segments = max((places+t.length-1)/t.length, 3) - 2
	return t
}

// appendFuse is StaticBuilder.Append for KindFuse with fingerprints of r bits. It tries at
// most attempts seeds.
func (s *fuseSolver) appendFuse(dst []byte, hashes []uint64, r int, hasher Hasher, attempts int) ([]byte, error) {
	if len(hashes) > maxFuseKeys {
		return dst, fmt.Errorf("bloom: build fuse filter: %d keys are too many", len(hashes))
	}
	t := fuseTrailer{head: head{keys: countOf(len(hashes)), hasher: hasher}, r: uint64(r)}
	seed, err := s.solve(hashes, fuseSalt(hashes), &t, attempts)
	if err != nil {
		return dst, fmt.Errorf("bloom: build fuse filter of %d keys: %w", len(hashes), err)
	}
	start, body := len(dst), int(t.bodySize())
	dst = grow(dst, body+form.TrailerLen)
	filter := dst[start:]
	pack(filter[:body-fuseSeedLen], s.table, uint(t.r))
	binary.LittleEndian.PutUint64(filter[body-fuseSeedLen:], seed)
	t.put(filter)
	return dst, nil
}

// fuseSalt returns a number that is added to all hashes of a filter. It depends on all
// hashes, but not on their order. The solver tries the same seeds each time. Without the
// salt, someone could choose a few keys whose hashes collide under each of these seeds, and
// no filter that has those keys could be built.
func fuseSalt(hashes []uint64) uint64 {
	sum := uint64(0)
	for _, h := range hashes {
		sum += h
	}
	return form.Finish(sum)
}

// pack writes the low r bits of each fingerprint, one after the other, from the lowest bit
// of the first byte up. Requires: b has room for whole words.
func pack(b []byte, fingerprints []uint64, r uint) {
	switch r {
	case 8:
		for i, x := range fingerprints {
			b[i] = byte(x)
		}
	case 16:
		for i, x := range fingerprints {
			binary.LittleEndian.PutUint16(b[2*i:], uint16(x))
		}
	default:
		packBits(b, fingerprints, r)
	}
}

// packBits is pack for any r.
func packBits(b []byte, fingerprints []uint64, r uint) {
	var word uint64
	used := uint(0) // bits of word
	for _, x := range fingerprints {
		x &= 1<<r - 1
		word |= x << used
		if used += r; used >= 64 {
			binary.LittleEndian.PutUint64(b, word)
			b = b[8:]
			used -= 64
			word = x >> (r - used)
		}
	}
	if used > 0 {
		binary.LittleEndian.PutUint64(b, word)
	}
}
