// Package prefetch asks the processor to load memory that will be read soon.
// A load waits, and with it all that comes behind it, as far as the processor
// looks ahead; a prefetch does not, so that the waits for several places
// overlap. It never faults and changes nothing but time. Where there is no
// instruction for it, it does nothing.
package prefetch

// Bytes begins to load the cache lines of b. Its cost is about a nanosecond a
// line.
func Bytes(b []byte) {
	if len(b) > 0 {
		lines(&b[0], len(b))
	}
}

// Line begins to load the cache line of *p. A nil p is no harm.
func Line(p *byte) { lines(p, 1) }
