package main

import (
	"errors"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/shaledb/shale/bench/peers/internal/histogram"
	"github.com/shaledb/shale/bench/peers/internal/results"
	"github.com/shaledb/shale/bench/peers/internal/usage"
)

// seriesInterval is the width of the buckets of a throughput over time.
const seriesInterval = 100 * time.Millisecond

// A clock is what the goroutines of a workload share.
type clock struct {
	start time.Time
	limit time.Duration // when they stop
	_     [64]byte      // what is written has a cache line of its own
	last  atomic.Int64  // when any of them finished an operation
}

func (c *clock) now() time.Duration { return time.Since(c.start) }

// A track has what one goroutine counted.
type track struct {
	*clock
	id       int
	of       string // what is timed
	timed    histogram.Histogram
	ops      int64
	tries    int64 // of transactions
	cut      bool
	previous time.Duration
	gap      time.Duration
	series   []int64
}

// ready begins the first operation.
func (t *track) ready(of string) {
	t.of, t.previous = of, t.now()
	t.last.Store(int64(t.previous))
}

// finished counts operations of one call that ended now, and began when the one
// before it ended. It reports whether there is time for more.
func (t *track) finished(ops int64) bool {
	now := t.now()
	t.timed.Add(now - t.previous)
	t.previous = now
	t.gap = max(t.gap, now-time.Duration(t.last.Swap(int64(now))))
	bucket := int(now / seriesInterval)
	for len(t.series) <= bucket {
		t.series = append(t.series, 0)
	}
	t.series[bucket] += ops
	t.ops += ops
	return now < t.limit
}

// counted is finished without what goroutines would have to share: stalls and
// the throughput over time.
func (t *track) counted() bool {
	now := t.now()
	t.timed.Add(now - t.previous)
	t.previous = now
	t.ops++
	return now < t.limit
}

// A measurement is a workload under way, and its outcome.
type measurement struct {
	tracks []*track
	before usage.Point
	took   time.Duration
	run    results.Run
}

// measure runs work in as many goroutines as there are of them, and says what
// they cost. Each returns when it has no more to do or its track says that the
// limit is reached.
func (c *child) measure(name string, limit time.Duration, work ...func(*track) error) (*measurement, error) {
	m := &measurement{run: results.Run{Store: c.storeName(), Workload: name, Group: c.Group, Round: c.Round, Routines: len(work)}}
	shared := &clock{limit: limit}
	for i := range work {
		m.tracks = append(m.tracks, &track{clock: shared, id: i, of: "an operation"})
	}
	errs := make([]error, len(work))
	runtime.GC()
	usage.ResetPeak()
	m.before = usage.Now()
	shared.start = time.Now()
	var wg sync.WaitGroup
	for i := range work[1:] {
		wg.Go(func() { errs[i+1] = work[i+1](m.tracks[i+1]) })
	}
	errs[0] = work[0](m.tracks[0])
	wg.Wait()
	m.took = shared.now()
	used := usage.Now().Sub(m.before)
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	m.describe(&used)
	m.run.PeakBytes, m.run.AnonBytes = usage.Memory()
	return m, nil
}

// describe makes the figures of all goroutines together.
func (m *measurement) describe(used *usage.Point) {
	r := &m.run
	for _, t := range m.tracks {
		r.Ops += t.ops
		r.Cut = r.Cut || t.cut
	}
	r.Seconds = m.took.Seconds()
	r.Latency = latency(m.tracks)
	if r.Ops == 0 {
		return
	}
	ops := float64(r.Ops)
	r.OpsPerSecond = ops / r.Seconds
	r.NanosPerOp = float64(m.took) * float64(r.Routines) / ops
	r.CPUNanosPerOp = float64(used.CPU) / ops
	r.AllocsPerOp = float64(used.Allocs) / ops
	r.BytesPerOp = float64(used.Bytes) / ops
	r.GCShare = used.GCShare()
	r.IO = results.IO{
		ReadCalls: float64(used.ReadCalls) / ops, ReadBytes: float64(used.ReadBytes) / ops, DeviceRead: float64(used.DeviceRead) / ops,
		WriteCalls: float64(used.WriteCalls) / ops, WrittenBytes: float64(used.WrittenBytes) / ops, DirtiedBytes: float64(used.DirtiedBytes) / ops,
		Unknown: !m.before.IOKnown(),
	}
}

func latency(tracks []*track) results.Latency {
	var all histogram.Histogram
	for _, t := range tracks {
		all.Merge(&t.timed)
	}
	at := func(q float64) float64 { return all.Quantile(q).Seconds() * 1e6 }
	return results.Latency{
		Of: tracks[0].of, Samples: all.Count(),
		P50: at(0.5), P90: at(0.9), P99: at(0.99), P999: at(0.999), P9999: at(0.9999), Max: all.Max().Seconds() * 1e6,
	}
}

// written adds the figures of a workload that wrote, before it settles.
func (m *measurement) written(userBytes int64) {
	w := &results.Write{UserBytes: userBytes, SeriesMillis: int(seriesInterval.Milliseconds())}
	for _, t := range m.tracks {
		w.LongestStall = max(w.LongestStall, t.gap.Seconds()*1e3)
		for i, n := range t.series {
			w.Series = append(w.Series, make([]int64, max(0, i+1-len(w.Series)))...)
			w.Series[i] += n
		}
	}
	w.Series = slices.Clip(w.Series)
	w.AmpAtEnd = m.amplification(userBytes)
	m.run.Write = w
}

// amplification is what was written since the workload began, over what the
// program wrote.
func (m *measurement) amplification(userBytes int64) float64 {
	used := usage.Now().Sub(m.before)
	return float64(used.BytesWritten()) / float64(max(userBytes, 1))
}

// settled adds the figures of the compactions that the workload left.
func (m *measurement) settled(took time.Duration, dir string) (err error) {
	w := m.run.Write
	w.SettleSeconds = took.Seconds()
	w.SecondsToSettled = m.run.Seconds + w.SettleSeconds
	w.AmpSettled = m.amplification(w.UserBytes)
	w.DirBytes, err = usage.DirBytes(dir)
	return err
}

// alone keeps of a run with several kinds of goroutines what one did: its rate
// and latency. What the process used is shared by all, and given by operation
// of this one.
func (m *measurement) alone(name string) {
	all := float64(m.run.Ops)
	r := &m.run
	r.Workload, r.Ops, r.Routines = name, m.tracks[0].ops, 1
	r.OpsPerSecond = float64(r.Ops) / r.Seconds
	r.NanosPerOp = float64(m.took) / float64(max(r.Ops, 1))
	r.Latency = latency(m.tracks)
	share := all / float64(max(r.Ops, 1))
	for _, f := range []*float64{
		&r.CPUNanosPerOp, &r.AllocsPerOp, &r.BytesPerOp, &r.IO.ReadCalls, &r.IO.ReadBytes, &r.IO.DeviceRead,
		&r.IO.WriteCalls, &r.IO.WrittenBytes, &r.IO.DirtiedBytes,
	} {
		*f *= share
	}
}
