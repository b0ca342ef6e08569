package main

import (
	"slices"
	"strings"

	"github.com/shaledb/shale/bench/peers/internal/figures"
)

// A report is all that a run finds out. Its JSON leaves out what is not known.
type report struct {
	Machine figures.Machine `json:"machine"`
	Setting setting         `json:"setting"`
	Filters []*filterReport `json:"filters"`
	Results []*result       `json:"results"`
	Targets []target        `json:"targets"`
	Behind  []lead          `json:"peers_ahead"`
	Smaller []*filterReport `json:"peers_smaller"`

	// Refused are the fillings that had to be done anew, because the filter refused
	// a key that it was sized for.
	Refused []refusal `json:"refused"`

	forms []string // of keys, in the order of the table
}

type setting struct {
	Keys   string `json:"keys"`
	Asks   int    `json:"questions_a_round"`
	Rounds int    `json:"rounds"`
	Clock  string `json:"clock"`
}

// A filterReport is a filter with a number of keys.
type filterReport struct {
	Keys       int      `json:"keys"`
	Group      string   `json:"group"`
	Filter     string   `json:"filter"`
	Settings   string   `json:"settings"`
	Safe       bool     `json:"safe_for_goroutines"`
	BitsPerKey float64  `json:"bits_a_key"`
	Theory     *float64 `json:"false_positives_in_theory,omitempty"`
	Measured   *float64 `json:"false_positives,omitempty"`
	Absent     int      `json:"absent_keys_asked"`
	maybe      int
	ours       bool
}

// A result is one workload on one filter: medians of the rounds for the time,
// means for the rest.
type result struct {
	Keys   int       `json:"keys"`
	Group  string    `json:"group"`
	Filter string    `json:"filter"`
	Work   string    `json:"work"`  // add, hit, miss, remove
	Form   string    `json:"given"` // keys of a length, or their hashes
	Nanos  []float64 `json:"ns"`    // a key, by round
	Median float64   `json:"ns_median"`
	Least  float64   `json:"ns_least"`
	Ratio  float64   `json:"times_shale,omitempty"` // of the first of shale's in the group
	Allocs float64   `json:"allocs"`                // a key
	Bytes  float64   `json:"bytes_allocated"`       // a key

	ours bool
}

// A refusal counts the refused fillings of a filter.
type refusal struct {
	Keys   int    `json:"keys"`
	Filter string `json:"filter"`
	Times  int    `json:"times"`
}

// A target is what shale means to reach.
type target struct {
	What string  `json:"what"`
	Want string  `json:"want"`
	Got  float64 `json:"got"`
	Met  bool    `json:"met"`
}

// A lead is where a peer takes less time than each of shale's filters in its
// group.
type lead struct {
	Keys  int     `json:"keys"`
	Group string  `json:"group"`
	Work  string  `json:"work"`
	Peer  string  `json:"peer"`
	Nanos float64 `json:"ns_median"`
	Ours  float64 `json:"ns_median_of_shales_best"`
}

func newReport(c config) *report {
	kind := "user%012d"
	if c.keys == "random" {
		kind = "16 random hexadecimal digits, longer ones behind a prefix"
	}
	return &report{Setting: setting{kind, c.asks, c.rounds, clock}, Machine: figures.ThisMachine()}
}

// add takes a round of a workload.
func (r *report) add(n int, c contestant, work, form string, took cost) {
	x := r.find(n, c.name, work, form)
	if x == nil {
		x = &result{Keys: n, Group: c.group, Filter: c.name, Work: work, Form: form, ours: c.ours()}
		r.Results = append(r.Results, x)
	}
	if !slices.Contains(r.forms, form) {
		r.forms = append(r.forms, form)
	}
	rounds := float64(len(x.Nanos))
	x.Nanos = append(x.Nanos, took.nanos)
	x.Allocs = (x.Allocs*rounds + took.allocs) / (rounds + 1)
	x.Bytes = (x.Bytes*rounds + took.bytes) / (rounds + 1)
}

func (r *report) find(n int, filter, work, form string) *result {
	i := slices.IndexFunc(r.Results, func(x *result) bool {
		return x.Keys == n && x.Filter == filter && x.Work == work && x.Form == form
	})
	if i < 0 {
		return nil
	}
	return r.Results[i]
}

func (r *report) filter(n int, name string) *filterReport {
	i := slices.IndexFunc(r.Filters, func(f *filterReport) bool { return f.Keys == n && f.Filter == name })
	if i < 0 {
		return nil
	}
	return r.Filters[i]
}

// noteFilter takes what is known of a filter that was just filled.
func (r *report) noteFilter(n int, c contestant, f sized) {
	if r.filter(n, c.name) != nil {
		return
	}
	x := &filterReport{Keys: n, Group: c.group, Filter: c.name, Settings: c.settings, Safe: c.safe, BitsPerKey: f.bits() / float64(n), ours: c.ours()}
	if p := f.theory(); p != unknown {
		x.Theory = &p
	}
	r.Filters = append(r.Filters, x)
}

func (r *report) countFalsePositives(n int, c contestant, maybe, asked int) {
	f := r.filter(n, c.name)
	f.maybe += maybe
	f.Absent += asked
}

func (r *report) noteRefusal(n int, c contestant) {
	i := slices.IndexFunc(r.Refused, func(x refusal) bool { return x.Keys == n && x.Filter == c.name })
	if i < 0 {
		i = len(r.Refused)
		r.Refused = append(r.Refused, refusal{Keys: n, Filter: c.name})
	}
	r.Refused[i].Times++
}

// finish works out medians, ratios, and what they say.
func (r *report) finish() {
	for _, f := range r.Filters {
		if f.Absent > 0 {
			p := float64(f.maybe) / float64(f.Absent)
			f.Measured = &p
		}
	}
	for _, x := range r.Results {
		x.Median, x.Least = figures.Median(x.Nanos), slices.Min(x.Nanos)
	}
	for _, x := range r.Results {
		if first := r.firstOurs(x); first != nil && first.Median > 0 {
			x.Ratio = x.Median / first.Median
		}
	}
	r.Targets = r.targets()
	r.Behind = r.behind()
	r.Smaller = r.smaller()
}

// firstOurs is shale's result that x is compared with: that of the first of its
// filters in the group that has the workload.
func (r *report) firstOurs(x *result) *result {
	for _, f := range r.Filters {
		if f.Keys != x.Keys || f.Group != x.Group {
			continue
		}
		if found := r.find(x.Keys, f.Filter, x.Work, x.Form); found != nil && found.ours {
			return found
		}
	}
	return nil
}

// Targets: the time of a probe in cache, and the ratio of end-to-end times.
const (
	cachedSize  = 1_000_000 // keys of the largest filters that the caches hold
	probeTarget = 10.       // ns
	ratioTarget = 2.
)

func (r *report) targets() []target {
	var all []target
	for _, ours := range r.Results {
		if ours.Filter != "shale Blocked" {
			continue
		}
		what := ours.String()
		switch peer := r.find(ours.Keys, "bits-and-blooms", ours.Work, ours.Form); {
		case ours.Form == "hash" && ours.Work != "add" && ours.Keys <= cachedSize:
			all = append(all, target{what + ", ns", "at most 10", ours.Median, ours.Median <= probeTarget})
		case peer != nil && ours.Median > 0:
			ratio := peer.Median / ours.Median
			all = append(all, target{"bits-and-blooms / " + what, "at least 2", ratio, ratio >= ratioTarget})
		}
	}
	return all
}

// noise is how much of a time two runs differ by.
const noise = 0.03

// behind lists where a peer is ahead by more than noise.
func (r *report) behind() []lead {
	var all []lead
	for _, x := range r.Results {
		if x.ours {
			continue
		}
		var best *result
		for _, o := range r.Results {
			same := o.Keys == x.Keys && o.Group == x.Group && o.Work == x.Work && o.Form == x.Form
			if o.ours && same && (best == nil || o.Median < best.Median) {
				best = o
			}
		}
		if best != nil && x.Median < best.Median*(1-noise) {
			all = append(all, lead{x.Keys, x.Group, x.Work + " " + x.Form, x.Filter, x.Median, best.Median})
		}
	}
	return all
}

// rateNoise is how much the rates of two filters of one kind differ by.
const rateNoise = 0.05

// smaller lists the peers that no filter of shale's in their group is as good as
// in memory and rate at once.
func (r *report) smaller() []*filterReport {
	var all []*filterReport
	for _, peer := range r.Filters {
		asGood, compared := false, false
		for _, o := range r.Filters {
			if o.Keys != peer.Keys || o.Group != peer.Group || !o.ours || o.Measured == nil {
				continue
			}
			compared = true
			asGood = asGood || o.BitsPerKey <= peer.BitsPerKey*(1+noise) && *o.Measured <= *peer.Measured*(1+rateNoise)
		}
		if !peer.ours && compared && !asGood {
			all = append(all, peer)
		}
	}
	return all
}

func (x *result) String() string {
	return strings.Join([]string{x.Filter, count(x.Keys) + " keys", x.Work, x.Form}, ", ")
}
