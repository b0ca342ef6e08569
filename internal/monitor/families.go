package monitor

import (
	"iter"
	"slices"
	"strconv"

	"github.com/shaledb/shale"
)

// A State is what a store counts, at one moment.
type State struct {
	shale.Metrics
	Writable bool // no failure has made the store read-only
}

// StateOf returns the present State of db, or ErrClosed if it is closed: what its levels hold is
// not known any more then, and zeros would look like an empty store.
func StateOf(db *shale.DB) (State, error) {
	s, err := db.Snapshot()
	if err != nil {
		return State{}, err
	}
	if err := s.Close(); err != nil {
		return State{}, err
	}
	return State{db.Metrics(), db.Err() == nil}, nil
}

// A Family is a metric with all of its values.
type Family struct {
	Name    string // ends in the unit, and in total if it is a counter
	Counter bool   // the values only grow while the store is open; if not, it is a gauge
	Help    string // a sentence
	Label   string // the name of the label that tells the values apart; empty: there is one value

	// All yields the values, each with that of the label.
	All func(*State) iter.Seq2[string, float64]
}

// Families are all metrics of a store, in the order in which they are shown.
var Families = slices.Concat(
	families(storeMetrics, "", func(s *State) iter.Seq2[string, *shale.Metrics] {
		return func(yield func(string, *shale.Metrics) bool) { yield("", &s.Metrics) }
	}),
	[]Family{
		{"shale_stall_seconds_total", true, "Time that writers were held back, by cause.", "cause", stallCauses},
		{"shale_memory_bytes", false, "Memory by owner.", "owner", memoryOwners},
		{"shale_writable", false, "0 if a failure made the store read-only.", "", func(s *State) iter.Seq2[string, float64] {
			return labelled{{"", oneIf(s.Writable)}}.all
		}},
	},
	families(levelMetrics, "level", func(s *State) iter.Seq2[string, *shale.LevelMetrics] {
		return func(yield func(string, *shale.LevelMetrics) bool) {
			for i := range s.Levels {
				if !yield(strconv.Itoa(s.Levels[i].Level), &s.Levels[i]) {
					return
				}
			}
		}
	}),
)

// families returns the metrics of a table as families, whose values come from what of yields.
func families[M any](table []metric[M], label string, of func(*State) iter.Seq2[string, *M]) (all []Family) {
	for _, c := range table {
		all = append(all, Family{c.name, c.kind == "counter", c.help, label, func(s *State) iter.Seq2[string, float64] {
			return func(yield func(string, float64) bool) {
				for at, m := range of(s) {
					if !yield(at, c.value(m)) {
						return
					}
				}
			}
		}})
	}
	return all
}

// stallCauses yields the time that writers have waited, by cause.
func stallCauses(s *State) iter.Seq2[string, float64] {
	return labelled{{"memtables", s.StallMemtables.Seconds()}, {"level0", s.StallLevel0.Seconds()}}.all
}

// memoryOwners yields the bytes of memory, by owner.
func memoryOwners(s *State) iter.Seq2[string, float64] {
	return labelled{
		{"memtables", float64(s.MemtableMemory)}, {"cache", float64(s.CacheMemory)}, {"filters", float64(s.FilterMemory)},
		{"indexes", float64(s.IndexMemory)}, {"false_positives", float64(s.FalsePositiveMemory)}, {"range_deletes", float64(s.RangeDeleteMemory)},
	}.all
}

// A labelled has the values of a metric with a label.
type labelled []struct {
	label string
	value float64
}

func (l labelled) all(yield func(string, float64) bool) {
	for _, v := range l {
		if !yield(v.label, v.value) {
			return
		}
	}
}
