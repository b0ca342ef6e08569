package benchmark

import (
	"context"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"github.com/shaledb/shale"
	"github.com/shaledb/shale/vfs"
)

// A cell is one way to read the store.
type cell struct {
	Absent    bool   `json:"absent"`     // ask for absent keys, else for present ones
	Skewed    bool   `json:"skewed"`     // some of them much more often than others
	Filters   bool   `json:"filters"`    // ask the filters, else ignore them
	Cache     string `json:"cache"`      // "all" or "1/16"
	Cold      bool   `json:"cold"`       // the files are out of the page cache at the start
	CacheSize int64  `json:"cache_size"` // bytes
}

// A result is what a cell measured.
type result struct {
	cell
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
	PredictedFPR    float64 `json:"predicted_fpr"` // false positives an absent key, summed over the levels
	MeasuredFPR     float64 `json:"measured_fpr"`
	Remembered      float64 `json:"remembered"` // share of the false positives that were known and read nothing
	Allocs          float64 `json:"allocs_per_lookup"`
}

// measure opens the store as the cell says, asks for keys until it has asked
// for all of them or the time is up, and checks the answers and the counts.
func measure(ctx context.Context, l *loaded, c cell, keys [][]byte, limit time.Duration) (*result, error) {
	bits := l.bits // fewer than the filters have would be a limit to their memory
	if !c.Filters {
		bits = -1
	}
	db, err := shale.Open(l.dir, &shale.Options{ReadOnly: true, CacheSize: c.CacheSize, FilterBits: bits})
	if err != nil {
		return nil, err
	}
	defer db.Close()
	if !c.Cold && !c.Skewed {
		if err := warmUp(ctx, db, c, keys, limit/2); err != nil {
			return nil, err
		}
	} else if c.Cold {
		if err := dropCaches(l.dir); err != nil {
			return nil, err
		}
	}
	runtime.GC()
	r := &result{cell: c}
	before, io := db.Metrics(), readProcIO()
	var mem runtime.MemStats
	runtime.ReadMemStats(&mem)
	mallocs := mem.Mallocs
	begin := time.Now()
	if r.Lookups, err = ask(ctx, db, keys, c.Absent, begin.Add(limit)); err != nil {
		return nil, err
	}
	r.Seconds = time.Since(begin).Seconds()
	runtime.ReadMemStats(&mem)
	ioAfter := readProcIO()
	counted := db.Metrics().Sub(before)
	r.take(counted, mem.Mallocs-mallocs)
	if err := r.compare(counted.Gets, io, ioAfter); err != nil {
		return nil, err
	}
	return r, db.Close()
}

// ask looks keys up, all of them once or until the deadline.
func ask(ctx context.Context, db *shale.DB, keys [][]byte, absent bool, deadline time.Time) (int, error) {
	for i, key := range keys {
		if i%256 == 0 {
			if time.Now().After(deadline) {
				return i, nil
			}
			if err := ctx.Err(); err != nil {
				return i, err
			}
		}
		found, err := db.Has(key)
		if err != nil {
			return i, err
		}
		if found == absent {
			return i, fmt.Errorf("wrong answer: Has(%q) = %v", key, found)
		}
	}
	return len(keys), nil
}

// warmUp asks until the cache has what it can hold.
func warmUp(ctx context.Context, db *shale.DB, c cell, keys [][]byte, limit time.Duration) error {
	if c.CacheSize > 0 && c.Cache == "all" {
		for _, err := range db.Scan(shale.Range{}) { // every block once
			if err != nil {
				return err
			}
		}
	}
	// Absent keys that are asked for twice are remembered; so the warm-up
	// asks for other keys than the measurement: the last ones, backwards.
	part := keys[len(keys)-len(keys)/5:]
	_, err := ask(ctx, db, part, c.Absent, time.Now().Add(limit))
	return err
}

// shuffle orders keys at random, so that neighbours do not share blocks.
func shuffle(keys [][]byte) [][]byte {
	rand.New(rand.NewPCG(3, 4)).Shuffle(len(keys), func(i, j int) { keys[i], keys[j] = keys[j], keys[i] })
	return keys
}

// skewed draws keys by a law of Zipf with an exponent of 1.1: of ten thousand
// keys the first gets a seventh of the questions, as popular names do.
func skewed(keys [][]byte) [][]byte {
	r := rand.New(rand.NewPCG(5, 6))
	zipf := rand.NewZipf(r, 1.1, 1, uint64(len(keys)-1))
	drawn := make([][]byte, 2*len(keys))
	for i := range drawn {
		drawn[i] = keys[zipf.Uint64()]
	}
	return drawn
}

// take fills in what the store counted.
func (r *result) take(m shale.Metrics, allocs uint64) {
	n := float64(max(r.Lookups, 1))
	r.LookupsPerSec = n / r.Seconds
	r.Nanos = r.Seconds * 1e9 / n
	r.BlockReads = m.BlockReads
	r.BlocksPerLookup = float64(m.CacheMisses+m.CacheHits) / n
	r.ReadsPerLookup = float64(m.BlockReads) / n
	r.BytesPerLookup = float64(m.BlockReadBytes) / n
	r.FilterMemory = m.FilterMemory
	r.PredictedFPR = m.PredictedFPR()
	if r.Absent {
		all := float64(m.FilterFalsePositive + m.FalsePositivesRemembered)
		r.MeasuredFPR = all / n
		r.Remembered = float64(m.FalsePositivesRemembered) / max(all, 1)
	}
	r.Allocs = float64(allocs) / n
	r.Preads, r.DeviceBytes = -1, -1
}

// compare holds the store's counts against what was asked of it, and against
// the operating system's: every block read is one pread and there is no other.
func (r *result) compare(gets uint64, before, after procIO) error {
	if gets != uint64(r.Lookups) {
		return fmt.Errorf("%d lookups were made, the store counted %d", r.Lookups, gets)
	}
	if !before.known || !after.known {
		return nil
	}
	r.Preads = after.reads - before.reads - 1 // reading the count is a read too
	r.DeviceBytes = after.deviceBytes - before.deviceBytes
	// The runtime may read a few times on its own account.
	if slack := int64(64); r.Preads < int64(r.BlockReads) || r.Preads > int64(r.BlockReads)+slack {
		return fmt.Errorf("the store counted %d block reads, the operating system %d read calls", r.BlockReads, r.Preads)
	}
	return nil
}

// dropCaches takes the store's files out of the page cache and checks that
// they are.
func dropCaches(dir string) error {
	names, err := vfs.Default.List(dir)
	if err != nil {
		return err
	}
	for _, name := range names {
		if !strings.HasSuffix(name, ".sst") {
			continue
		}
		if err := dropFile(filepath.Join(dir, name)); err != nil {
			return fmt.Errorf("drop %s from the page cache: %w", name, err)
		}
	}
	return nil
}

func dropFile(path string) error {
	f, err := vfs.Default.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	if err := vfs.DropCache(f); err != nil {
		return err
	}
	resident, total, err := vfs.ResidentPages(f)
	if err != nil {
		return err
	}
	if resident > 0 { // a file system in memory drops nothing
		return fmt.Errorf("%d of %d pages are still there: %w", resident, total, vfs.ErrUnsupported)
	}
	return nil
}
