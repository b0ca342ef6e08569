package benchmark

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/shaledb/shale"
)

// Counts says what some lookups cost, as counted by the store and by the operating system.
type Counts struct {
	Lookups         int     `json:"lookups"`
	Seconds         float64 `json:"seconds"`
	LookupsPerSec   float64 `json:"lookups_per_second"`
	Nanos           float64 `json:"ns_per_lookup"`
	BlocksPerLookup float64 `json:"blocks_per_lookup"`      // looked into, cached or not
	ReadsPerLookup  float64 `json:"block_reads_per_lookup"` // read from a file
	BytesPerLookup  float64 `json:"bytes_read_per_lookup"`
	BlockReads      uint64  `json:"block_reads"`  // by the store's count
	Preads          int64   `json:"pread_calls"`  // by the operating system's count; -1: not known
	DeviceBytes     int64   `json:"device_bytes"` // by the operating system's count; -1: not known
	FilterMemory    int64   `json:"filter_memory"`
	PredictedFPR    float64 `json:"predicted_fpr"` // false positives of a lookup of an absent key, summed over the levels
	MeasuredFPR     float64 `json:"measured_fpr"`  // 0 when present keys were asked for
	Remembered      float64 `json:"remembered"`    // share of the false positives that were known and read nothing
}

// A Counter counts what lookups cost, and checks the counts: the store must have
// counted the lookups that were made, and as many block reads as the operating
// system counted read calls. A difference is an error.
type Counter struct {
	db     *shale.DB
	before shale.Metrics
	io     procIO
}

// StartCounting counts the lookups that follow. Nothing else may use the store meanwhile.
func StartCounting(db *shale.DB) *Counter {
	return &Counter{db, db.Metrics(), readProcIO()}
}

// Stop returns what the lookups since StartCounting cost, and the store's metrics for
// them. absent says that every key was absent.
func (c *Counter) Stop(lookups int, took time.Duration, absent bool) (Counts, shale.Metrics, error) {
	after := readProcIO()
	m := c.db.Metrics().Sub(c.before)
	counts := countsOf(m, lookups, took, absent)
	return counts, m, counts.compare(m.Gets, c.io, after)
}

// countsOf returns the counts of the store. Those of the operating system are not known yet.
func countsOf(m shale.Metrics, lookups int, took time.Duration, absent bool) Counts {
	n := float64(max(lookups, 1))
	c := Counts{
		Lookups: lookups, Seconds: took.Seconds(),
		LookupsPerSec:   n / took.Seconds(),
		Nanos:           float64(took) / n,
		BlocksPerLookup: float64(m.CacheMisses+m.CacheHits) / n,
		ReadsPerLookup:  float64(m.BlockReads) / n,
		BytesPerLookup:  float64(m.BlockReadBytes) / n,
		BlockReads:      m.BlockReads, Preads: -1, DeviceBytes: -1,
		FilterMemory: m.FilterMemory, PredictedFPR: m.PredictedFPR(),
	}
	if absent {
		all := float64(m.FilterFalsePositive + m.FalsePositivesRemembered)
		c.MeasuredFPR = all / n
		c.Remembered = float64(m.FalsePositivesRemembered) / max(all, 1)
	}
	return c
}

// compare fills in the operating system's counts and compares them with the store's.
// Each block read is one read call, and nothing else reads.
func (c *Counts) compare(gets uint64, before, after procIO) error {
	if gets != uint64(c.Lookups) {
		return fmt.Errorf("%d lookups were made, the store counted %d", c.Lookups, gets)
	}
	if !before.known || !after.known {
		return nil
	}
	c.Preads = after.reads - before.reads - 1 // reading /proc/self/io is one too
	c.DeviceBytes = after.deviceBytes - before.deviceBytes
	// The Go runtime may read a few times itself.
	if slack := int64(64); c.Preads < int64(c.BlockReads) || c.Preads > int64(c.BlockReads)+slack {
		return fmt.Errorf("the store counted %d block reads, the operating system %d read calls", c.BlockReads, c.Preads)
	}
	return nil
}

// A procIO is what the operating system has counted for this process.
type procIO struct {
	known       bool
	reads       int64 // read calls
	deviceBytes int64 // that came from a device
}

// readProcIO reads /proc/self/io, which Linux has.
func readProcIO() procIO {
	data, err := os.ReadFile("/proc/self/io")
	if err != nil {
		return procIO{}
	}
	var p procIO
	for line := range strings.Lines(string(data)) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), ": ")
		n, err := strconv.ParseInt(value, 10, 64)
		if err != nil {
			return procIO{}
		}
		switch name {
		case "syscr":
			p.reads, p.known = n, true
		case "read_bytes":
			p.deviceBytes = n
		}
	}
	return p
}
