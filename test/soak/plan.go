package main

import (
	"math"
	"math/rand/v2"
	"time"

	"github.com/shaledb/shale"
)

// An order is what the parent tells a child.
type order struct {
	Dir  string // holds the store and all files of the run
	Seed uint64
	Life int
	Last bool // the run ends with this life: one short session, and all checks at its end
}

// A plan is how a life goes, as the seed has it.
type plan struct {
	after time.Duration // from its start to its end
	kill  bool          // or be told to end
}

// planOf returns the plan of a life.
func planOf(seed uint64, life int, limit time.Duration) plan {
	r := rand.New(rand.NewPCG(mix(seed, uint64(life)), 'p'))
	p := plan{kill: true}
	switch n := r.IntN(20); {
	case n < 5: // in Open, or soon after
		p.after = between(r, time.Millisecond, 300*time.Millisecond)
	case n < 13:
		p.after = between(r, 200*time.Millisecond, 15*time.Second)
	case n < 18:
		p.after, p.kill = between(r, 2*time.Second, 20*time.Second), false
	default: // long enough for a leak to show
		p.after, p.kill = between(r, 80*time.Second, 5*time.Minute), r.IntN(2) == 0
	}
	p.after = min(p.after, limit)
	return p
}

// between chooses a duration: short and long ones are equally likely.
func between(r *rand.Rand, lo, hi time.Duration) time.Duration {
	return time.Duration(float64(lo) * math.Pow(float64(hi)/float64(lo), r.Float64()))
}

func oneOf[T any](r *rand.Rand, values ...T) T { return values[r.IntN(len(values))] }

// optionsOf chooses the options of a session, but for its file system: all that
// there are, apart from some that its test lists.
func optionsOf(r *rand.Rand) shale.Options {
	o := shale.Options{
		Durability:        oneOf(r, shale.SyncManual, shale.SyncManual, shale.SyncPeriodic, shale.SyncEach),
		SyncEvery:         between(r, time.Millisecond, time.Second),
		MemtableSize:      16 << 10 << r.IntN(9), // to 4 MiB
		TableSize:         16 << 10 << r.IntN(8), // to 2 MiB
		BlockSize:         256 << r.IntN(8),      // to 32 KiB
		CacheSize:         oneOf[int64](r, -1, 1, 64<<10, 1<<20, 8<<20),
		FilterBits:        oneOf[float64](r, -1, 1, 5, 10, 10, 20),
		FilterHash:        oneOf(r, shale.Murmur3, shale.XXH3, shale.SipHash),
		LastLevelFilter:   oneOf(r, shale.BlockedFilter, shale.FuseFilter),
		FilterPrefix:      oneOf(r, shale.PrefixRule{}, shale.FixedPrefix(2), shale.FixedPrefix(6), shale.DelimitedPrefix('0', 2)),
		MaxOpenFiles:      oneOf(r, 16, 100, 1000),
		CompactionWorkers: 1 + r.IntN(3),
		Compression:       oneOf(r, shale.Snappy, shale.NoCompression, shale.Zstd),
		LockTimeout:       10 * time.Second,
	}
	if r.IntN(5) == 0 {
		o.FilterMemory = 4 << 10 << r.IntN(6)
	}
	if r.IntN(12) == 0 {
		o.MemtableSize, o.CompactionWorkers = 4<<20, -1 // nothing keeps the runs few
	}
	return o
}
