package sketch

import (
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/shaledb/shale/bloom"
)

// Window is a Bloom filter that forgets: it holds the keys of the last 30 days, or the last
// million keys. It is for streams that have no end, such as duplicates of messages, visitors
// of a day, or nonces that must not be used twice.
//
// # Promises
//
// A window by time (WindowOptions.Age) answers maybe to every key that was added at most
// Age ago, and forgets a key after Age + Age/Generations at the latest. A window by number
// (no Age) answers maybe to a key until Keys other keys have been added after it, and
// forgets it after Keys + Keys/Generations at the latest, each rounded up to a whole number
// of keys in a generation. To forget a key means to answer maybe to it with the probability
// of a key that was never added.
//
// Adding a key again refreshes it: its age then counts from the last addition. A key that is
// added again in the same generation takes no room, and does not count as another key.
//
// The expected share of absent keys that pass is at most FPR, over the whole window and at any
// time. A window by number never has more than its Keys and a generation of keys, and has a
// constant size. For a window by time Keys is a plan. If more different keys come in a part
// of Age/Generations than this part has room for, the window grows: no key is dropped early,
// and the rate stays below FPR. It shrinks again when the crowded generations are dropped.
// With NonScaling it has a constant size, and the rate rises instead; FPR reports it.
//
// # How it works
//
// The window is a ring of Generations + 1 Bloom filters, its generations. Keys are added to
// the newest one. From time to time the oldest is emptied as a whole and becomes the newest:
// each Age/Generations, or each Keys/Generations keys. This is a jumping window, as in
// the detection of duplicates in click streams (Zhang and Guan, see below). Every
// generation has the rate FPR/(Generations + 1), and by the union bound all of them together
// have at most FPR. Growth follows Scalable: a full generation gets another layer with a
// fraction of the rate, and the fractions add up to 1.
//
// All generations have the same size, and bit i of all of them lies side by side, as in the
// group Bloom filters of Zhang and Guan ("Detecting click fraud in pay-per-click streams of
// online advertising networks", 2008). So a question does not ask one filter after the
// other: one load fetches a bit of all generations, and the loads of a key run in parallel.
// An absent key costs 6 loads with 8 generations and 7 with 30, and up to 6 more for one key
// in five; separate filters would take 27 and 93. These are nanoseconds, for the hash of an
// absent key and for as many separate filters of the same rate (BenchmarkWindow):
//
//	               20,000 keys, in cache    8 million keys, out of it
//	generations    ask   add   separate     ask   add   separate
//	 1              15    33         15     136   273        152
//	 8              19    39         66     184   342        474
//	30              23    46        227     235   385       1147
//
// More generations forget more exactly, and need more bits a key. At 1 % that is 22.0 bits
// with 1 generation, 16.3 with 4, 15.9 with 8, 16.3 with 16 and 17.3 with 30. A window by
// time has another 0.6, in order that it can grow.
//
// Two other algorithms were not chosen. Age-partitioned Bloom filters (Shtul, Baquero and
// Almeida 2020) and time-limited ones (Rodrigues and others 2023) spread each key over
// several slices, and look for a run of them. The bound above is simpler, and needs no
// assumption about how many keys come in what time. Timing Bloom filters (Zhang and Guan)
// forget exactly, but store a time in place of each bit.
//
// # Clock
//
// A window by time reads the clock at each addition and question. Its time never goes back:
// while the clock stands behind the latest time that an addition has seen, the time stands
// still. So a clock that is set back makes no key disappear early; keys stay longer, by as
// much as it was set back. If it is set back by Age or more, the time goes on from there at
// the next addition. Time that the clock jumps forward counts as passed, because nothing
// tells the difference. The clock must show a year between 1970 and 2116.
//
// Any number of goroutines may ask a Window at once, as long as none changes it. The zero
// Window answers maybe to every key, takes none, and cannot be written. It is for
// UnmarshalBinary, UnmarshalText and ReadFrom.
type Window struct {
	layers []windowLayer // at least one; all but the first are for generations that are too full
	age    int64         // nanoseconds; 0 for a window by number
	rate   float64       // the rate that was asked for
	fixed  bool          // NonScaling
	hasher bloom.Hasher
	now    func() time.Time // nil for time.Now

	current int          // the generation that takes keys; the next one in the ring is the oldest
	last    int64        // the latest time that an addition has seen; not used in a window by number
	lanes   []generation // as many as each layer has lanes
}

// A generation is what a Window knows of the keys that were added in one part of its time.
type generation struct {
	began  int64  // when it became the newest, as a time of the clock
	latest uint64 // number of keys that were added to it, and to no later generation
}

// WindowOptions are the options of NewWindow. Keys must be set.
type WindowOptions struct {
	// Age is how long a key is remembered at least, up to MaxAge. 0 makes a window of the
	// last Keys keys, for which time plays no role.
	Age time.Duration

	// Keys is how many keys the window holds. With Age it is the number of different keys
	// that are expected within Age; if they do not come evenly, a window for Generations
	// times the keys of the busiest part does not have to grow. Without Age it is the
	// number of the latest keys that the window remembers at least.
	Keys uint64

	// Generations is the number of steps in which the window moves, at most MaxGenerations.
	// The default is 8.
	Generations int

	// FPR is the rate of false positives of the whole window, above 0 and below 1. The
	// default is bloom.DefaultFPR.
	FPR float64

	// NonScaling keeps the size of a window by time constant. If more keys come than
	// planned, more absent keys pass.
	NonScaling bool

	// Hasher is the hash function. The default is bloom.Hash.
	Hasher bloom.Hasher

	// Now is the clock. The default is time.Now, which adds some 50 ns to a question; a clock
	// that is read once a second is enough for most windows. If several goroutines ask the
	// window, they call Now at once. A window by number calls it for Oldest only, once for
	// each generation.
	Now func() time.Time
}

const (
	// MaxGenerations is the largest WindowOptions.Generations. A bit of each generation,
	// and of one more, fits into one load of 64 bits that begins at any byte.
	MaxGenerations = 56

	// MaxAge is the longest WindowOptions.Age, 36 years. With it no sum of times overflows.
	MaxAge time.Duration = 1 << 60

	defaultGenerations = 8
)

// NewWindow returns an empty window. Its error names the option that is wrong.
func NewWindow(o WindowOptions) (*Window, error) {
	if o.Generations == 0 {
		o.Generations = defaultGenerations
	}
	if o.FPR == 0 {
		o.FPR = bloom.DefaultFPR
	}
	switch {
	case o.Age < 0 || o.Age > MaxAge:
		return nil, fmt.Errorf("bloom: new window: Age is %v, not 0 to %v", o.Age, MaxAge)
	case o.Keys == 0:
		return nil, errors.New("bloom: new window: no Keys: how many keys does it hold?")
	case o.Generations < 1 || o.Generations > MaxGenerations:
		return nil, fmt.Errorf("bloom: new window: Generations is %d, not 1 to %d", o.Generations, MaxGenerations)
	case !(o.FPR > 0 && o.FPR < 1):
		return nil, fmt.Errorf("bloom: new window: FPR is %v, not between 0 and 1", o.FPR)
	}
	w := &Window{
		age: int64(o.Age), rate: o.FPR, fixed: o.NonScaling, hasher: o.Hasher, now: o.Now,
		lanes: make([]generation, o.Generations+1),
	}
	if err := w.grow((o.Keys-1)/uint64(o.Generations) + 1); err != nil {
		return nil, fmt.Errorf("bloom: new window: %d keys at the rate %v: %w", o.Keys, o.FPR, err)
	}
	w.begin()
	return w, nil
}

// begin makes all generations begin now.
func (w *Window) begin() {
	now := w.read()
	for i := range w.lanes {
		w.lanes[i] = generation{began: now}
	}
	if w.age > 0 {
		w.last = now
	}
}

// grow adds a layer that has room for capacity keys of each generation.
func (w *Window) grow(capacity uint64) error {
	l, err := newWindowLayer(capacity, w.layerRate(len(w.layers)), len(w.lanes))
	if err == nil {
		w.layers = append(w.layers, l)
	}
	return err
}

// layerRate returns the rate of a generation in layer i. The share of a generation is
// r = rate/lanes. Its layers have 3/4, 1/8, 1/16 of r and so on, which sum up to less than
// r. Most generations have one layer only, and so the first has the largest part.
func (w *Window) layerRate(i int) float64 {
	r := w.rate / float64(len(w.lanes))
	switch {
	case w.age == 0 || w.fixed:
	case i == 0:
		r *= 3. / 4
	default:
		r = math.Ldexp(r, -2-i)
	}
	return max(r, 0x1p-1022) // math.Log is not exact below
}
