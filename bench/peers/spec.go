package main

import (
	"encoding/json"
	"os"
	"slices"
	"time"
)

// A spec is what one process of its own is to do: one group of workloads on
// one store.
type spec struct {
	Store     string   `json:"store"`
	Group     string   `json:"group"`
	Round     int      `json:"round"`
	Workloads []string `json:"workloads"` // of the group, to be measured
	Dir       string   `json:"dir"`       // of the store
	Out       string   `json:"out"`       // file for the results

	N          int     `json:"n"`
	Keys       string  `json:"keys"`
	ValueBytes int     `json:"value_bytes"`
	Memtable   int64   `json:"memtable"`
	Cache      int64   `json:"cache"`
	SmallCache int64   `json:"small_cache"`
	Seconds    float64 `json:"seconds"`
	Budget     float64 `json:"budget"`
	Overwrites int     `json:"overwrites"` // times as many entries as there are
	Quiet      float64 `json:"quiet"`      // seconds, see stores.Options
}

// specVariable names the file of the spec to a process that has one.
const specVariable = "PEERS_SPEC"

func readSpec(path string) (s spec, err error) {
	data, err := os.ReadFile(path)
	if err == nil {
		err = json.Unmarshal(data, &s)
	}
	return s, err
}

func (s *spec) measures(workload string) bool { return slices.Contains(s.Workloads, workload) }

func seconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }

func (s *spec) duration() time.Duration { return seconds(s.Seconds) }
func (s *spec) budget() time.Duration   { return seconds(s.Budget) }

// entryBytes are those of a key and its value.
func (s *spec) entryBytes() int64 { return int64(keyBytes + s.ValueBytes) }
