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

// A result is what a cell measured.
type result struct {
	cell
	Counts
	Allocs float64 `json:"allocs_per_lookup"`
}

// measure opens the store as the cell says and asks for the keys, all of them or as
// many as the time allows. It checks the answers and the counts.
func measure(ctx context.Context, l *loaded, c cell, keys [][]byte, limit time.Duration) (*result, error) {
	bits := l.bits // fewer bits than the filters have would limit their memory
	if !c.Filters {
		bits = -1
	}
	db, err := shale.Open(l.dir, &shale.Options{FS: vfs.Unmapped, ReadOnly: true, CacheSize: c.CacheSize, FilterBits: bits})
	if err != nil {
		return nil, err
	}
	defer db.Close()
	if !c.Cold && !c.Skewed {
		if err := warmUp(ctx, db, c, keys, limit/2); err != nil {
			return nil, err
		}
	} else if c.Cold {
		if err := DropCaches(l.dir); err != nil {
			return nil, err
		}
	}
	runtime.GC()
	counter := StartCounting(db)
	var mem runtime.MemStats
	runtime.ReadMemStats(&mem)
	mallocs := mem.Mallocs
	begin := time.Now()
	lookups, err := ask(ctx, db, keys, c.Absent, begin.Add(limit))
	if err != nil {
		return nil, err
	}
	took := time.Since(begin)
	runtime.ReadMemStats(&mem)
	r := &result{cell: c, Allocs: float64(mem.Mallocs-mallocs) / float64(max(lookups, 1))}
	if r.Counts, _, err = counter.Stop(lookups, took, c.Absent); err != nil {
		return nil, err
	}
	return r, db.Close()
}

// ask looks each key up once, until the deadline. It returns how many it asked for.
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

// warmUp fills the block cache.
func warmUp(ctx context.Context, db *shale.DB, c cell, keys [][]byte, limit time.Duration) error {
	if c.CacheSize > 0 && c.Cache == "all" {
		for _, err := range db.Scan(shale.Range{}) { // every block once
			if err != nil {
				return err
			}
		}
	}
	// The store remembers false positives. So the warm-up asks for the last keys,
	// which the measurement reaches late or never.
	part := keys[len(keys)-len(keys)/5:]
	_, err := ask(ctx, db, part, c.Absent, time.Now().Add(limit))
	return err
}

// Shuffle puts keys into a random order, the same each time, so that neighbours do not
// share blocks.
func Shuffle(keys [][]byte) [][]byte {
	rand.New(rand.NewPCG(3, 4)).Shuffle(len(keys), func(i, j int) { keys[i], keys[j] = keys[j], keys[i] })
	return keys
}

// Skewed draws keys from a Zipf distribution with an exponent of 1.1: of ten thousand
// keys the first gets a seventh of the lookups.
func Skewed(keys [][]byte) [][]byte {
	r := rand.New(rand.NewPCG(5, 6))
	zipf := rand.NewZipf(r, 1.1, 1, uint64(len(keys)-1))
	drawn := make([][]byte, 2*len(keys))
	for i := range drawn {
		drawn[i] = keys[zipf.Uint64()]
	}
	return drawn
}

// DropCaches takes the tables of the store in dir out of the page cache, and checks
// that they are out. The error is vfs.ErrUnsupported where the system can't do that.
func DropCaches(dir string) error {
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
	// On a busy machine one page of a file may stay for a millisecond, so one attempt says nothing.
	// A file system in memory keeps all of them for good.
	for begin := time.Now(); ; time.Sleep(time.Millisecond) {
		if err := vfs.DropCache(f); err != nil {
			return err
		}
		resident, total, err := vfs.ResidentPages(f)
		if err != nil || resident == 0 {
			return err
		}
		if time.Since(begin) > time.Second {
			return fmt.Errorf("%d of %d pages are still there: %w", resident, total, vfs.ErrUnsupported)
		}
	}
}
