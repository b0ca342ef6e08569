package benchmark

import (
	"fmt"
	"time"

	"github.com/shaledb/shale"
)

// Counts are what some lookups cost, by the store's count and by the operating system's.
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

// A Counter holds both counts of the time before some lookups.
type Counter struct {
	db     *shale.DB
	before shale.Metrics
	io     procIO
}

// StartCounting counts the lookups that follow. Nothing else may use the store meanwhile.
func StartCounting(db *shale.DB) *Counter {
	return &Counter{db, db.Metrics(), readProcIO()}
}

// Stop returns what the lookups since StartCounting cost, and the store's metrics of
// that time. It is an error if the store counted another number of lookups than
// were made, or another number of block reads than the operating system. absent
// says that every key was absent.
func (c *Counter) Stop(lookups int, took time.Duration, absent bool) (Counts, shale.Metrics, error) {
	after := readProcIO()
	m := c.db.Metrics().Sub(c.before)
	counts := countsOf(m, lookups, took, absent)
	return counts, m, counts.compare(m.Gets, c.io, after)
}

// countsOf is what the store counted.
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

// compare holds the store's counts against what was asked of it, and against
// the operating system's: every block read is one pread and there is no other.
func (c *Counts) compare(gets uint64, before, after procIO) error {
	if gets != uint64(c.Lookups) {
		return fmt.Errorf("%d lookups were made, the store counted %d", c.Lookups, gets)
	}
	if !before.known || !after.known {
		return nil
	}
	c.Preads = after.reads - before.reads - 1 // reading the count is a read too
	c.DeviceBytes = after.deviceBytes - before.deviceBytes
	// The runtime may read a few times on its own account.
	if slack := int64(64); c.Preads < int64(c.BlockReads) || c.Preads > int64(c.BlockReads)+slack {
		return fmt.Errorf("the store counted %d block reads, the operating system %d read calls", c.BlockReads, c.Preads)
	}
	return nil
}
