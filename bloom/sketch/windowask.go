package sketch

import (
	"errors"
	"math/bits"

	"github.com/shaledb/shale/bloom/internal/form"
)

// Add adds key. The error is not nil only for the zero Window, which takes no keys.
func (w *Window) Add(key []byte) error { return w.addHash(w.hasher.Hash(key)) }

// AddString adds the bytes of s: see Add.
func (w *Window) AddString(s string) error { return w.addHash(w.hasher.Hash(form.Bytes(s))) }

func (w *Window) addHash(h uint64) error {
	if len(w.layers) == 0 {
		return errZeroWindow()
	}
	w.CheckAndAddHash(h)
	return nil
}

func errZeroWindow() error {
	return errors.New("bloom: add to window: it was not made by NewWindow, nor read: no key can be added")
}

// AddKeys adds all keys, as of the same moment: see Add.
func (w *Window) AddKeys(keys [][]byte) error {
	if len(w.layers) == 0 {
		return errZeroWindow()
	}
	w.tick()
	for _, key := range keys {
		w.put(w.hasher.Hash(key))
	}
	return nil
}

// AddHash adds the key with this hash, which must be made by Hasher. To the zero Window it
// adds nothing.
func (w *Window) AddHash(h uint64) { w.CheckAndAddHash(h) }

// AddMany adds all keys with these hashes, as of the same moment: see AddHash.
func (w *Window) AddMany(hashes []uint64) {
	if len(w.layers) == 0 {
		return
	}
	w.tick()
	for _, h := range hashes {
		w.put(h)
	}
}

// CheckAndAdd adds key, and reports whether it may have been in the window before. False is
// certain.
func (w *Window) CheckAndAdd(key []byte) bool { return w.CheckAndAddHash(w.hasher.Hash(key)) }

// CheckAndAddString is CheckAndAdd for the bytes of s.
func (w *Window) CheckAndAddString(s string) bool {
	return w.CheckAndAddHash(w.hasher.Hash(form.Bytes(s)))
}

// CheckAndAddHash is CheckAndAdd for the key with this hash: see AddHash.
func (w *Window) CheckAndAddHash(h uint64) bool {
	if len(w.layers) == 0 {
		return true
	}
	w.tick()
	return w.put(h)
}

// put is CheckAndAddHash. Requires: w is not zero, and its time is that of the clock.
func (w *Window) put(h uint64) bool {
	found := w.find(h, w.all())
	if found>>w.current&1 != 0 {
		return true
	}
	before := found
	l := w.room()
	found &^= 1 << w.current // if room has turned the ring, this generation is empty
	l.add(h, w.current)
	w.lanes[w.current].latest++
	if found != 0 {
		if g := &w.lanes[w.youngest(found)]; g.latest > 0 { // it is 0 if h is a false positive there
			g.latest--
		}
	}
	return before != 0
}

// room returns the layer that takes the next key of the current generation. If there is
// none, a window by number begins another generation, and a window by time grows. If it may
// not grow or is too large to grow, the last layer takes the key and has more false
// positives.
func (w *Window) room() *windowLayer {
	capacity := uint64(0)
	for i := range w.layers {
		l := &w.layers[i]
		if l.counts[w.current] < l.capacity {
			return l
		}
		capacity += l.capacity
	}
	switch {
	case w.age == 0:
		w.turn(1)
		w.lanes[w.current].began = w.read()
		return &w.layers[0]
	case !w.fixed && len(w.layers) < maxWindowLayers:
		_ = w.grow(capacity) // doubles the room; an error leaves the window as it was
	}
	return &w.layers[len(w.layers)-1]
}

// maxWindowLayers is more than a window can have: each layer has as much room as all before.
const maxWindowLayers = 48

// MayContain reports whether key may be in the window. False is certain. It allocates
// nothing.
func (w *Window) MayContain(key []byte) bool { return w.MayContainHash(w.hasher.Hash(key)) }

// MayContainString is MayContain for the bytes of s.
func (w *Window) MayContainString(s string) bool {
	return w.MayContainHash(w.hasher.Hash(form.Bytes(s)))
}

// MayContainHash is MayContain for the key with this hash: see AddHash.
func (w *Window) MayContainHash(h uint64) bool {
	return len(w.layers) == 0 || w.find(h, w.live()) != 0
}

// MayContainKeys sets out[i] to MayContain(keys[i]), as of the same moment. If out is longer
// than keys, the rest of out becomes true.
func (w *Window) MayContainKeys(keys [][]byte, out []bool) {
	live := w.live()
	for i := range out {
		out[i] = i >= len(keys) || len(w.layers) == 0 || w.find(w.hasher.Hash(keys[i]), live) != 0
	}
}

// MayContainMany is MayContainKeys for hashes: see AddHash.
func (w *Window) MayContainMany(hashes []uint64, out []bool) {
	live := w.live()
	for i := range out {
		out[i] = i >= len(hashes) || len(w.layers) == 0 || w.find(hashes[i], live) != 0
	}
}

// find returns which of the generations in mask may have the hash, as a bit for each.
func (w *Window) find(h, mask uint64) (found uint64) {
	for i := range w.layers {
		found |= w.layers[i].find(h, mask)
	}
	return found
}

// all returns the mask of all generations.
func (w *Window) all() uint64 { return 1<<len(w.lanes) - 1 }

// youngest returns the youngest of the generations in mask. Requires: mask is not 0.
func (w *Window) youngest(mask uint64) int {
	n := len(w.lanes)
	oldest := w.current + 1
	byAge := mask>>oldest | mask<<(n-oldest)&w.all() // bit 0 is the oldest generation
	return (bits.Len64(byAge) - 1 + oldest) % n
}
