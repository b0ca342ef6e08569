// Package prefetch asks the processor to load memory that will be read soon.
//
// A load that has to wait for main memory also delays the instructions after it. A prefetch
// does not wait. So the loads of several places can overlap. It never faults, and it
// changes nothing but the time. On processors without such an instruction it does nothing.
package prefetch

// Bytes begins to load the cache lines of b. It takes about a nanosecond for each line.
func Bytes(b []byte) {
	if len(b) > 0 {
		lines(&b[0], len(b))
	}
}

// Line begins to load the cache line of *p. p may be nil.
func Line(p *byte) { lines(p, 1) }
