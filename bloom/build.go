package bloom

import "math"

// The bits a key that AppendBlocked goes by: what lies outside is taken for
// the nearer bound. With fewer, most answers would be maybe; with more, the
// 64-bit hashes and the second unit's probes give little.
const (
	MinBits = 4.0
	MaxBits = 26.0
)

// Two units begin at twoUnitBits. Below 16 bits the first one has 8 of them,
// so that it is of use alone.
const (
	twoUnitBits   = 14.0
	firstUnitBits = 8.0
)

// AppendBlocked appends to dst a filter of the keys with these hashes (see
// Hash), and returns the longer slice. The filter has bitsPerKey bits for each
// hash, plus at most one line of 64 bytes a unit and 32 bytes of trailer;
// BlockedSize tells how many. It is opened by OpenBlocked from the appended
// bytes alone.
//
// Equal hashes do no harm but take their share of bits. Their order does not
// matter: equal hashes in any order give equal bytes, on every machine. hashes
// is only read. Nothing is allocated if dst has room.
func AppendBlocked(dst []byte, hashes []uint64, bitsPerKey float64) []byte {
	return appendBlocked(dst, hashes, bitsPerKey, Hasher{})
}

// appendBlocked is AppendBlocked of hashes that hasher made.
func appendBlocked(dst []byte, hashes []uint64, bitsPerKey float64, hasher Hasher) []byte {
	t := layout(len(hashes), bitsPerKey)
	t.hasher = hasher
	start := len(dst)
	dst = grow(dst, int(t.size()))
	filter := dst[start:]
	end := int(t.lines[0]) * lineBytes
	first := unit{bytes: filter[:end], lines: uint64(t.lines[0]), k: t.k[0]}
	first.add(hashes)
	if t.units == 2 {
		second := unit{bytes: filter[end : len(filter)-trailerLen], lines: uint64(t.lines[1]), k: t.k[1]}
		second.addSecond(hashes)
	}
	t.put(filter)
	return dst
}

// BlockedSize returns how many bytes AppendBlocked appends for n hashes.
func BlockedSize(n int, bitsPerKey float64) int {
	t := layout(n, bitsPerKey)
	return int(min(t.size(), math.MaxInt))
}

// layout chooses units, lines and probes for n keys.
func layout(n int, bitsPerKey float64) trailer {
	first, second := splitBits(bitsPerKey)
	t := trailer{head: head{keys: countOf(n)}, units: 1}
	t.k[0], t.lines[0] = probesFor(first), linesFor(n, first)
	if second > 0 {
		t.units = 2
		t.k[1], t.lines[1] = probesFor(second), linesFor(n, second)
	}
	return t
}

// countOf is a number of keys as a trailer has it.
func countOf(n int) uint32 { return uint32(min(uint64(n), math.MaxUint32)) }

// splitBits divides the bits of a key between the units. second is 0 for one
// unit. NaN counts as MinBits.
func splitBits(bitsPerKey float64) (first, second float64) {
	b := MinBits
	if bitsPerKey > MinBits {
		b = min(bitsPerKey, MaxBits)
	}
	if b < twoUnitBits {
		return b, 0
	}
	first = max(firstUnitBits, b/2)
	return first, b - first
}

// FirstUnitShare returns which part of a filter with so many bits a key is its
// first unit.
func FirstUnitShare(bitsPerKey float64) float64 {
	first, second := splitBits(bitsPerKey)
	return first / (first + second)
}

// linesFor rounds up, so that a filter never has fewer bits than asked for.
func linesFor(n int, bits float64) uint32 {
	lines := math.Ceil(float64(n) * (bits / lineBits))
	return uint32(max(1, min(lines, math.MaxUint32)))
}

// probeSteps holds below how many bits a key in a unit a number of probes is
// the best, by the theory in fpr.go. Two steps are put off a little: 10 bits have
// 6 probes, where a seventh would gain a thousandth, and 12 bits (and so 24 in
// two units) have 7, where an eighth would gain six thousandths and cost a second
// multiplication. Constants rather than a computation, so that the same filter
// comes out everywhere.
var probeSteps = [...]struct {
	bits float64
	k    uint32
}{{5.1, 3}, {6.65, 4}, {8.27, 5}, {10.25, 6}, {12.05, 7}, {13.8, 8}}

func probesFor(bits float64) uint32 {
	for _, s := range probeSteps {
		if bits < s.bits {
			return s.k
		}
	}
	return 9
}

// grow returns dst with n zero bytes behind it. New memory has a whole number
// of lines, which the allocator aligns to 64: then a filter that starts it can
// be probed where it was built with one cache line a key.
func grow(dst []byte, n int) []byte {
	if start := len(dst); cap(dst)-start >= n {
		dst = dst[:start+n]
		clear(dst[start:])
		return dst
	}
	room := (len(dst) + n + lineBytes - 1) &^ (lineBytes - 1)
	longer := make([]byte, len(dst)+n, room)
	copy(longer, dst)
	return longer
}
