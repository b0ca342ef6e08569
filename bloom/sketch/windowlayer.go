package sketch

import (
	"encoding/binary"
	"fmt"
	"math"
	"math/bits"

	"github.com/shaledb/shale/bloom"
	"github.com/shaledb/shale/bloom/internal/form"
)

// A windowLayer is a row of Bloom filters of the same shape, its lanes: one for each
// generation. The filters are stored bit by bit: slot i has bit i of lane 0, of lane 1 and
// so on, and the next slot begins at the next bit.
//
//	bit    0      1            lanes  lanes + 1
//	      |lane 0|lane 1|  ...|lane 0|lane 1|  ...
//	      slot 0               slot 1
//
// A load of 64 bits at any byte has a whole slot. So a key is asked of all lanes at once: the
// slots of its k probes are and-ed, and a bit that stays set is a lane that may have the key.
//
// The probes are those of bloom.Filter, enhanced double hashing (Dillinger and Manolios
// 2004), from the hash of 64 bits and a second word that is computed from it.
type windowLayer struct {
	bytes    []byte // m · lanes / 8 bytes, and slotPad more so that each load is inside
	m        uint64 // slots, a multiple of 64
	k        int    // probes
	capacity uint64 // keys that a lane is for
	counts   []uint64
	shared   bool // bytes belong to those of OpenWindow
}

// own copies the slots if they belong to the bytes of OpenWindow. What follows them there is
// not a part of the layer.
func (l *windowLayer) own() {
	if l.shared {
		l.bytes, l.shared = append([]byte(nil), l.bytes...), false
		clear(l.bytes[len(l.bytes)-slotPad:])
	}
}

// slotPad is how many bytes a load may reach over the end.
const slotPad = 7

// newWindowLayer returns an empty layer whose lanes have the rate r with capacity keys.
func newWindowLayer(capacity uint64, r float64, lanes int) (windowLayer, error) {
	k := min(bloom.SizeProbesFPR(r), bloom.MaxProbes)
	m := bloom.SizeBitsProbes(capacity, r, k)
	if most := uint64(form.MaxBytes) / uint64(lanes) * 8; m > most-most%64 {
		return windowLayer{}, fmt.Errorf("%d generations of %d bits are more than %d bytes", lanes, m, uint64(form.MaxBytes))
	}
	m = (m + 63) &^ 63
	for capacity < manyKeys && laneFPR(m, k, capacity) > r {
		m += 64 + m>>10&^63
	}
	return windowLayer{
		bytes: make([]byte, int(m/8)*lanes+slotPad), m: m, k: k,
		capacity: capacity, counts: make([]uint64, lanes),
	}, nil
}

// manyKeys is a number of keys for which Bloom's formula is exact to a hundredth of a per
// cent, and manyKeys slots for each lane are no matter.
const manyKeys = 1 << 16

// laneFPR returns the rate of a lane of m slots with k probes and n keys. Bloom's formula is
// the rate of the mean number of bits that are set. This number varies, and the mean of the
// rates is above the rate of the mean: by 11 % for 17 keys at 3e-6. The second term is that
// of the Taylor series, with the variance of the share of bits that are set, for throws of
// k·n balls into m urns.
func laneFPR(m uint64, k int, n uint64) float64 {
	size, throws, probes := float64(m), float64(k)*float64(n), float64(k)
	clear1 := math.Exp(throws * math.Log1p(-1/size)) // chance that a slot is clear
	clear2 := math.Exp(throws * math.Log1p(-2/size)) // that two are
	variance := clear1*(1-clear1)/size + (1-1/size)*(clear2-clear1*clear1)
	fill := 1 - clear1
	return math.Pow(fill, probes) + probes*(probes-1)/2*math.Pow(fill, probes-2)*variance
}

// size returns how many bytes the slots take.
func (l *windowLayer) size() int { return len(l.bytes) - slotPad }

// windowProbes are the positions of a key: x, and after each probe x + y, where y advances by z
// and z by a constant. The top bits of x choose the slot. Part of the file format.
type windowProbes struct{ x, y, z uint64 }

func windowProbesOf(h uint64) windowProbes {
	y := form.Finish(h + form.ProbeMul)
	return windowProbes{x: h, y: y, z: h<<32 | y&math.MaxUint32}
}

// next returns the next probe. It has values and no pointers, so that the compiler keeps
// them in registers, which saves a tenth of the time.
func (p windowProbes) next() windowProbes {
	return windowProbes{x: p.x + p.y, y: p.y + p.z, z: p.z + form.ProbeMul}
}

// bit returns where the slot of p begins.
func (l *windowLayer) bit(p windowProbes) uint64 {
	slot, _ := bits.Mul64(p.x, l.m)
	return slot * uint64(len(l.counts))
}

// find returns which of the lanes in mask may have the hash.
//
// A full lane has half of its bits set. So each probe removes half of the lanes that do not
// have the key, and after a few more probes than the lanes have binary digits all are gone.
// Until then there is no branch, and the loads run in parallel.
func (l *windowLayer) find(h, mask uint64) uint64 {
	p, b := windowProbesOf(h), l.bytes
	first := min(l.k, bits.Len64(uint64(len(l.counts)))+2)
	for range first {
		o := l.bit(p)
		mask &= binary.LittleEndian.Uint64(b[o>>3:]) >> (o & 7)
		p = p.next()
	}
	if mask == 0 {
		return 0
	}
	for range l.k - first {
		o := l.bit(p)
		mask &= binary.LittleEndian.Uint64(b[o>>3:]) >> (o & 7)
		p = p.next()
	}
	return mask
}

// add adds the hash to a lane. Requires: no other lane's change, nor question, at the time.
func (l *windowLayer) add(h uint64, lane int) {
	l.own()
	p := windowProbesOf(h)
	for range l.k {
		o := l.bit(p) + uint64(lane)
		l.bytes[o>>3] |= 1 << (o & 7)
		p = p.next()
	}
	l.counts[lane]++
}

// A pattern has the bits of some lanes in 64 slots, which are as many words as there are
// lanes. It repeats from there.
type pattern [MaxGenerations + 1]uint64

func (l *windowLayer) pattern(mask uint64) (p pattern) {
	for slot := range uint64(64) {
		for m := mask; m != 0; m &= m - 1 {
			o := slot*uint64(len(l.counts)) + uint64(bits.TrailingZeros64(m))
			p[o>>6] |= 1 << (o & 63)
		}
	}
	return p
}

// drop empties the lanes in mask.
func (l *windowLayer) drop(mask uint64) {
	l.own()
	if mask == 1<<len(l.counts)-1 {
		clear(l.bytes)
		clear(l.counts)
		return
	}
	p := l.pattern(mask)
	for b := l.bytes[:l.size()]; len(b) > 0; b = b[8*len(l.counts):] {
		for i := range l.counts {
			w := b[8*i : 8*i+8]
			binary.LittleEndian.PutUint64(w, binary.LittleEndian.Uint64(w)&^p[i])
		}
	}
	for m := mask; m != 0; m &= m - 1 {
		l.counts[bits.TrailingZeros64(m)] = 0
	}
}

// ones counts the bits of a lane that are set.
func (l *windowLayer) ones(lane int) (n int) {
	p := l.pattern(1 << lane)
	for b := l.bytes[:l.size()]; len(b) > 0; b = b[8*len(l.counts):] {
		for i := range l.counts {
			n += bits.OnesCount64(binary.LittleEndian.Uint64(b[8*i:]) & p[i])
		}
	}
	return n
}

// empty reports whether no lane has a key.
func (l *windowLayer) empty() bool {
	for _, n := range l.counts {
		if n > 0 {
			return false
		}
	}
	return true
}
