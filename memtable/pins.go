package memtable

import "sync/atomic"

// Pins counts the users of something that is given back after the last of them, such as the
// memory of a memtable. The count begins with the pin of the owner. All methods may be called
// concurrently.
type Pins struct {
	// n becomes gone, far below zero, with the last Unpin, so that every later Pin fails.
	n atomic.Int64
	_ [56]byte // fills a cache line, so that nothing that readers only read shares it
}

// gone is the value of n after the last Unpin. It stays negative, however many calls of Pin add
// 1 to it.
const gone = -1 << 40

// NewPins returns a count of one, which is the owner's pin.
func NewPins() *Pins {
	p := new(Pins)
	p.n.Store(1)
	return p
}

// Pin adds a pin. It returns false if the last one has ended already; then there is no pin. It is
// one addition, which never has to be tried again, however many processors pin.
func (p *Pins) Pin() bool { return p.n.Add(1) > 0 }

// Unpin ends a pin, and reports whether it was the last. It says so to exactly one caller.
func (p *Pins) Unpin() (last bool) { return p.n.Add(-1) == 0 && p.n.CompareAndSwap(0, gone) }

// Alone reports whether there is no pin besides the owner's.
func (p *Pins) Alone() bool { return p.n.Load() <= 1 }
