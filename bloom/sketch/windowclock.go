package sketch

import "time"

// maxTime is the latest time of the clock that a Window tells from later ones, in
// nanoseconds since 1970: the year 2116. The earliest is 0. So no difference between two
// times, or between a time and the beginning of a generation, overflows an int64.
const maxTime = 1 << 62

// nanoseconds returns t in nanoseconds since 1970, or the nearest number that is allowed.
func nanoseconds(t time.Time) int64 {
	seconds := t.Unix()
	switch {
	case seconds < 0:
		return 0
	case seconds >= maxTime/int64(time.Second):
		return maxTime
	}
	return seconds*int64(time.Second) + int64(t.Nanosecond())
}

// SetClock makes now the clock, or time.Now if it is nil: see WindowOptions.Now. It is for a
// window that was read: its generations go on by this clock from the time of the last
// addition. It must not be called while others ask the window.
func (w *Window) SetClock(now func() time.Time) { w.now = now }

// read returns the time of the clock.
func (w *Window) read() int64 {
	if w.now == nil {
		return nanoseconds(time.Now())
	}
	return nanoseconds(w.now())
}

// step returns how long a generation of a window by time takes keys. It is rounded up, so
// that all steps together are not shorter than the age.
func (w *Window) step() int64 {
	n := int64(len(w.lanes) - 1)
	return (w.age + n - 1) / n
}

// tick moves the time of the window to that of the clock, and begins the generations that
// are due by then. A window by number has no time.
func (w *Window) tick() {
	if w.age == 0 {
		return
	}
	now := w.read()
	switch {
	case now > w.last:
		w.last = now
	case w.last-now >= w.age:
		// The clock was wrong before, or is wrong now. All generations move back with it,
		// so that the keys keep their ages.
		for i := range w.lanes {
			w.lanes[i].began -= w.last - now
		}
		w.last = now
	}
	if n := (w.last - w.lanes[w.current].began) / w.step(); n > 0 {
		w.turn(n)
	}
}

// turn begins n generations, each one step after the one before, and drops as many of the
// oldest. Of more generations than the ring has, it begins the last.
func (w *Window) turn(n int64) {
	ring, step := int64(len(w.lanes)), int64(0)
	if w.age > 0 {
		step = w.step()
	}
	began, dropped := w.lanes[w.current].began+n*step, uint64(0)
	w.current = int((int64(w.current) + n%ring) % ring)
	for i := range min(n, ring) {
		lane := (int64(w.current) - i + ring) % ring
		w.lanes[lane] = generation{began: began - i*step}
		dropped |= 1 << lane
	}
	w.drop(dropped)
}

// drop removes all keys of the generations in mask, and the last layers if they have no keys
// then.
func (w *Window) drop(mask uint64) {
	for i := range w.layers {
		w.layers[i].drop(mask)
	}
	for len(w.layers) > 1 && w.layers[len(w.layers)-1].empty() {
		w.layers[len(w.layers)-1] = windowLayer{}
		w.layers = w.layers[:len(w.layers)-1]
	}
}

// live returns the mask of the generations that are kept at the time of the clock. It is
// what all would return after tick, and changes nothing, so that questions may come at once.
func (w *Window) live() uint64 {
	mask := w.all()
	if w.age == 0 {
		return mask
	}
	for i := range min(w.due(), int64(len(w.lanes))) {
		mask &^= 1 << ((int64(w.current) + 1 + i) % int64(len(w.lanes)))
	}
	return mask
}

// due returns how many generations tick would begin. Requires: w is a window by time.
func (w *Window) due() int64 {
	return (max(w.last, w.read()) - w.lanes[w.current].began) / w.step()
}

// Oldest returns the moment from which the window knows all keys: every key that was added
// then or later is found. For a window by time this is Age ago or up to Age/Generations
// more, but not before the window was made. For a window by number it is the time when the
// oldest generation began. After the clock was set back it may be the time that the clock
// would have shown then. For the zero Window it is the zero time.
func (w *Window) Oldest() time.Time {
	if len(w.layers) == 0 {
		return time.Time{}
	}
	n := int64(0) // generations that are due
	if w.age > 0 {
		n = w.due()
	}
	oldest := int64(0)
	if ring := int64(len(w.lanes)); n < ring {
		oldest = w.lanes[(int64(w.current)+1+n)%ring].began
	} else {
		oldest = w.lanes[w.current].began + (n-ring+1)*w.step()
	}
	return time.Unix(0, oldest)
}
