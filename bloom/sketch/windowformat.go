package sketch

import (
	"encoding/binary"
	"errors"
	"math"
	"time"

	"github.com/shaledb/shale/bloom"
	"github.com/shaledb/shale/bloom/internal/form"
)

// Constants of the serialized form. Part of the file format, never change.
const (
	windowVersion  = 1
	windowLayerLen = 24 // of a layer, next to its slots and the counts of its lanes
	windowLaneLen  = 16
	windowTailLen  = 24 // age, last and rate
)

// The serialized form begins with the slots of all layers, the first one first. For each
// layer follow
//
//	 0        8    16     24
//	|capacity|slots|probes|count of each lane, 8 bytes ...|
//
// then for each lane
//
//	 0     8
//	|began|latest|
//
// and then age and last, in nanoseconds, and the rate as the bits of a float64. The trailer
// is
//
//	 0    1       2    3     4     5       6      7 8    12 20   28
//	|kind|version|hash|flags|lanes|current|layers|0|keys|0 |seed|crc32c|
//
// Flag 1 is NonScaling. keys is the sum of the counts, or 2^32 - 1 if the sum is larger.

// AppendBinary appends the serialized form to dst and returns the longer slice. It holds the
// time of the last addition, and does not read the clock. The form is the same on every
// machine. For the zero Window it returns an error, and dst as it was.
func (w *Window) AppendBinary(dst []byte) ([]byte, error) {
	if len(w.layers) == 0 {
		return dst, errors.New("bloom: write filter: it was not made by NewWindow")
	}
	from := len(dst)
	for i := range w.layers {
		l := &w.layers[i]
		dst = append(dst, l.bytes[:l.size()]...)
	}
	le, keys := binary.LittleEndian, uint64(0)
	for i := range w.layers {
		l := &w.layers[i]
		dst = le.AppendUint64(dst, l.capacity)
		dst = le.AppendUint64(dst, l.m)
		dst = le.AppendUint64(dst, uint64(l.k))
		for _, n := range l.counts {
			dst = le.AppendUint64(dst, n)
			keys += n
		}
	}
	for _, g := range w.lanes {
		dst = le.AppendUint64(dst, uint64(g.began))
		dst = le.AppendUint64(dst, g.latest)
	}
	dst = le.AppendUint64(dst, uint64(w.age))
	dst = le.AppendUint64(dst, uint64(w.last))
	dst = le.AppendUint64(dst, math.Float64bits(w.rate))
	dst = append(dst, make([]byte, form.TrailerLen)...)
	t := begin(dst[from:], form.KindWindow, windowVersion, keys, w.hasher)
	if w.fixed {
		t[3] = 1
	}
	t[4], t[5], t[6] = byte(len(w.lanes)), byte(w.current), byte(len(w.layers))
	form.Seal(dst[from:])
	return dst, nil
}

// MarshalBinary returns the serialized form: see AppendBinary.
func (w *Window) MarshalBinary() ([]byte, error) {
	return w.AppendBinary(make([]byte, 0, w.SizeBytes()+windowRest(len(w.layers), len(w.lanes))))
}

// windowRest returns the length of the serialized form without the slots.
func windowRest(layers, lanes int) int {
	return layers*(windowLayerLen+8*lanes) + lanes*windowLaneLen + windowTailLen + form.TrailerLen
}

// UnmarshalBinary makes w the window whose serialized form is b, all of b. It copies b, and
// takes as much memory. w keeps its clock, by which the generations go on from the time of
// the last addition: see SetClock. The error is ErrUnknown or ErrDamaged of package bloom, and
// leaves w as it was. The caller must then take every key for one that may be there.
func (w *Window) UnmarshalBinary(b []byte) error {
	made, err := openWindow(b, w.now)
	if err != nil {
		return err
	}
	for i := range made.layers {
		made.layers[i].own()
	}
	*w = *made
	return nil
}

// OpenWindow returns the window whose serialized form is b, all of b. It keeps b and does not
// copy it: b must not change while the window is in use. The window copies its slots when they
// are changed for the first time, and never changes b. Its clock is time.Now: see SetClock.
// Every byte is checked: the errors are those of UnmarshalBinary.
func OpenWindow(b []byte) (*Window, error) { return openWindow(b, nil) }

// openWindow is OpenWindow for a window with this clock.
func openWindow(b []byte, now func() time.Time) (*Window, error) {
	t, err := trailerOf(b, form.KindWindow, windowVersion)
	if err != nil {
		return nil, err
	}
	lanes, layers := int(t[4]), int(t[6])
	if lanes < 2 || lanes > MaxGenerations+1 || layers < 1 || layers > maxWindowLayers || len(b) < windowRest(layers, lanes) {
		return nil, form.Damage("%d layers of %d lanes in %d bytes", layers, lanes, len(b))
	}
	var h head
	if err := h.open(b); err != nil {
		return nil, err
	}
	if zero := binary.LittleEndian.Uint64(t[12:]); zero != 0 || t[7] != 0 || t[3] > 1 {
		return nil, form.Damage("reserved bytes are %#x and %#x, flags %#x", t[7], zero, t[3])
	}
	made := Window{
		fixed: t[3] == 1, hasher: h.hasher, now: now, current: int(t[5]),
		lanes: make([]generation, lanes), layers: make([]windowLayer, 0, layers),
	}
	slots := len(b) - windowRest(layers, lanes)
	rest := b[slots : len(b)-form.TrailerLen]
	tail := rest[len(rest)-windowTailLen-lanes*windowLaneLen:]
	keys, err := made.decodeLayers(b[:slots], rest[:len(rest)-len(tail)])
	if err != nil {
		return nil, err
	}
	if uint64(h.keys) != min(keys, math.MaxUint32) {
		return nil, form.Damage("%d keys, %d counted", h.keys, keys)
	}
	made.decodeLanes(tail)
	if err := made.checkLanes(); err != nil {
		return nil, err
	}
	return &made, nil
}

// decodeLayers appends the layers that the bytes in heads describe to w, and returns how
// many keys they count. Their slots are in body, and have to fill it.
func (w *Window) decodeLayers(body, heads []byte) (keys uint64, err error) {
	le, lanes := binary.LittleEndian, len(w.lanes)
	for size := windowLayerLen + 8*lanes; len(heads) > 0; heads = heads[size:] {
		l := windowLayer{capacity: le.Uint64(heads), m: le.Uint64(heads[8:]), counts: make([]uint64, lanes)}
		k := le.Uint64(heads[16:])
		switch {
		case l.m == 0 || l.m%64 != 0 || l.m/8 > uint64(len(body)/lanes):
			return 0, form.Damage("a layer of %d slots for %d lanes in %d bytes", l.m, lanes, len(body))
		case k < 1 || k > bloom.MaxProbes || l.capacity == 0:
			return 0, form.Damage("a layer with %d probes for %d keys", k, l.capacity)
		}
		for i := range l.counts {
			l.counts[i] = le.Uint64(heads[windowLayerLen+8*i:])
			if keys += l.counts[i]; keys < l.counts[i] {
				return 0, form.Damage("more keys than a number can say")
			}
		}
		l.k = int(k)
		n := int(l.m/8) * lanes
		l.bytes, l.shared = body[:n+slotPad:n+slotPad], true // more than slotPad bytes follow
		body = body[n:]
		w.layers = append(w.layers, l)
	}
	if len(body) > 0 {
		return 0, form.Damage("%d bytes of no layer", len(body))
	}
	return keys, nil
}

// decodeLanes reads the lanes and what follows them.
func (w *Window) decodeLanes(b []byte) {
	le := binary.LittleEndian
	for i := range w.lanes {
		w.lanes[i] = generation{began: int64(le.Uint64(b)), latest: le.Uint64(b[8:])}
		b = b[windowLaneLen:]
	}
	w.age, w.last = int64(le.Uint64(b)), int64(le.Uint64(b[8:]))
	w.rate = math.Float64frombits(le.Uint64(b[16:]))
}

// checkLanes returns an error for values that no writer of this version makes.
func (w *Window) checkLanes() error {
	switch {
	case w.current >= len(w.lanes):
		return form.Damage("lane %d of %d takes keys", w.current, len(w.lanes))
	case w.age < 0 || w.age > int64(MaxAge) || w.last < 0 || w.last > maxTime || w.age == 0 && w.last != 0:
		return form.Damage("an age of %d, a time of %d", w.age, w.last)
	case !(w.rate > 0 && w.rate < 1):
		return form.Damage("a rate of %v", w.rate)
	case len(w.layers) > 1 && (w.age == 0 || w.fixed || w.layers[len(w.layers)-1].empty()):
		return form.Damage("%d layers of a window that does not grow, or the last without keys", len(w.layers))
	}
	newest := w.lanes[w.current].began
	for i, g := range w.lanes {
		keys := uint64(0)
		for _, l := range w.layers {
			keys += l.counts[i]
		}
		switch {
		case g.latest > keys:
			return form.Damage("lane %d has %d keys, and %d latest ones", i, keys, g.latest)
		case w.age == 0 && (g.began < 0 || g.began > maxTime || keys > w.layers[0].capacity):
			return form.Damage("lane %d began at %d, and has %d keys", i, g.began, keys)
		case w.age > 0 && (g.began > newest || g.began < w.last-int64(len(w.lanes)+1)*w.step()):
			return form.Damage("lane %d began at %d, the newest at %d", i, g.began, newest)
		}
	}
	if w.age > 0 && (newest > w.last || w.last-newest >= w.step()) {
		return form.Damage("the newest lane began at %d, and it is %d", newest, w.last)
	}
	return nil
}
