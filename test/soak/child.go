package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"sync/atomic"
	"time"
)

// childEnv tells a process that it is a child, and its order.
const childEnv = "SHALE_SOAK_CHILD"

func isChild() bool { return os.Getenv(childEnv) != "" }

// endWord is what a parent says to a child that is to end.
const endWord = "end\n"

// exitFinding is the status of a child that has reported a finding.
const exitFinding = 3

// A process of a soak test may have this much heap, and resident memory, at
// most, whatever the options of its sessions.
const (
	maxHeap = 256 << 20
	maxRSS  = 640 << 20
)

// A child is a process that uses the store.
type child struct {
	order
	watch
	stats
	keys    *keyspace
	journal *journal
	base    resources // before the first Open
	life    context.Context

	reportMu sync.Mutex // guards out, and keeps a second finding back
	out      *json.Encoder
}

// stats are what a child counts.
type stats struct {
	ops, commits, failed, faults, opens, resumes, checks, storms, copies atomic.Uint64

	gets histogram
}

// A report is what a child tells its parent, a line of JSON each.
type report struct {
	counts
	resources
	Gets    []uint64 // the histogram of Gets since the last report
	Closed  bool     `json:",omitempty"` // the store is closed and the garbage collected
	Finding string   `json:",omitempty"` // the child's last word
}

// counts says what a child has done since it began.
type counts struct {
	Ops, Commits, Failed, Faults, Opens, Resumes, Checks, Storms, Copies uint64
}

// childMain is the main function of a child.
func childMain(in io.Reader, out io.Writer) (status int) {
	c := &child{out: json.NewEncoder(out)}
	c.since = make(map[string]time.Duration)
	c.progress = func() int64 { return usage(filepath.Join(c.Dir, "store"), "") }
	if err := json.Unmarshal([]byte(os.Getenv(childEnv)), &c.order); err != nil {
		fmt.Fprintln(os.Stderr, "soak: the order of a child:", err)
		return 1
	}
	life, end := context.WithCancel(context.Background())
	defer end()
	c.life = life
	go func() {
		word, err := bufio.NewReader(in).ReadString('\n')
		if err != nil || word != endWord {
			os.Exit(1) // the parent is gone
		}
		end()
	}()
	if err := c.live(); err != nil {
		c.fail(err)
	}
	return 0
}

// live is a life: sessions until it is to end.
func (c *child) live() error {
	m, err := loadModel(filepath.Join(c.Dir, "model"))
	if err != nil {
		return err
	}
	c.keys = newKeyspace(c.Seed, m)
	if c.journal, err = createJournal(journalPath(c.Dir, c.Life)); err != nil {
		return err
	}
	go c.reportAll()
	time.Sleep(time.Millisecond) // the first timer makes Go open two descriptors for itself
	runtime.GC()
	c.base = measure()
	for n := 0; n == 0 || c.life.Err() == nil && !c.Last; n++ {
		s := c.newSession(n)
		r := s.rand("length")
		length := between(r, 100*time.Millisecond, 40*time.Second)
		if c.Last {
			length = between(r, 100*time.Millisecond, time.Second)
		}
		if err := s.run(length); err != nil {
			return fmt.Errorf("session %d: %w", n, err)
		}
	}
	return nil
}

func journalPath(dir string, life int) string {
	return filepath.Join(dir, fmt.Sprintf("journal-%d", life))
}

// reportAll reports now and then for as long as the process lives, and looks
// for calls that hang.
func (c *child) reportAll() {
	for ; ; time.Sleep(tick) {
		c.advance()
		c.report(false)
		now := measure()
		if now.Heap > maxHeap || now.RSS > maxRSS {
			c.fail(violationf("the process has too much memory: %+v", now))
		}
		if err := c.check(); err != nil {
			c.fail(c.withStacks(err))
		}
	}
}

func (c *child) report(closed bool) {
	c.reportMu.Lock()
	defer c.reportMu.Unlock()
	c.reportLocked(report{resources: measure(), Closed: closed})
}

func (c *child) reportLocked(r report) {
	r.Gets = c.gets.take()
	r.counts = counts{
		Ops: c.ops.Load(), Commits: c.commits.Load(), Failed: c.failed.Load(), Faults: c.faults.Load(), Opens: c.opens.Load(),
		Resumes: c.resumes.Load(), Checks: c.checks.Load(), Storms: c.storms.Load(), Copies: c.copies.Load(),
	}
	if err := c.out.Encode(r); err != nil {
		os.Exit(1) // the parent is gone
	}
}

// fail reports a finding and ends the process, with all as it is.
func (c *child) fail(err error) {
	c.reportMu.Lock() // for good: the first finding counts
	kind := "an error that has no cause"
	var v violation
	if errors.As(err, &v) {
		kind = "a wrong answer"
	}
	c.reportLocked(report{resources: measure(), Finding: fmt.Sprintf("life %d: %s: %v", c.Life, kind, err)})
	os.Exit(exitFinding)
}

// withStacks adds the stacks of all goroutines to an error.
func (c *child) withStacks(err error) error {
	buf := make([]byte, 4<<20)
	return fmt.Errorf("%w\n%s", err, buf[:runtime.Stack(buf, true)])
}
