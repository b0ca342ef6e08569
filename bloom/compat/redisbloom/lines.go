package redisbloom

import (
	"fmt"
	"math"
)

// A link may have lines: of a key, all bits lie in one line of 64 bytes. A program that keeps bits somewhere else then reads and
// writes one line for a key. RedisBloom has no such links.
const (
	lineBytes = 64
	lineBits  = 8 * lineBytes
	// lineMark stands behind the header of a filter with lines. RedisBloom refuses the header therefore, and does not ask for bits
	// that the keys don't have.
	lineMark = 2
	// A position in a line has nine bits. A hash has seven of them.
	positionBits, positionsOfHash = 9, 7
	// lineTightening is the error of the first link divided by that of the filter. Link n, from 1, has the error of the first one
	// divided by n²: all together less than the filter's, as 1 + 1/4 + 1/9 + … is π²/6. So late links need far fewer bits than if
	// the error halved with each.
	lineTightening = 0.6
	// leastLineFilter is the least error of a filter with lines, and leastLineLink that of a link. Below, the bits are too many.
	leastLineFilter = 1e-5
	leastLineLink   = 1.0 / (1 << 38)
)

// NewLineShape returns the shape of a filter of which each link has lines of 64 bytes. All Positions of a key in a link lie in one
// line. The filter has no more false positives than o allows, and as many bits as that of NewShape for an error rate of 1 %, a
// tenth more for 0.1 %, and a quarter more for 0.001 %. Below that, the error is ErrParameters.
func NewLineShape(o Options) (Shape, error) {
	f, err := newFilter(o)
	if err != nil {
		return Shape{}, err
	}
	first := &f.links[0]
	rate := first.errorRate
	if !o.NonScaling {
		rate *= lineTightening / tightening
	}
	if o.ErrorRate != 0 && o.ErrorRate < leastLineFilter {
		return Shape{}, fmt.Errorf("redisbloom: new filter: %w: error rate %v is below %v, for lines", ErrParameters, o.ErrorRate, leastLineFilter)
	}
	return Shape{f, true}, first.setLines(rate)
}

// setLines makes an empty link one with lines, for an error rate.
//
// Some lines get more keys than others. That costs bits beyond the n/ln 2 of a Bloom filter with an error of 2^-n, and makes fewer
// hashes best. The powers are fitted to the sum of the errors of lines whose keys have Poisson's distribution: TestLines_Rates. The
// last factor is for that Count is called for keys that the filter does not have yet, which set more bits than others.
func (l *link) setLines(rate float64) error {
	n := -math.Log2(rate)
	l.errorRate = rate
	l.bpe = (n/ln2 + 0.08 + 0.00074*math.Pow(n, 3.2)) * (1 + 0.4*rate)
	l.hashes = uint32(max(1, math.Round(n-n*n/100)))
	l.bytes = uint64(math.Ceil(float64(l.entries)*l.bpe/lineBits)) * lineBytes
	l.bits = 8 * l.bytes
	if err := l.checkLines(); err != nil {
		return fmt.Errorf("redisbloom: %w: a link of %d items in lines: %v", ErrParameters, l.entries, err)
	}
	return nil
}

// checkLines returns an error for values that no link with lines has.
func (l *link) checkLines() error {
	switch {
	case !(l.errorRate >= leastLineLink && l.errorRate < 1):
		return fmt.Errorf("error rate %v", l.errorRate)
	case l.bytes == 0 || l.bytes%lineBytes != 0 || l.bytes > min(maxLinkBytes, math.MaxInt) || l.bits != 8*l.bytes || l.n2 != 0:
		return fmt.Errorf("%d bits in %d bytes, n2 %d", l.bits, l.bytes, l.n2)
	case !(l.bpe > 0 && l.bpe < 2*maxHashes) || l.hashes == 0 || l.hashes > lineBits:
		return fmt.Errorf("%d hashes for %v bits an entry", l.hashes, l.bpe)
	}
	return nil
}

// linePositions yields the bits of a key in a link with lines. The hash is that of RedisBloom's first position, which gives the
// line, and its second hash gives positions in it; where it has no more, it is the seed of the next one.
func (l *link) linePositions(key []byte, yield func(bit uint64) bool) {
	a, b := hash(key)
	line := a % (l.bytes / lineBytes) * lineBits
	next := b
	for i := range l.hashes {
		if i > 0 && i%positionsOfHash == 0 {
			b = murmur64A(key, b)
			next = b
		}
		if !yield(line + next%lineBits) {
			return
		}
		next >>= positionBits
	}
}
