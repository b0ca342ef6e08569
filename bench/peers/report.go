package main

import (
	"slices"

	"github.com/shaledb/shale/bench/peers/internal/figures"
	"github.com/shaledb/shale/bench/peers/internal/keys"
)

// A report is all that a run finds out. Its JSON leaves out what is not known.
type report struct {
	Machine figures.Machine `json:"machine"`
	Setting setting         `json:"setting"`
	Results []*result       `json:"results"`
	Scaling []scaling       `json:"two_readers,omitempty"`
	Shapes  []shape         `json:"shapes"`

	engines   []string // in the order of the table
	workloads []string
}

type setting struct {
	Entries    int    `json:"entries"`
	Keys       string `json:"keys"`
	Reads      int    `json:"lookups_of_a_reader_a_round"`
	Rounds     int    `json:"rounds"`
	Memtable   int64  `json:"memtable_bytes"`
	Cache      int64  `json:"cache_bytes"`
	SmallCache int64  `json:"small_cache_bytes"`
}

// A result is one workload on one engine: medians of the rounds for the time,
// means for the counts.
type result struct {
	Workload string    `json:"workload"`
	Engine   string    `json:"engine"`
	Nanos    []float64 `json:"ns"` // an operation, by round
	Median   float64   `json:"ns_median"`
	Ratio    float64   `json:"times_shale,omitempty"`

	// Of reads, an operation.
	Allocs         *float64 `json:"allocs,omitempty"`
	ReadCalls      *float64 `json:"read_calls,omitempty"`  // by the operating system's count
	BlockReads     *float64 `json:"block_reads,omitempty"` // by the engine's count
	FalsePositives *float64 `json:"false_positives,omitempty"`
	Predicted      *float64 `json:"false_positives_predicted,omitempty"`

	samples []sample
}

// scaling is how much more two readers get done than one.
type scaling struct {
	Engine string  `json:"engine"`
	Ratio  float64 `json:"throughput_ratio"`
}

// A shape is what a store looked like in a phase, if not as in the one before.
type shape struct {
	Phase  string  `json:"phase"`
	Store  string  `json:"store"`
	Levels []level `json:"levels"`
}

func newReport(c config) *report {
	return &report{
		Machine: figures.ThisMachine(),
		Setting: setting{c.n, keys.NewSpace(c.keys, c.n).String(), c.reads, c.rounds, c.memtable, c.cache, c.smallCache()},
	}
}

// of finds the result of a workload on an engine, or makes it.
func (r *report) of(workload, engine string) *result {
	if found := r.find(workload, engine); found != nil {
		return found
	}
	if !slices.Contains(r.workloads, workload) {
		r.workloads = append(r.workloads, workload)
	}
	made := &result{Workload: workload, Engine: engine}
	r.Results = append(r.Results, made)
	return made
}

func (r *report) find(workload, engine string) *result {
	i := slices.IndexFunc(r.Results, func(x *result) bool { return x.Workload == workload && x.Engine == engine })
	if i < 0 {
		return nil
	}
	return r.Results[i]
}

// add takes a round of a workload that reads.
func (r *report) add(w workload, engine string, s sample) {
	if !w.absent { // filters that say 'maybe' are right then
		s.counts.falsePositives, s.counts.predicted = unknown, unknown
	}
	x := r.of(w.title, engine)
	x.Nanos = append(x.Nanos, s.nanos)
	x.samples = append(x.samples, s)
}

// addTime takes a workload of which only the time is measured.
func (r *report) addTime(workload, engine string, nanos float64) {
	x := r.of(workload, engine)
	x.Nanos = append(x.Nanos, nanos)
}

func (r *report) noteShape(phase, store string, levels []level) {
	r.Shapes = slices.DeleteFunc(r.Shapes, func(s shape) bool { return s.Phase == phase && s.Store == store })
	for _, s := range slices.Backward(r.Shapes) {
		if s.Store == store && slices.Equal(s.Levels, levels) {
			return
		}
	}
	r.Shapes = append(r.Shapes, shape{phase, store, levels})
}

// finish works out medians, means and ratios.
func (r *report) finish() {
	for _, x := range r.Results {
		x.Median = figures.Median(x.Nanos)
		x.Allocs = x.mean(func(s sample) float64 { return s.allocs })
		x.ReadCalls = x.mean(func(s sample) float64 { return s.reads })
		x.BlockReads = x.mean(func(s sample) float64 { return float64(s.counts.blockReads) })
		x.FalsePositives = x.mean(func(s sample) float64 { return float64(s.counts.falsePositives) })
		if n := len(x.samples); n > 0 && x.samples[n-1].counts.predicted != unknown {
			x.Predicted = &x.samples[n-1].counts.predicted
		}
	}
	for _, x := range r.Results {
		if ours := r.find(x.Workload, "shale"); ours != nil && ours.Median > 0 {
			x.Ratio = x.Median / ours.Median
		}
	}
	one, two := phases[0].workloads[0], phases[0].workloads[2]
	for _, e := range r.engines {
		if a, b := r.find(one.title, e), r.find(two.title, e); a != nil && b != nil && b.Median > 0 {
			r.Scaling = append(r.Scaling, scaling{e, float64(two.readers) * a.Median / b.Median})
		}
	}
}

// mean is the mean of a count over all lookups, nil where it is not known.
func (x *result) mean(count func(sample) float64) *float64 {
	sum, lookups := 0.0, 0
	for _, s := range x.samples {
		n := count(s)
		if n == unknown {
			return nil
		}
		sum += n
		lookups += s.lookups
	}
	if lookups == 0 {
		return nil
	}
	sum /= float64(lookups)
	return &sum
}
