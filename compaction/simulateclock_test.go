package compaction

import (
	"math"

	"github.com/shaledb/shale/manifest"
)

// A clock adds time to a simulation: a disk with a given
// bandwidth, which flushes and compactions share evenly, workers,
// and a writer that is slowed down and stopped as in a store.
type clock struct {
	*simulation
	bandwidth float64 // bytes a second, read and written
	workers   int
	ingest    float64 // bytes a second that the writer offers, as they are in tables

	now     float64
	slowed  float64 // seconds for which the writer was slowed or stopped
	jobs    []*simJob
	waiting int // memtables that are full
}

// A simJob is a flush or compaction in progress. plan is nil for a flush.
type simJob struct {
	plan    *Plan
	edit    *manifest.Edit
	written float64
	left    float64 // bytes to read and write
}

const (
	maxImmutables = 2
	slowdownRuns  = Level0Runs + 12
	stopRuns      = slowdownRuns + 16
	writeRate     = 16 << 20 // at slowdownRuns, in bytes of memtable
)

// live writes this number of bytes.
func (c *clock) live(bytes float64) {
	begin := c.flushed
	flushSize := float64(c.flushBytes())
	for c.flushed < begin+bytes {
		fill := flushSize / c.ingest
		if runs := len(c.v.Levels[0].Runs); runs >= slowdownRuns {
			delay := float64(c.o.MemtableSize) / writeRate * float64(min(runs, stopRuns)-slowdownRuns+1)
			c.slowed += delay
			fill += delay
		}
		c.until(c.now + fill)
		c.waiting++
		for c.waiting > maxImmutables || len(c.v.Levels[0].Runs) >= stopRuns {
			before := c.now
			c.step(math.Inf(1))
			c.slowed += c.now - before
		}
		c.start()
	}
}

// until runs jobs until a time.
func (c *clock) until(end float64) {
	for c.now < end {
		c.step(end)
	}
}

// step runs the jobs until one of them ends, or until the time given.
func (c *clock) step(end float64) {
	c.start()
	if len(c.jobs) == 0 {
		c.now = end
		return
	}
	next := c.jobs[0]
	for _, j := range c.jobs {
		if j.left < next.left {
			next = j
		}
	}
	rate := c.bandwidth / float64(len(c.jobs))
	took := min(next.left/rate, end-c.now)
	c.now += took
	done := took >= next.left/rate
	var rest []*simJob
	for _, j := range c.jobs {
		j.left -= took * rate
		if j != next || !done {
			rest = append(rest, j)
		}
	}
	c.jobs = rest
	if !done {
		c.now = end
		return
	}
	if next.plan == nil {
		c.flush()
		c.waiting--
		return
	}
	c.busy.Remove(next.plan)
	c.seen.space(c.simulation, next.written)
	c.finish(next.plan, next.edit, next.written)
}

// start begins the jobs that can begin: one flush, and plans for the free workers.
func (c *clock) start() {
	flushing, running := false, 0
	for _, j := range c.jobs {
		if j.plan == nil {
			flushing = true
		} else {
			running++
		}
	}
	if c.waiting > 0 && !flushing {
		c.jobs = append(c.jobs, &simJob{left: float64(c.flushBytes())})
	}
	for ; running < c.workers; running++ {
		p := c.pick()
		if p.Kind == Nothing {
			return
		}
		j := &simJob{plan: &p}
		j.edit, j.written = c.run(&p)
		if p.Kind == Merging {
			j.left = j.written + float64(p.InputBytes())
		}
		c.busy.Add(&p)
		c.jobs = append(c.jobs, j)
	}
}
