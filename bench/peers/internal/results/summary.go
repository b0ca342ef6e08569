package results

import (
	"slices"
	"strings"

	"github.com/shaledb/shale/bench/peers/internal/figures"
)

// A Cell is one workload on one store: all its rounds.
type Cell struct {
	Store, Workload, Group string
	Rounds                 []Run
}

// Median is the median over the rounds of a figure.
func (c *Cell) Median(figure func(*Run) float64) float64 {
	var v []float64
	for i := range c.Rounds {
		v = append(v, figure(&c.Rounds[i]))
	}
	return figures.Median(v)
}

// Spread is the largest of a figure over the smallest, 1 of one round.
func (c *Cell) Spread(figure func(*Run) float64) float64 {
	var v []float64
	for i := range c.Rounds {
		v = append(v, figure(&c.Rounds[i]))
	}
	if low := slices.Min(v); low > 0 {
		return slices.Max(v) / low
	}
	return 1
}

// Cut reports whether a round was cut.
func (c *Cell) Cut() bool {
	return slices.ContainsFunc(c.Rounds, func(r Run) bool { return r.Cut })
}

// Rate is the figure that stores are compared by.
func Rate(r *Run) float64 { return r.OpsPerSecond }

// Summary has the cells of a file, workloads and stores in the order in which
// they ran first.
type Summary struct {
	Workloads, Stores []string
	cells             map[[2]string]*Cell
}

// Summary joins the rounds.
func (f *File) Summary() *Summary {
	s := &Summary{cells: map[[2]string]*Cell{}}
	for _, r := range f.Runs {
		if !slices.Contains(s.Workloads, r.Workload) {
			s.Workloads = append(s.Workloads, r.Workload)
		}
		s.addStore(r.Store)
		id := [2]string{r.Workload, r.Store}
		c := s.cells[id]
		if c == nil {
			c = &Cell{Store: r.Store, Workload: r.Workload, Group: r.Group}
			s.cells[id] = c
		}
		c.Rounds = append(c.Rounds, r)
	}
	return s
}

// addStore puts a second way of reading a store, "pebble, with X", behind its
// first.
func (s *Summary) addStore(name string) {
	if slices.Contains(s.Stores, name) {
		return
	}
	first, _, _ := strings.Cut(name, ",")
	at := slices.Index(s.Stores, first) + 1
	if at == 0 {
		at = len(s.Stores)
	}
	s.Stores = slices.Insert(s.Stores, at, name)
}

// Cell is nil where the store did not run the workload.
func (s *Summary) Cell(workload, store string) *Cell { return s.cells[[2]string{workload, store}] }

// Base is the store that the others are compared with: the first.
func (s *Summary) Base() string { return s.Stores[0] }

// Ratio is how many times faster than a store the base is: above 1, the base
// is ahead. ok is false where one of them did not run.
func (s *Summary) Ratio(workload, store string) (ratio float64, ok bool) {
	mine, its := s.Cell(workload, s.Base()), s.Cell(workload, store)
	if mine == nil || its == nil {
		return 0, false
	}
	return mine.Median(Rate) / its.Median(Rate), true
}
