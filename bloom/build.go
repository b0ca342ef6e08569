package bloom

import (
	"math"
	"runtime"
	"slices"

	"github.com/shaledb/shale/bloom/internal/form"
	"github.com/shaledb/shale/bloom/internal/lines"
)

// MinBits and MaxBits are the bounds of bits a key for AppendBlocked. A number outside of
// them counts as the nearer bound. With fewer bits most answers would be maybe. More bits
// gain little from hashes of 64 bits and from the probes of the second unit.
const (
	MinBits = 4.0
	MaxBits = 26.0
)

// A filter has two units from twoUnitBits up. Below 16 bits the first unit has
// firstUnitBits of them, so that it is useful without the second.
const (
	twoUnitBits   = 14.0
	firstUnitBits = 8.0
)

// AppendBlocked appends to dst a filter of the keys with these hashes (see Hash), and
// returns the longer slice. The filter has bitsPerKey bits for each hash, plus at most one
// line of 64 bytes for each unit, plus 32 bytes of trailer; [BlockedSize] returns the sum.
// [OpenBlocked] opens it from the appended bytes alone.
//
// Equal hashes do no harm, but each takes its share of bits. The order of the hashes does
// not matter: the same hashes in any order make the same bytes, on every machine. hashes is
// only read. Nothing is allocated if dst has room.
func AppendBlocked(dst []byte, hashes []uint64, bitsPerKey float64) []byte {
	return appendBlocked(dst, hashes, bitsPerKey, Hasher{})
}

// addsAtOnce is how many hashes are added before other goroutines get the processor: some tenths of
// a millisecond. Otherwise the filter of a large table would keep it for many turns of 10 ms.
const addsAtOnce = 16 << 10

// appendBlocked is AppendBlocked for hashes that were made by hasher.
func appendBlocked(dst []byte, hashes []uint64, bitsPerKey float64, hasher Hasher) []byte {
	t := layout(len(hashes), bitsPerKey)
	t.hasher = hasher
	start := len(dst)
	dst = grow(dst, int(t.size()))
	filter := dst[start:]
	end := int(t.lines[0]) * lineBytes
	for some := range slices.Chunk(hashes, addsAtOnce) {
		lines.AddMany(filter[:end], uint64(t.lines[0]), t.k[0], some)
		if t.units == 2 {
			lines.AddManySecond(filter[end:len(filter)-form.TrailerLen], uint64(t.lines[1]), t.k[1], some)
		}
		runtime.Gosched()
	}
	t.put(filter)
	return dst
}

// BlockedSize returns how many bytes [AppendBlocked] appends for n hashes.
func BlockedSize(n int, bitsPerKey float64) int {
	t := layout(n, bitsPerKey)
	return int(min(t.size(), math.MaxInt))
}

// layout chooses the units, lines and probes of a filter for n keys.
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

// countOf returns a number of keys as a trailer holds it: at most 2^32 - 1.
func countOf(n int) uint32 { return uint32(min(uint64(n), math.MaxUint32)) }

// splitBits divides the bits of a key between the units. second is 0 if there is one
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

// FirstUnitShare returns which share of a filter with bitsPerKey bits a key is its first
// unit: 1 if there is no second.
func FirstUnitShare(bitsPerKey float64) float64 {
	first, second := splitBits(bitsPerKey)
	return first / (first + second)
}

// linesFor returns how many lines a unit of n keys has. It rounds up, so that a filter has
// at least the bits that were asked for.
func linesFor(n int, bits float64) uint32 {
	lines := math.Ceil(float64(n) * (bits / lineBits))
	return uint32(max(1, min(lines, math.MaxUint32)))
}

// probeSteps holds which number of probes is best below which number of bits a key in a
// unit, by the theory in fpr.go. Two steps lie a little higher than in theory. 10 bits have
// 6 probes; a seventh would gain a thousandth. 12 bits (and so 24 in two units) have 7; an
// eighth would gain six thousandths and cost a second multiplication. The steps are
// constants and not computed, so that every machine makes the same filter.
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

// grow returns dst with n zero bytes appended. If it allocates, the memory has a whole
// number of lines, which the allocator aligns to 64. A filter at the start of that memory
// can be probed where it was built, at one cache line a question.
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
