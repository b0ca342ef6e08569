// Package results is the schema of the file that a run of the benchmark writes
// and its report reads.
package results

import (
	"encoding/json"
	"fmt"
	"os"

	"github.com/shaledb/shale/bench/peers/internal/figures"
)

// A File is the outcome of one command.
type File struct {
	Machine  figures.Machine   `json:"machine"`
	Settings Settings          `json:"settings"`
	Versions map[string]string `json:"versions"` // of the modules of the stores
	Runs     []Run             `json:"runs"`
}

// Settings are what all stores have in common.
type Settings struct {
	Entries       int      `json:"entries"`
	Keys          string   `json:"keys"` // their kind
	KeyBytes      int      `json:"key_bytes"`
	ValueBytes    int      `json:"value_bytes"`
	Memtable      int64    `json:"memtable_bytes"`
	Cache         int64    `json:"cache_bytes"`
	SmallCache    int64    `json:"small_cache_bytes"`
	Rounds        int      `json:"rounds"`
	Seconds       float64  `json:"seconds"` // that reads last
	BudgetSeconds float64  `json:"budget_seconds"`
	Stores        []string `json:"stores"`
}

// A Run is one workload on one store in one round.
type Run struct {
	Store    string `json:"store"` // and the way it is read, where it has two
	Workload string `json:"workload"`
	Group    string `json:"group"`
	Round    int    `json:"round"`

	Ops      int64   `json:"ops"`
	Seconds  float64 `json:"seconds"`
	Routines int     `json:"routines"`
	// Cut: the budget ended the workload before all entries were written. Figures
	// per operation are those of a smaller store.
	Cut bool `json:"cut,omitempty"`

	OpsPerSecond float64 `json:"ops_per_second"`
	NanosPerOp   float64 `json:"ns_per_op"` // of each goroutine
	// OwnNanosPerOp is the benchmark's part of NanosPerOp: making keys and values,
	// checking answers, reading the clock. Measured on a store that does nothing.
	OwnNanosPerOp float64 `json:"own_ns_per_op"`
	Latency       Latency `json:"latency"`
	Tries         float64 `json:"tries_per_commit,omitempty"` // of a transaction's function

	// The process, its background work included, while the workload ran.
	CPUNanosPerOp float64 `json:"cpu_ns_per_op"`
	AllocsPerOp   float64 `json:"allocs_per_op"` // of Go
	BytesPerOp    float64 `json:"alloc_bytes_per_op"`
	GCShare       float64 `json:"gc_share"` // of the CPU time of Go
	IO            IO      `json:"io_per_op"`
	PeakBytes     int64   `json:"peak_bytes"` // resident
	AnonBytes     int64   `json:"anon_bytes"` // resident at the end, less files

	Write  *Write  `json:"write,omitempty"`  // of workloads that write
	Fill   *Fill   `json:"fill,omitempty"`   // of those that fill an empty store
	Engine *Engine `json:"engine,omitempty"` // of reads, if the engine tells
	Raw    *Raw    `json:"raw,omitempty"`    // of reads that wait for the device
	Levels []Level `json:"levels,omitempty"` // that were read, or written and settled
}

// Raw is what the reads of an operation take without the store: as many bytes at random places of
// the same files, which the system is asked for all at once. No store that reads as many
// blocks can be faster.
type Raw struct {
	Reads         float64 `json:"reads"`       // an operation
	ReadBytes     int64   `json:"read_bytes"`  // of each
	DeviceRead    float64 `json:"device_read"` // bytes an operation
	NanosPerOp    float64 `json:"ns_per_op"`
	CPUNanosPerOp float64 `json:"cpu_ns_per_op"`
	P50           float64 `json:"p50_us"`
	P99           float64 `json:"p99_us"`
}

// Latency are quantiles of single operations: of every write, of each 16th
// read.
type Latency struct {
	Of      string  `json:"of"` // what is timed: an entry, a batch, 1000 entries of a scan
	Samples uint64  `json:"samples"`
	P50     float64 `json:"p50_us"`
	P90     float64 `json:"p90_us"`
	P99     float64 `json:"p99_us"`
	P999    float64 `json:"p999_us"`
	P9999   float64 `json:"p9999_us"`
	Max     float64 `json:"max_us"`
}

// IO is what /proc/self/io counts.
type IO struct {
	ReadCalls    float64 `json:"read_calls"`
	ReadBytes    float64 `json:"read_bytes"`        // by calls, rchar
	DeviceRead   float64 `json:"device_read"`       // read_bytes
	WriteCalls   float64 `json:"write_calls"`       // writes through a mapping make none
	WrittenBytes float64 `json:"written_bytes"`     // by calls, wchar
	DirtiedBytes float64 `json:"dirtied_bytes"`     // pages of files made dirty, write_bytes
	Unknown      bool    `json:"unknown,omitempty"` // not Linux
}

// Write has the figures of workloads that write. Amplifications are over the
// bytes of keys and values.
type Write struct {
	UserBytes        int64   `json:"user_bytes"`
	AmpAtEnd         float64 `json:"write_amp_at_end"`
	AmpSettled       float64 `json:"write_amp_settled"`
	SettleSeconds    float64 `json:"settle_seconds"`
	LongestStall     float64 `json:"longest_stall_ms"` // the largest gap between two finished operations
	SeriesMillis     int     `json:"series_ms"`
	Series           []int64 `json:"series"` // operations in each interval of SeriesMillis
	SecondsToSettled float64 `json:"seconds_to_settled"`
	DirBytes         int64   `json:"dir_bytes"` // when it has settled
}

// Fill has the figures of a store after its fill, settled and closed.
type Fill struct {
	DirBytes     int64   `json:"dir_bytes"`
	LiveBytes    int64   `json:"live_bytes"` // of tables, before it was closed
	SpaceAmp     float64 `json:"space_amp"`  // of DirBytes
	CloseMillis  float64 `json:"close_ms"`
	ReopenMillis float64 `json:"reopen_ms"`
}

// Engine has what an engine counts by itself, by lookup. Unknown is -1.
type Engine struct {
	BlockReads     float64 `json:"block_reads"`
	FalsePositives float64 `json:"false_positives"`
	PredictedFPR   float64 `json:"predicted_fpr"`
}

// Unknown stands for what an engine does not tell.
const Unknown = -1

// A Level is the shape of one level; 0 where the engine does not tell.
type Level struct {
	Level        int     `json:"level"`
	Runs         int     `json:"runs"` // tables that overlap, or a level of tables that don't
	Tables       int     `json:"tables"`
	Bytes        int64   `json:"bytes"`
	Entries      uint64  `json:"entries,omitempty"`
	FilterBits   float64 `json:"filter_bits,omitempty"` // a key
	PredictedFPR float64 `json:"predicted_fpr,omitempty"`
}

// Read reads the file of a run.
func Read(path string) (*File, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var f File
	if err := json.Unmarshal(data, &f); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return &f, nil
}

// Write writes the file of a run.
func (f *File) Write(path string) error { return figures.WriteJSON(path, f) }
