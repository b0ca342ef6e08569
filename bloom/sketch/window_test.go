package sketch

import (
	"encoding"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/shaledb/shale/bloom"
	"github.com/shaledb/shale/bloom/internal/filtertest"
	"github.com/shaledb/shale/internal/testenv"
)

var (
	_ encoding.BinaryMarshaler   = (*Window)(nil)
	_ encoding.BinaryAppender    = (*Window)(nil)
	_ encoding.BinaryUnmarshaler = (*Window)(nil)
)

// A handClock is a clock that a test moves by hand.
type handClock struct{ time time.Time }

func (c *handClock) now() time.Time { return c.time }

func (c *handClock) move(d time.Duration) { c.time = c.time.Add(d) }

func newHandClock() *handClock {
	return &handClock{time.Date(2031, 11, 21, 8, 17, 0, 0, time.UTC)}
}

func windowOf(t testing.TB, o WindowOptions) *Window {
	t.Helper()
	w, err := NewWindow(o)
	if err != nil {
		t.Fatal(err)
	}
	return w
}

// again returns w as it is after it was written and read.
func again(t testing.TB, w *Window, clock func() time.Time) *Window {
	t.Helper()
	r := new(Window)
	r.SetClock(clock)
	if err := r.UnmarshalBinary(filtertest.Marshal(t, w)); err != nil {
		t.Fatal(err)
	}
	return r
}

// An exactWindow does what a Window does, with a map for each generation and its own
// computation of time: since is the time that has passed since the window was made.
type exactWindow struct {
	o       WindowOptions
	room    int           // keys in a generation of a window by number
	step    time.Duration // of a generation of a window by time
	since   time.Duration
	seen    time.Time // the latest time of the clock
	number  int64     // of the current generation, from 0 up
	keys    map[int64]map[int]bool
	added   map[int]time.Duration // when a key was added last, as a value of since
	after   map[int]int           // additions up to the last one of the key
	counter int
}

func newExactWindow(o WindowOptions) *exactWindow {
	n := time.Duration(o.Generations)
	return &exactWindow{
		o: o, room: (int(o.Keys) + o.Generations - 1) / o.Generations, step: (o.Age + n - 1) / n, seen: o.Now(),
		keys: map[int64]map[int]bool{0: {}}, added: map[int]time.Duration{}, after: map[int]int{},
	}
}

// passed returns the time since the window was made, if something is asked now.
func (x *exactWindow) passed() time.Duration { return x.since + max(0, x.o.Now().Sub(x.seen)) }

func (x *exactWindow) has(key int) bool {
	number := x.number
	if x.o.Age > 0 {
		number = int64(x.passed() / x.step)
	}
	for i := number - int64(x.o.Generations); i <= number; i++ {
		if x.keys[i][key] {
			return true
		}
	}
	return false
}

func (x *exactWindow) add(key int) {
	if x.o.Age > 0 {
		x.since = x.passed()
		if now := x.o.Now(); now.After(x.seen) || x.seen.Sub(now) >= x.o.Age {
			x.seen = now
		}
		x.number = int64(x.since / x.step)
	} else if !x.keys[x.number][key] && len(x.keys[x.number]) == x.room {
		x.number++
	}
	if x.keys[x.number] == nil {
		x.keys[x.number] = map[int]bool{}
	}
	x.keys[x.number][key] = true
	x.counter++
	x.added[key], x.after[key] = x.since, x.counter
}

// different counts the keys of the window.
func (x *exactWindow) different() (n int) {
	for key := range x.added {
		if x.has(key) {
			n++
		}
	}
	return n
}

// check compares w with the model, and with the promises. The rate is so low that no key
// passes by chance.
func (x *exactWindow) check(t *testing.T, w *Window, key int) {
	t.Helper()
	found, known := w.MayContain(filtertest.Numbered(key)), x.has(key)
	if found != known {
		t.Fatalf("key-%d, %v after the start: found %v, but the model says %v", key, x.passed(), found, known)
	}
	added, ok := x.added[key]
	switch age := x.passed() - added; {
	case !ok:
		known = false
	case x.o.Age > 0 && age <= x.o.Age:
		known = true
	case x.o.Age > 0 && age > x.step*time.Duration(x.o.Generations+1):
		known = false
	case x.o.Age == 0 && x.counter-x.after[key] < int(x.o.Keys):
		known = true
	default:
		return // the promises leave it open
	}
	if found != known {
		t.Fatalf("key-%d, of age %v and %d additions: found %v, promised is %v", key, x.passed()-added, x.counter-x.after[key], found, known)
	}
}

// A window does what a model with exact sets does, in random programs: additions at random
// times, keys that come again, pauses, a clock that jumps both ways, growth, and the window
// written and read in the midst.
func TestWindow_Model(t *testing.T) {
	seed := testenv.Seed(t)
	programs, steps := 150, 600
	if filtertest.Short() {
		programs = 20
	}
	for program := range programs {
		rng := rand.New(rand.NewPCG(seed, uint64(program)))
		clock := newHandClock()
		o := WindowOptions{
			Keys: 1 + rng.Uint64N(100), Generations: 1 + rng.IntN(1+rng.IntN(MaxGenerations)),
			FPR: 1e-12, Now: clock.now,
		}
		if program%3 > 0 {
			o.Age = time.Duration(1 + rng.Int64N(int64(1+rng.IntN(1000))*int64(time.Second)))
		}
		w, x := windowOf(t, o), newExactWindow(o)
		keys := 1 + rng.IntN(300)
		for range steps {
			switch key := rng.IntN(keys); rng.IntN(20) {
			case 0:
				clock.move(o.Age * time.Duration(rng.IntN(100)) / 50)
			case 1:
				w = again(t, w, clock.now)
			case 2:
				if jump := rng.IntN(12); program%3 == 1 && jump < 3 {
					clock.move(-o.Age * time.Duration(rng.IntN(300)) / 200)
				} else if program%3 == 1 && jump == 4 {
					clock.move(time.Duration(1+rng.IntN(3)) * 365 * 24 * time.Hour)
				} else if program%3 == 1 && jump == 5 {
					clock.time = newHandClock().time
				}
			case 3, 4, 5, 6, 7:
				clock.move(o.Age / time.Duration(1+rng.IntN(100)))
			case 8:
				w.AddMany([]uint64{bloom.Hash(filtertest.Numbered(key))})
				x.add(key)
			case 9, 10:
				had := w.MayContain(filtertest.Numbered(key))
				if got := w.CheckAndAdd(filtertest.Numbered(key)); got != had {
					t.Fatalf("CheckAndAdd = %v, and MayContain was %v", got, had)
				}
				x.add(key)
			default:
				if err := w.Add(filtertest.Numbered(key)); err != nil {
					t.Fatal(err)
				}
				x.add(key)
				x.check(t, w, key)
			}
			x.check(t, w, rng.IntN(keys+3))
		}
		for key := range keys + 3 {
			x.check(t, w, key)
		}
		if got, want := w.EstimatedCount(), x.different(); got != float64(want) {
			t.Fatalf("%+v: EstimatedCount() = %v, want %d", o, got, want)
		}
	}
}

// Keys are found for Age, wherever a generation began, and forgotten a generation later, to
// the nanosecond.
func TestWindow_Age(t *testing.T) {
	const age = 30 * 24 * time.Hour
	for _, generations := range []int{1, 7, 8, 30, MaxGenerations} {
		step := (age + time.Duration(generations) - 1) / time.Duration(generations)
		for _, into := range []time.Duration{0, 1, step / 2, step - 1} {
			clock := newHandClock()
			w := windowOf(t, WindowOptions{Age: age, Keys: 1000, Generations: generations, FPR: 1e-12, Now: clock.now})
			clock.move(3*step + into)
			w.AddString("key")
			clock.move(age)
			if !w.MayContainString("key") {
				t.Errorf("%d generations, added %v into one: forgotten after %v", generations, into, age)
			}
			clock.move(step*time.Duration(generations+1) - age - into - 1)
			if !w.MayContainString("key") {
				t.Errorf("%d generations, added %v into one: forgotten before its generation ends", generations, into)
			}
			clock.move(1)
			if w.MayContainString("key") || w.EstimatedCount() != 0 || w.Count() != 0 {
				t.Errorf("%d generations, added %v into one: known for more than %v", generations, into, age+step)
			}
			w.AddString("other")
			if w.Count() != 1 || w.MayContainString("key") {
				t.Errorf("%d generations: %d keys", generations, w.Count())
			}
		}
	}
}

// A clock that is set back stops the time. If it is set back by the age or more, the time
// goes on at the next addition. It is no harm if it jumps to and fro, or beyond the years
// that it may show.
func TestWindow_ClockSetBack(t *testing.T) {
	clock := newHandClock()
	o := WindowOptions{Age: 8 * time.Hour, Keys: 100, FPR: 1e-12, Now: clock.now}
	w := windowOf(t, o)
	w.AddString("key")
	for range 1000 { // the clocks of two machines
		clock.move(-7 * time.Hour)
		w.AddString("other")
		clock.move(7 * time.Hour)
		w.AddString("third")
	}
	if !w.MayContainString("key") {
		t.Error("a key is lost while the clock is set back and forth")
	}
	clock.move(-7 * time.Hour)
	w.AddString("late")
	clock.move(15 * time.Hour)
	if !w.MayContainString("key") || !w.MayContainString("late") {
		t.Error("a key is lost before its age")
	}
	clock.move(2 * time.Hour)
	if w.MayContainString("key") {
		t.Error("a key is known after its age")
	}

	w = windowOf(t, o)
	clock.move(365 * 24 * time.Hour) // a mistake
	w.AddString("key")
	clock.move(-365 * 24 * time.Hour)
	for range 9 {
		w.AddString("other")
		if !w.MayContainString("key") {
			t.Error("a key is lost because the clock was put right")
		}
		clock.move(time.Hour)
	}
	if w.AddString("other"); w.MayContainString("key") {
		t.Error("the time does not go on after the clock was put right")
	}

	for _, at := range []time.Time{{}, time.Unix(math.MinInt64, 0), time.Unix(math.MaxInt64, 0), time.Unix(0, math.MaxInt64), {}} {
		clock.time = at
		if w.AddString("key"); !w.MayContainString("key") || again(t, w, clock.now).Count() != w.Count() {
			t.Errorf("the key is denied at %v", at)
		}
	}
}

// The window knows every key since Oldest.
func TestWindow_Oldest(t *testing.T) {
	clock := newHandClock()
	start := clock.time
	w := windowOf(t, WindowOptions{Age: 8 * time.Hour, Keys: 10, Now: clock.now})
	n := windowOf(t, WindowOptions{Keys: 8, Generations: 4, Now: clock.now})
	for i := range 30 {
		want := start
		if i > 8 {
			want = start.Add(time.Duration(i-8) * time.Hour)
		}
		for _, w := range []*Window{w, again(t, w, clock.now)} {
			if got := w.Oldest(); !got.Equal(want) {
				t.Errorf("after %d hours Oldest() = %v, want %v", i, got, want)
			}
		}
		want = start
		if i > 10 {
			want = start.Add(time.Duration((i-1)/2*2-8) * time.Hour)
		}
		if got := n.Oldest(); !got.Equal(want) {
			t.Errorf("after %d keys Oldest() = %v, want %v", i, got, want)
		}
		n.Add(filtertest.Numbered(i))
		if i < 5 || i > 20 {
			w.Add(filtertest.Numbered(i))
		}
		clock.move(time.Hour)
	}
	if got := new(Window).Oldest(); !got.IsZero() {
		t.Errorf("Oldest of the zero Window = %v", got)
	}
}

// realKeys returns lines of real data, in a random order that is the same each time.
func realKeys(t *testing.T) []string {
	t.Helper()
	var keys []string
	for _, name := range []string{"words-en.txt", "top-domains-10k.txt", "malicious-hosts.txt", "malicious-urls.txt"} {
		keys = append(keys, strings.Fields(string(testenv.ReadShared(t, "data/"+name)))...)
	}
	slices.Sort(keys)
	keys = slices.Compact(keys)
	r := rand.New(rand.NewPCG(1, 0))
	r.Shuffle(len(keys), func(i, j int) { keys[i], keys[j] = keys[j], keys[i] })
	return keys
}

// passed returns how many keys w lets pass, and by how many sigma this differs from what
// the bits that are set predict.
func passed(w *Window, keys []string) (n int, sigma float64) {
	for _, key := range keys {
		if w.MayContainString(key) {
			n++
		}
	}
	mean := w.FPR() * float64(len(keys))
	return n, 2 * (math.Sqrt(float64(n)+3./8) - math.Sqrt(mean+3./8))
}

// Over the whole window, and where its rate is the highest, right before a generation is
// dropped, the share of absent keys that pass is what the bits say, and below FPR.
func TestWindow_Rate(t *testing.T) {
	testenv.SkipRace(t)
	keys := realKeys(t)
	absent := keys[len(keys)-30_000:]
	keys = keys[:len(keys)-len(absent)]
	rates := []float64{0.1, 0.01, 0.001}
	if filtertest.Short() {
		rates = rates[1:2]
	}
	for _, age := range []time.Duration{0, 24 * time.Hour} {
		for _, generations := range []int{1, 8, 30} {
			for _, rate := range rates {
				const planned = 30_000
				clock := newHandClock()
				w := windowOf(t, WindowOptions{Age: age, Keys: planned, Generations: generations, FPR: rate, Now: clock.now})
				n, worst := planned/generations, 0.0
				for i := range min(len(keys), 2*n*(generations+1)) / n {
					for _, key := range keys[i*n : (i+1)*n] {
						w.AddString(key)
					}
					if i == generations/2 || i%(generations+1) == generations { // the last one is full
						passed, sigma := passed(w, absent)
						worst = max(worst, float64(passed)/float64(len(absent)))
						most := rate * float64(len(absent))
						if math.Abs(sigma) > 3 || float64(passed) > most+3*math.Sqrt(most) {
							t.Errorf("age %v, %d generations, %v: %d of %d pass after %d of them, %+.2f sigma", age, generations, rate, passed, len(absent), i, sigma)
						}
						if w.FPR() > 1.02*rate { // what chance allows the bits of full lanes
							t.Errorf("age %v, %d generations, %v: FPR() = %v", age, generations, rate, w.FPR())
						}
					}
					clock.move(age / time.Duration(generations))
				}
				if worst < rate/2 {
					t.Errorf("age %v, %d generations, %v: at most %v passed: it is too large", age, generations, rate, worst)
				}
				if len(w.layers) != 1 {
					t.Errorf("%d layers, with as many keys as planned", len(w.layers))
				}
				t.Logf("age %v, %d generations, asked for %v: at most %.4f %% passed, %.1f bits a key",
					age, generations, rate, 100*worst, 8*float64(w.SizeBytes())/planned)
			}
		}
	}
}

// If more keys come than planned, the window grows: all are found, and the rate stays. When
// the crowd is gone, it is as small as before. With NonScaling it does not grow.
func TestWindow_Crowd(t *testing.T) {
	clock := newHandClock()
	const hours, rate = 8, 0.01
	crowd := 40_000
	if filtertest.Short() {
		crowd = 4000
	}
	o := WindowOptions{Age: hours * time.Hour, Keys: 8000, Generations: hours, FPR: rate, Now: clock.now}
	w := windowOf(t, o)
	o.NonScaling = true
	fixed := windowOf(t, o)
	small, added := w.SizeBytes(), 0
	for hour := range 30 {
		n := 1000
		if hour == 10 || hour == 11 {
			n = crowd
		}
		for range n {
			w.Add(filtertest.Numbered(added))
			fixed.Add(filtertest.Numbered(added))
			added++
		}
		if p := w.FPR(); p > rate {
			t.Errorf("hour %d: FPR() = %v", hour, p)
		}
		if hour == 15 {
			filtertest.CheckHas(t, w, added-5000, 5000)
			filtertest.CheckHas(t, fixed, added-5000, 5000)
			filtertest.CheckHas(t, w, 10_000, 2*crowd)
			if len(w.layers) < 3 || 8*w.SizeBytes() > 9*2*crowd*26 {
				t.Errorf("%d layers of %d bytes", len(w.layers), w.SizeBytes())
			}
			passed := filtertest.FalsePositives(w, 20_000)
			if most := rate * 20_000; float64(passed) > most+3*math.Sqrt(most) {
				t.Errorf("%d of 20000 pass", passed)
			}
			if fixed.FPR() < 10*rate {
				t.Errorf("without growth FPR() = %v", fixed.FPR())
			}
			w = again(t, w, clock.now)
		}
		clock.move(time.Hour)
	}
	if w.SizeBytes() != small || fixed.SizeBytes() >= small {
		t.Errorf("%d bytes, and %d without growth; %d at the start", w.SizeBytes(), fixed.SizeBytes(), small)
	}
	if p := fixed.FPR(); p > rate {
		t.Errorf("without growth FPR() = %v after the crowd is gone", p)
	}
	// A window that cannot grow takes keys nevertheless.
	for i := range w.layers {
		w.layers[i].capacity = 1 << 60
		w.layers[i].counts[w.current] = 1 << 60
	}
	if w.AddString("key"); !w.MayContainString("key") || len(w.layers) != 1 {
		t.Error("a window that cannot grow does not take a key")
	}
}

// All ways to add and to ask do the same.
func TestWindow_Ways(t *testing.T) {
	h, err := bloom.NewHasher(bloom.HashSipHash, 7)
	if err != nil {
		t.Fatal(err)
	}
	clock := newHandClock()
	o := WindowOptions{Age: time.Hour, Keys: 100, FPR: 1e-12, Hasher: h, Now: clock.now}
	w := windowOf(t, o)
	if w.Hasher() != h || w.Age() != time.Hour || w.Generations() != 8 {
		t.Errorf("%v, %v, %d", w.Hasher(), w.Age(), w.Generations())
	}
	keys := [][]byte{[]byte("a"), []byte("b"), []byte("c"), []byte("d"), []byte("e"), []byte("f"), []byte("g")}
	var hashes []uint64
	for _, key := range keys {
		hashes = append(hashes, h.Hash(key))
	}
	w.Add(keys[0])
	w.AddString("b")
	w.AddHash(hashes[2])
	w.AddMany(hashes[3:4])
	w.AddKeys(keys[4:5])
	if w.CheckAndAdd(keys[5]) || w.CheckAndAddString("g") || !w.CheckAndAddString("f") || !w.CheckAndAdd(keys[6]) {
		t.Error("CheckAndAdd")
	}
	for i, key := range append(keys, []byte("x")) {
		want, h := i < len(keys), h.Hash(key)
		if w.MayContain(key) != want || w.MayContainString(string(key)) != want || w.MayContainHash(h) != want {
			t.Errorf("%s: found %v", key, !want)
		}
	}
	out := make([]bool, len(keys)+2)
	absent := append(keys[:1:1], []byte("x"))
	if w.MayContainKeys(absent, out); !slices.Equal(out, []bool{true, false, true, true, true, true, true, true, true}) {
		t.Errorf("MayContainKeys: %v", out)
	}
	if w.MayContainMany([]uint64{h.Hash([]byte("y"))}, out); !slices.Equal(out[:2], []bool{false, true}) {
		t.Errorf("MayContainMany: %v", out)
	}
	w.MayContainMany(hashes, out[:1])
	c := w.Clone()
	if w.Reset(); w.Count() != 0 || w.EstimatedCount() != 0 || w.MayContain(keys[0]) || !c.MayContain(keys[0]) || c.Count() != 7 {
		t.Error("Reset or Clone")
	}
	if w.AddString("z"); c.MayContainString("z") || w.SizeBytes() != c.SizeBytes() {
		t.Error("Clone shares memory")
	}
	if s := c.String(); !strings.HasPrefix(s, "sketch.Window:\n  keys                      7\n") || !strings.Contains(s, "\n  false maybes ") {
		t.Errorf("String() = %q", s)
	}
}

// The zero Window says maybe to every key, takes none, and is not written.
func TestWindow_Zero(t *testing.T) {
	var w Window
	if w.Add([]byte("key")) == nil || w.AddString("key") == nil || w.AddKeys([][]byte{nil}) == nil {
		t.Error("the zero Window takes a key")
	}
	w.AddHash(1)
	w.AddMany([]uint64{1})
	w.Reset()
	out := make([]bool, 2)
	if w.MayContainMany([]uint64{1}, out); !out[0] || !out[1] {
		t.Error("MayContainMany says no")
	}
	if !w.MayContain(nil) || !w.MayContainString("") || !w.MayContainHash(1) || !w.CheckAndAdd(nil) || w.FPR() != 1 || w.Count() != 0 || w.Generations() != 0 {
		t.Error("the zero Window says no")
	}
	if b, err := w.AppendBinary([]byte("x")); err == nil || string(b) != "x" {
		t.Errorf("AppendBinary = %q, %v", b, err)
	}
	if c := w.Clone(); !c.MayContainHash(1) {
		t.Error("its clone says no")
	}
}

func TestNewWindow_Errors(t *testing.T) {
	for _, c := range []struct {
		names string
		o     WindowOptions
	}{
		{"Keys", WindowOptions{}},
		{"Age", WindowOptions{Keys: 1, Age: -1}},
		{"Age", WindowOptions{Keys: 1, Age: MaxAge + 1}},
		{"Generations", WindowOptions{Keys: 1, Generations: -1}},
		{"Generations", WindowOptions{Keys: 1, Generations: MaxGenerations + 1}},
		{"FPR", WindowOptions{Keys: 1, FPR: -1}},
		{"FPR", WindowOptions{Keys: 1, FPR: 1}},
		{"FPR", WindowOptions{Keys: 1, FPR: math.NaN()}},
		{"bytes", WindowOptions{Keys: math.MaxUint64}},
		{"bytes", WindowOptions{Keys: 1 << 50, Generations: MaxGenerations, FPR: 1e-300}},
	} {
		if w, err := NewWindow(c.o); w != nil || err == nil || !strings.HasPrefix(err.Error(), "bloom: ") || !strings.Contains(err.Error(), c.names) {
			t.Errorf("NewWindow(%+v) = %v, %v", c.o, w, err)
		}
	}
	for _, o := range []WindowOptions{{Keys: 1}, {Keys: 1, Age: 1}, {Keys: 1, Age: MaxAge, Generations: 1}, {Keys: 9, Generations: 1, FPR: 0x1p-1074}, {Keys: 1, Age: 1, FPR: 1 - 1e-16, Generations: MaxGenerations}} {
		o.Now = newHandClock().now
		w := windowOf(t, o)
		for i := range 40 {
			if err := w.Add(filtertest.Numbered(i)); err != nil || !w.MayContain(filtertest.Numbered(i)) {
				t.Errorf("%+v: key-%d is denied, %v", o, i, err)
			}
		}
	}
}

// Adding and asking allocate nothing, also when a generation is dropped.
func TestWindow_AllocatesNothing(t *testing.T) {
	if testenv.Race {
		t.Skip("the race detector allocates")
	}
	clock := newHandClock()
	long := strings.Repeat("a key of more than thirty-two bytes, ", 2)
	for _, o := range []WindowOptions{{Keys: 100}, {Keys: 1000, Age: time.Hour, Now: clock.now}, {Keys: 1000, Age: time.Hour}} {
		w := windowOf(t, o)
		h, out := uint64(0), make([]bool, 2)
		filtertest.CountAllocs(t, fmt.Sprintf("Age %v", o.Age), func() {
			for range 2 {
				h += 0x9e3779b97f4a7c15
				clock.move(time.Minute)
				w.AddHash(h)
				benchSink = w.MayContainHash(h) && w.AddString(long) == nil && w.MayContainString(long[1:]) && w.CheckAndAdd([]byte("short"))
				w.MayContainMany([]uint64{h, h}, out)
			}
		})
	}
}

// Questions may come at once.
func TestWindow_AskedAtOnce(t *testing.T) {
	w := windowOf(t, WindowOptions{Age: time.Hour, Keys: 1000})
	for i := range 1000 {
		w.Add(filtertest.Numbered(i))
	}
	var group sync.WaitGroup
	for range 4 {
		group.Go(func() { // asks for all keys; the test waits for it
			for i := range 1000 {
				if !w.MayContain(filtertest.Numbered(i)) {
					t.Errorf("key-%d is denied", i)
				}
			}
			if w.FPR() > 1 || w.Oldest().IsZero() || w.Count() == 0 || w.EstimatedCount() == 0 || w.String() == "" {
				t.Error("numbers")
			}
		})
	}
	group.Wait()
}
