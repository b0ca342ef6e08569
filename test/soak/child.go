package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"math"
	"math/rand/v2"
	"os"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/shaledb/shale/internal/testenv"
)

// childEnv tells a process that it is a child, and its order.
const childEnv = "SHALE_SOAK_CHILD"

func isChild() bool { return os.Getenv(childEnv) != "" }

// An order is what the parent tells a child.
type order struct {
	Dir  string // holds the store and all files of the run
	Seed uint64
	Life int
	Last bool // the run ends with this life: one short session, and all checks at its end
	Keys int  // of a client
	// After is when it ends by itself, unless it is killed.
	After time.Duration
}

// A process of a soak test may have this much heap, and resident memory, at
// most, whatever the options of its sessions.
const (
	maxHeap = 256 << 20
	maxRSS  = 640 << 20
)

// What a child counts.
const (
	steps = iota
	commits
	failed
	faults
	opens
	resumes
	storms
	numCounts
)

var countNames = [numCounts]string{"steps", "commits", "failed", "faults", "opened", "resumed", "storms"}

type counts [numCounts]uint64

// A report is what a child tells its parent, a line of JSON each.
type report struct {
	Counts    counts
	Resources resources
	Closed    bool   `json:",omitempty"` // the store is closed and the garbage collected
	Finding   string `json:",omitempty"` // the child's last word
}

// A child is a process that uses the store.
type child struct {
	order
	counts  [numCounts]atomic.Uint64
	clients []*client
	base    resources // before the first Open
	life    context.Context

	reportMu sync.Mutex // guards out, and keeps a second finding back
	out      *json.Encoder
}

// A violation is an answer that is wrong, in contrast to an error that the
// store has returned.
type violation string

func (v violation) Error() string { return string(v) }

func violationf(format string, args ...any) error { return violation(fmt.Sprintf(format, args...)) }

// draws returns the random numbers of one part of a run.
func draws(seed uint64, of ...any) *rand.Rand {
	h := fnv.New64a()
	fmt.Fprintln(h, of...)
	return rand.New(rand.NewPCG(seed, h.Sum64()))
}

// between chooses a duration: short and long ones are equally likely.
func between(r *rand.Rand, lo, hi time.Duration) time.Duration {
	return time.Duration(float64(lo) * math.Pow(float64(hi)/float64(lo), r.Float64()))
}

// childMain is the main function of a child.
func childMain(out io.Writer) (status int) {
	c := &child{out: json.NewEncoder(out)}
	if err := json.Unmarshal([]byte(os.Getenv(childEnv)), &c.order); err != nil {
		fmt.Fprintln(os.Stderr, "soak: the order of a child:", err)
		return 1
	}
	life, end := context.WithTimeout(context.Background(), c.After)
	defer end()
	c.life = life
	if err := c.live(); err != nil {
		c.fail(err)
	}
	return 0
}

// live is a life: sessions until it is to end.
func (c *child) live() (err error) {
	if c.clients, err = newClients(c.order); err != nil {
		return err
	}
	go c.reportAll()
	time.Sleep(time.Millisecond) // the first timer makes Go open two descriptors for itself
	runtime.GC()
	c.base = c.has()
	for n := 0; n == 0 || c.life.Err() == nil && !c.Last; n++ {
		length := between(draws(c.Seed, "length", c.Life, n), 100*time.Millisecond, 40*time.Second)
		if c.Last {
			length = min(length, time.Second)
		}
		if err := c.newSession(n).run(length); err != nil {
			return fmt.Errorf("session %d: %w", n, err)
		}
	}
	return nil
}

// reportAll reports now and then for as long as the process lives.
func (c *child) reportAll() {
	for ; ; time.Sleep(250 * time.Millisecond) {
		now := c.report(report{})
		if now.Heap > maxHeap || now.RSS > maxRSS {
			c.fail(violationf("the process has too much memory: %v", now))
		}
	}
}

// report reports r, to which it adds what it counts and measures.
func (c *child) report(r report) resources {
	c.reportMu.Lock()
	if r.Finding == "" { // else for good: the first finding counts
		defer c.reportMu.Unlock()
	}
	if !r.Closed {
		r.Resources = measure()
	}
	for i := range c.counts {
		r.Counts[i] = c.counts[i].Load()
	}
	if err := c.out.Encode(r); err != nil {
		os.Exit(1) // the parent is gone
	}
	return r.Resources
}

// fail reports a finding and ends the process, with all as it is.
func (c *child) fail(err error) {
	kind := "an error that has no cause"
	var v violation
	if errors.As(err, &v) {
		kind = "a wrong answer"
	}
	c.report(report{Finding: fmt.Sprintf("life %d: %s: %v", c.Life, kind, err)})
	os.Exit(3)
}

// patience is how long a call may take: a store must never hang.
const patience = 5 * time.Minute

// call runs fn, which calls the store. If that hangs the child dies, and says where.
func (c *child) call(name string, fn func() error) error {
	defer testenv.Watch(patience, func() string { return name })()
	return fn()
}

// eventually waits until ok, a minute at most.
func eventually(ok func() bool) error {
	for begin := time.Now(); !ok(); time.Sleep(5 * time.Millisecond) {
		if d := time.Since(begin); d > time.Minute {
			return fmt.Errorf("not within %v", d)
		}
	}
	return nil
}
