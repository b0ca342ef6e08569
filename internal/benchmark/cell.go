package benchmark

import "fmt"

// A cell is one way to read the store, and a row of the table.
type cell struct {
	Absent    bool   `json:"absent"`     // ask for absent keys, else for present ones
	Skewed    bool   `json:"skewed"`     // some of them much more often than others
	Filters   bool   `json:"filters"`    // ask the filters, else ignore them
	Cache     string `json:"cache"`      // "all" or "1/16"
	Cold      bool   `json:"cold"`       // the files are not in the page cache at the start
	CacheSize int64  `json:"cache_size"` // bytes
}

// cellsFor returns what to measure, in this order, for a store with raw bytes of keys and values.
func cellsFor(raw int64) []cell {
	caches := []struct {
		name string
		size int64
	}{{"all", 2*raw + 32<<20}, {"1/16", max(raw/16, 256<<10)}}
	var cells []cell
	for _, c := range []cell{{Absent: true}, {Absent: true, Cold: true}, {}} {
		for _, cache := range caches {
			for _, filters := range []bool{false, true} {
				c.Filters, c.Cache, c.CacheSize = filters, cache.name, cache.size
				cells = append(cells, c)
			}
		}
	}
	return append(cells, cell{Absent: true, Skewed: true, Filters: true, Cache: caches[1].name, CacheSize: caches[1].size})
}

// String names the cell in errors.
func (c cell) String() string {
	return fmt.Sprintf("%s keys, filters %s, cache %s, %s", c.keys(), c.filters(), c.Cache, c.temperature())
}

func (c cell) keys() string {
	if c.Skewed {
		return "absent, skewed"
	}
	return choose(c.Absent, "absent", "present")
}

func (c cell) filters() string     { return choose(c.Filters, "on", "ignored") }
func (c cell) temperature() string { return choose(c.Cold, "cold", "warm") }

func choose(b bool, yes, no string) string {
	if b {
		return yes
	}
	return no
}
