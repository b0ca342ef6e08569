package sketch

import (
	"bytes"
	"encoding/binary"
	"errors"
	"math/big"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/shaledb/shale/bloom"
	"github.com/shaledb/shale/bloom/internal/filtertest"
	"github.com/shaledb/shale/bloom/internal/form"
	"github.com/shaledb/shale/internal/fuzzing"
)

// windowGoldens are windows whose bytes are stored.
func windowGoldens(t testing.TB) map[string]*Window {
	sip, err := bloom.NewHasher(bloom.HashSipHash, 0x0123456789abcdef)
	if err != nil {
		t.Fatal(err)
	}
	clock := newHandClock()
	filled := func(o WindowOptions, n int) *Window {
		o.Now = clock.now
		w := windowOf(t, o)
		for i := range n {
			w.Add(filtertest.Numbered(i))
			clock.move(time.Minute)
		}
		return w
	}
	return map[string]*Window{
		"window-example": filled(WindowOptions{Keys: 2, Generations: 1, FPR: 0.1}, 3),
		"window-none":    filled(WindowOptions{Keys: 10, Age: time.Hour, Generations: 2}, 0),
		"window-number":  filled(WindowOptions{Keys: 60}, 100),
		"window-siphash": filled(WindowOptions{Keys: 60, Age: time.Hour, Hasher: sip}, 100),
		"window-crowd":   filled(WindowOptions{Keys: 10, Age: 40 * time.Minute, Generations: 3}, 100),
		"window-fixed":   filled(WindowOptions{Keys: 10, Age: 40 * time.Minute, Generations: 3, NonScaling: true}, 100),
	}
}

// Windows that earlier programs wrote are read with their keys, and this program writes the
// same bytes.
func TestGolden_Windows(t *testing.T) {
	for name, w := range windowGoldens(t) {
		b := filtertest.Marshal(t, w)
		kept := filtertest.ReadGolden(t, name+"-v1.filter", func() []byte { return b })
		if !bytes.Equal(b, kept) {
			t.Errorf("%s: the bytes changed", name)
		}
		r := &Window{now: w.now}
		if err := r.UnmarshalBinary(kept); err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		for i := range 100 {
			if key := filtertest.Numbered(i); r.MayContain(key) != w.MayContain(key) {
				t.Errorf("%s: key-%d", name, i)
			}
		}
		if !bytes.Equal(filtertest.Marshal(t, r), kept) || r.Count() != w.Count() || r.EstimatedCount() != w.EstimatedCount() || !r.Oldest().Equal(w.Oldest()) {
			t.Errorf("%s: not the same after it was read", name)
		}
		text, err := w.MarshalText()
		if err != nil {
			t.Fatal(err)
		}
		if err := r.UnmarshalText(text); err != nil || !bytes.Equal(filtertest.Marshal(t, r), kept) {
			t.Errorf("%s: not the same as text: %v", name, err)
		}
	}
	if w := windowGoldens(t)["window-crowd"]; len(w.layers) < 3 {
		t.Errorf("%d layers in the example of many", len(w.layers))
	}
}

// specWindow returns the slots of a window of one layer, to whose lanes the keys with these
// hashes were added, as docs/FORMAT.md says, with big numbers.
func specWindow(m uint64, k int, lanes [][]uint64) []byte {
	body := make([]byte, m*uint64(len(lanes))/8)
	word := new(big.Int).Lsh(big.NewInt(1), 64)
	c, _ := new(big.Int).SetString("9e3779b97f4a7c15", 16)
	for lane, hashes := range lanes {
		for _, h := range hashes {
			h2 := form.Finish(h + c.Uint64())
			z := new(big.Int).SetUint64(h%(1<<32)*(1<<32) + h2%(1<<32))
			for i := range int64(k) {
				x := new(big.Int).SetUint64(h)
				x.Add(x, new(big.Int).Mul(big.NewInt(i), new(big.Int).SetUint64(h2)))
				x.Add(x, new(big.Int).Mul(big.NewInt(i*(i-1)/2), z))
				x.Add(x, new(big.Int).Mul(big.NewInt(i*(i-1)*(i-2)/6), c))
				x.Mod(x, word)
				slot := x.Mul(x, new(big.Int).SetUint64(m)).Rsh(x, 64).Uint64()
				bit := slot*uint64(len(lanes)) + uint64(lane)
				body[bit/8] |= 1 << (bit % 8)
			}
		}
	}
	return body
}

func TestWindowFormat_AsDocumented(t *testing.T) {
	const perLane = 10
	for _, generations := range []int{1, 2, 7, 8, 30, MaxGenerations} {
		w := windowOf(t, WindowOptions{Keys: uint64(perLane * generations), Generations: generations, FPR: 1e-9})
		n := perLane*(generations+1)*2 + 3
		lanes := make([][]uint64, generations+1)
		for i := range n {
			if err := w.Add(filtertest.Numbered(i)); err != nil {
				t.Fatal(err)
			}
			lane := &lanes[i/perLane%len(lanes)]
			if i%perLane == 0 {
				*lane = nil // the oldest keys are dropped
			}
			*lane = append(*lane, bloom.Hash(filtertest.Numbered(i)))
		}
		b, l := filtertest.Marshal(t, w), &w.layers[0]
		if !bytes.Equal(b[:w.SizeBytes()], specWindow(l.m, l.k, lanes)) {
			t.Errorf("%d generations: the bits are not as documented", generations)
		}
		if want := w.SizeBytes() + 24 + 24*len(lanes) + 24 + 32; len(b) != want {
			t.Errorf("%d generations: %d bytes, want %d", generations, len(b), want)
		}
	}
}

// A window that was opened answers from the bytes of the caller, and copies them before it
// changes anything.
func TestOpenWindow(t *testing.T) {
	changes := map[string]func(w *Window, clock *handClock){
		"Add": func(w *Window, _ *handClock) { w.AddString("new") },
		"turn": func(w *Window, clock *handClock) {
			clock.move(time.Hour)
			w.AddString("key-1")
		},
		"Reset": func(w *Window, _ *handClock) { w.Reset() },
		"Clone": func(w *Window, _ *handClock) { w.Clone().AddString("new") },
		"read":  func(w *Window, _ *handClock) { w.UnmarshalBinary(filtertest.Marshal(t, w)) },
	}
	for name, made := range windowGoldens(t) {
		b := filtertest.Marshal(t, made)
		for what, change := range changes {
			clock := &handClock{made.now()}
			lent := append(bytes.Clone(b), "what follows"...)[:len(b)]
			w, err := OpenWindow(lent)
			if err != nil {
				t.Fatal(err)
			}
			w.SetClock(clock.now)
			if &w.layers[0].bytes[0] != &lent[0] {
				t.Errorf("%s: it was copied", name)
			}
			for i := range 100 {
				if key := filtertest.Numbered(i); w.MayContain(key) != made.MayContain(key) {
					t.Errorf("%s: key-%d", name, i)
				}
			}
			if !bytes.Equal(filtertest.Marshal(t, w), b) || w.FPR() != made.FPR() {
				t.Errorf("%s: it differs after it was opened", name)
			}
			change(w, clock)
			if !bytes.Equal(lent, b) {
				t.Errorf("%s: %s changed the caller's bytes", name, what)
			}
			r := made.Clone()
			clock = &handClock{made.now()}
			r.SetClock(clock.now)
			if change(r, clock); !bytes.Equal(filtertest.Marshal(t, w), filtertest.Marshal(t, r)) {
				t.Errorf("%s: %s is not what it is for a window that was not opened", name, what)
			}
		}
	}
	if w, err := OpenWindow([]byte("rubbish")); w != nil || err == nil {
		t.Errorf("rubbish: %v, %v", w, err)
	}
}

// Every value that no writer makes is refused, and leaves the window as it was.
func TestWindow_UnmarshalRefuses(t *testing.T) {
	w := windowGoldens(t)["window-crowd"]
	good := filtertest.Marshal(t, w)
	number := filtertest.Marshal(t, windowGoldens(t)["window-number"])
	lanes, layers := len(w.lanes), len(w.layers)
	end := len(good)
	trailer, tail := end-form.TrailerLen, end-form.TrailerLen-windowTailLen
	ring := tail - lanes*windowLaneLen
	heads := ring - layers*(windowLayerLen+8*lanes)
	put8 := func(at int, v uint64) func(b []byte) {
		return func(b []byte) { binary.LittleEndian.PutUint64(b[at:], v) }
	}
	set := func(at int, v byte) func(b []byte) { return func(b []byte) { b[at] = v } }
	for _, c := range []struct {
		name   string
		change func(b []byte)
		err    error
	}{
		{"kind", set(trailer, form.KindBitset), form.ErrUnknown},
		{"version", set(trailer+1, 2), form.ErrUnknown},
		{"hash", set(trailer+2, 9), form.ErrUnknown},
		{"flags", set(trailer+3, 2), form.ErrDamaged},
		{"fixed with layers", set(trailer+3, 1), form.ErrDamaged},
		{"lanes", set(trailer+4, 1), form.ErrDamaged},
		{"many lanes", set(trailer+4, MaxGenerations+2), form.ErrDamaged},
		{"other lanes", set(trailer+4, byte(lanes+1)), form.ErrDamaged},
		{"current", set(trailer+5, byte(lanes)), form.ErrDamaged},
		{"no layers", set(trailer+6, 0), form.ErrDamaged},
		{"many layers", set(trailer+6, 255), form.ErrDamaged},
		{"reserved", set(trailer+7, 1), form.ErrDamaged},
		{"keys", set(trailer+8, 1), form.ErrDamaged},
		{"more reserved", set(trailer+12, 1), form.ErrDamaged},
		{"capacity", put8(heads, 0), form.ErrDamaged},
		{"slots", put8(heads+8, 0), form.ErrDamaged},
		{"more slots", put8(heads+8, 1<<63), form.ErrDamaged},
		{"odd slots", put8(heads+8, 65), form.ErrDamaged},
		{"probes", put8(heads+16, 0), form.ErrDamaged},
		{"many probes", put8(heads+16, bloom.MaxProbes+1), form.ErrDamaged},
		{"counts", put8(heads+24, 1<<63), form.ErrDamaged},
		{"began", put8(ring, 1<<62), form.ErrDamaged},
		{"began long ago", put8(ring, 1), form.ErrDamaged},
		{"latest", put8(ring+8, 1<<40), form.ErrDamaged},
		{"age", put8(tail, 1<<63), form.ErrDamaged},
		{"long age", put8(tail, uint64(MaxAge)+1), form.ErrDamaged},
		{"by number", put8(tail, 0), form.ErrDamaged},
		{"time", put8(tail+8, 1<<63), form.ErrDamaged},
		{"late time", put8(tail+8, maxTime), form.ErrDamaged},
		{"rate", put8(tail+16, 0), form.ErrDamaged},
	} {
		b := bytes.Clone(good)
		c.change(b)
		r := w.Clone()
		err := r.UnmarshalBinary(filtertest.Reseal(b))
		if !errors.Is(err, c.err) || !bytes.Equal(filtertest.Marshal(t, r), good) {
			t.Errorf("%s: %v", c.name, err)
		}
	}
	for i := range good {
		if err := new(Window).UnmarshalBinary(good[:i]); err == nil {
			t.Errorf("the first %d bytes are read", i)
		}
		b := bytes.Clone(good)
		b[i] ^= 4
		if err := new(Window).UnmarshalBinary(b); err == nil {
			t.Errorf("a changed bit in byte %d is not found", i)
		}
	}
	b := bytes.Clone(number)
	binary.LittleEndian.PutUint64(b[len(b)-form.TrailerLen-16:], 5)
	if err := new(Window).UnmarshalBinary(filtertest.Reseal(b)); !errors.Is(err, form.ErrDamaged) {
		t.Errorf("a window by number with a time: %v", err)
	}
}

// The decoder copies its input, and needs little other memory.
var windowLimit = fuzzing.Limit{Bytes: 16 << 10, PerByte: 2}

// FuzzWindow gives bytes to the decoder, as they are and with a checksum that fits. A window
// that can be read is used, and writes the same bytes again.
func FuzzWindow(f *testing.F) {
	files, err := filepath.Glob("testdata/window-*.filter")
	if err != nil || len(files) == 0 {
		f.Fatalf("no golden windows: %v", err)
	}
	for _, name := range files {
		b, err := os.ReadFile(name)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b, int64(0))
		f.Add(b, int64(1)<<60)
		f.Add(b[len(b)-form.TrailerLen:], int64(-1))
	}
	f.Fuzz(func(t *testing.T, b []byte, jump int64) {
		for _, b := range [][]byte{b, filtertest.Reseal(b)} {
			clock := newHandClock()
			w := &Window{now: clock.now}
			var err error
			windowLimit.Check(t, len(b), func() { err = w.UnmarshalBinary(b) })
			if err != nil {
				if errors.Is(err, form.ErrDamaged) == errors.Is(err, form.ErrUnknown) || w.layers != nil {
					t.Fatalf("UnmarshalBinary: %v", err)
				}
				continue
			}
			if again := filtertest.Marshal(t, w); !bytes.Equal(again, b) {
				t.Fatalf("written again %x", again)
			}
			kept := bytes.Clone(b)
			lent, err := OpenWindow(b)
			if err != nil {
				t.Fatalf("OpenWindow: %v", err)
			}
			c := newHandClock()
			lent.SetClock(c.now)
			use(t, lent, c, time.Duration(jump))
			if !bytes.Equal(b, kept) {
				t.Fatal("the caller's bytes changed")
			}
			use(t, w, clock, time.Duration(jump))
		}
	})
}

// use uses a window that was read from any bytes.
func use(t *testing.T, w *Window, clock *handClock, jump time.Duration) {
	for i := range 4 {
		key := filtertest.Numbered(i)
		if p := w.FPR(); !(p >= 0 && p <= 1) || !(w.EstimatedCount() >= 0) || w.String() == "" {
			t.Fatalf("FPR() = %v, EstimatedCount() = %v", p, w.EstimatedCount())
		}
		room := uint64(0)
		for _, l := range w.layers {
			room += min(l.capacity, 1<<20)
		}
		if room >= 1000 && w.age > 0 && !w.fixed {
			return // the next layer would be as large as the file says
		}
		had := w.MayContain(key)
		if w.CheckAndAdd(key) != had || !w.MayContain(key) {
			t.Fatalf("CheckAndAdd of %s, which was found: %v", key, had)
		}
		w.Oldest()
		if err := new(Window).UnmarshalBinary(filtertest.Marshal(t, w)); err != nil {
			t.Fatalf("written, and read with %v", err)
		}
		clock.move(jump)
	}
}
