package main

import (
	"fmt"
	"io"
	"path/filepath"
	"time"
)

// figures are what a parent tells of its run.
type figures struct {
	out   io.Writer
	store string
	begin time.Time
	tick  *time.Ticker

	lives, kills, violations int

	total counts // of the children that are dead
	child counts // of the present one

	// Since the last line.
	gets []uint64
	peak resources
}

func newFigures(out io.Writer, root string) figures {
	return figures{out: out, store: filepath.Join(root, "store"), begin: time.Now()}
}

// note takes what a child reports.
func (f *figures) note(r report) {
	f.child = r.counts
	for len(f.gets) < len(r.Gets) {
		f.gets = append(f.gets, 0)
	}
	for i, n := range r.Gets {
		f.gets[i] += n
	}
	f.peak.max(r.resources)
}

// max makes r the larger of both, each figure by itself.
func (r *resources) max(other resources) {
	r.Heap, r.RSS = max(r.Heap, other.Heap), max(r.RSS, other.RSS)
	r.Descriptors, r.Goroutines = max(r.Descriptors, other.Descriptors), max(r.Goroutines, other.Goroutines)
}

// endLife adds up a life that has ended.
func (f *figures) endLife(killed bool) {
	f.total = f.counts()
	f.child = counts{}
	if killed {
		f.kills++
	}
}

// counts returns the sums over all lives so far.
func (f *figures) counts() counts {
	a, b := f.total, f.child
	return counts{
		a.Ops + b.Ops, a.Commits + b.Commits, a.Failed + b.Failed, a.Faults + b.Faults, a.Opens + b.Opens,
		a.Resumes + b.Resumes, a.Checks + b.Checks, a.Storms + b.Storms, a.Copies + b.Copies,
	}
}

const mega = 1e6

// line prints the figures, of memory the largest since the last line.
func (f *figures) line() {
	c := f.counts()
	fmt.Fprintf(f.out, "%8v  ops %d  commits %d  failed %d  kills %d  storms %d  faults %d  resumed %d  opened %d  checks %d  disk %.1f MB  "+
		"heap %.1f MB  RSS %.1f MB  descriptors %d  goroutines %d  p99 Get %d µs  violations %d\n",
		time.Since(f.begin).Round(time.Second), c.Ops, c.Commits, c.Failed, f.kills, c.Storms, c.Faults, c.Resumes, c.Opens, c.Checks,
		float64(usage(f.store, ""))/mega, float64(f.peak.Heap)/mega, float64(f.peak.RSS)/mega, f.peak.Descriptors, f.peak.Goroutines,
		quantile(f.gets, 0.99).Microseconds(), f.violations)
	clear(f.gets)
	f.peak = resources{}
}

// summary prints what it all came to.
func (f *figures) summary() {
	f.line()
	c := f.counts()
	fmt.Fprintf(f.out, "%d lives, %d of them killed, %d openings, %d commits, %d failed writes, %d storms with %d faults, %d checkpoints, %d checks: %d violations\n",
		f.lives, f.kills, c.Opens, c.Commits, c.Failed, c.Storms, c.Faults, c.Copies, c.Checks, f.violations)
}
