// Package pause makes goroutines wait at chosen places of the code. Nothing in the
// tree imports it: internal/pauses writes copies of packages, in which it is called
// after each atomic access, lock, unlock and channel operation. Such a place is a
// site. Sites have numbers from 0 up.
//
// The variable SHALE_PAUSES says which sites pause in this process. Without it none
// does. The seed and the number of a site determine how often it pauses, from each
// time to once in 256 times, and for how long at most, from a yield to 16 ms. All
// other sites run at full speed. So a site that pauses is far apart in time from
// the sites before and after it.
package pause

import (
	"fmt"
	"math/rand/v2"
	"os"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// Variable is the name of the environment variable that holds a Plan, as Encode
// writes it.
const Variable = "SHALE_PAUSES"

// A Plan says which sites pause.
type Plan struct {
	Sites int           // number of sites
	Slow  []int         // numbers of the sites that pause
	Seed  uint64        // determines how long and how often they pause
	For   time.Duration // after this time nothing pauses: a test that hangs then really hangs
	Seen  string        // file that gets the number of each site that is passed, one a line
}

// Encode returns p as text, for the variable.
func (p Plan) Encode() string {
	slow := make([]string, len(p.Slow))
	for i, id := range p.Slow {
		slow[i] = strconv.Itoa(id)
	}
	return fmt.Sprintf("%d %d %d ,%s %q", p.Sites, p.Seed, p.For, strings.Join(slow, ","), p.Seen)
}

// decode returns the plan that Encode has written.
func decode(text string) (p Plan, err error) {
	var slow string
	if _, err := fmt.Sscanf(text, "%d %d %d %s %q", &p.Sites, &p.Seed, &p.For, &slow, &p.Seen); err != nil {
		return p, err
	}
	for s := range strings.SplitSeq(slow[1:], ",") {
		if s == "" {
			continue
		}
		id, err := strconv.Atoi(s)
		if err != nil || id < 0 || id >= p.Sites {
			return p, fmt.Errorf("there is no site %q", s)
		}
		p.Slow = append(p.Slow, id)
	}
	return p, nil
}

// A site is the state of one site.
type site struct {
	// Constant.
	slow    bool
	one     uint64        // it pauses once in this many times
	longest time.Duration // 0: it yields only

	passed atomic.Bool
	drawn  atomic.Uint64 // state of the random numbers, which mix turns into numbers
	slept  atomic.Int64  // nanoseconds, the sum over all goroutines
}

var (
	sites []site
	until time.Duration // Plan.For
	start = time.Now()

	seenMu sync.Mutex
	seen   *os.File
)

func init() {
	text := os.Getenv(Variable)
	if text == "" {
		return
	}
	p, err := decode(text)
	if err != nil {
		panic(fmt.Sprintf("%s=%s: %v", Variable, text, err))
	}
	if p.Seen != "" {
		if seen, err = os.OpenFile(p.Seen, os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o666); err != nil {
			panic(err)
		}
	}
	sites, until = make([]site, p.Sites), p.For
	for _, id := range p.Slow {
		s := &sites[id]
		r := rand.New(rand.NewPCG(p.Seed, uint64(id)))
		s.slow = true
		s.one = []uint64{1, 4, 16, 64, 256}[r.IntN(5)]
		s.longest = []time.Duration{0, 60, 250, 1000, 4000, 16000}[r.IntN(6)] * time.Microsecond
		s.drawn.Store(r.Uint64())
	}
}

// At may pause at site id.
func At(id int) {
	if id >= len(sites) {
		return
	}
	s := &sites[id]
	if !s.passed.Load() {
		s.pass(id)
	}
	if s.slow {
		s.pause()
	}
}

// After returns v. It may pause at site id before.
func After[T any](v T, id int) T {
	At(id)
	return v
}

// Later returns a function to defer in the place of fn: it calls fn, and then may
// pause at site id.
func Later(fn func(), id int) func() {
	return func() {
		fn()
		At(id)
	}
}

// pass writes the number of a site to the file when it is passed for the first time.
func (s *site) pass(id int) {
	if s.passed.Swap(true) || seen == nil {
		return
	}
	seenMu.Lock()
	defer seenMu.Unlock()
	fmt.Fprintln(seen, id) // an error or a kill loses one line; another run finds the site
}

// share is the largest share of the running time that goroutines may sleep at one site, in
// sum. It keeps a site that many goroutines pass from stopping the test.
const share = 0.4

// pause yields, sleeps, or does nothing, by the next random number of the site.
func (s *site) pause() {
	r := mix(s.drawn.Add(0x9e3779b97f4a7c15))
	if r%s.one != 0 {
		return
	}
	r >>= 10
	if s.longest == 0 || r%4 == 0 {
		for range r>>2%8 + 1 {
			runtime.Gosched()
		}
		return
	}
	d := 50*time.Microsecond + time.Duration(r>>5)%s.longest
	elapsed := time.Since(start)
	if elapsed > until || s.slept.Load() > int64(share*float64(elapsed))+int64(5*s.longest) {
		return
	}
	s.slept.Add(int64(d))
	time.Sleep(d)
}

// mix is the finalizer of SplitMix64.
func mix(x uint64) uint64 {
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}
