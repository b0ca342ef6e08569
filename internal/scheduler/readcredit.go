package scheduler

import (
	"sync/atomic"

	"github.com/shaledb/shale/compaction"
	"github.com/shaledb/shale/manifest"
)

// A store that is only written lets level 0 grow to a dozen runs, because each
// compaction of many runs saves several of few runs. But a lookup asks the filter of
// each run of level 0, and a seek, which filters do not help, reads each of them. So
// what reads spend there in vain is credited to a compaction that would spare it.
// Only lookups and seeks count, and not the steps of an iterator that follow a seek.

// A ReadCredit counts the bytes that reads have earned for a compaction of level 0.
//
// Cursors credit each seek. Point lookups are too many to share a counter. For its
// metrics the store counts them by level, in stripes, if they asked a level in vain.
// ReadsPay looks at these counts now and then.
type ReadCredit struct {
	// Seeks is what seeks have earned since ForgetReads.
	Seeks atomic.Int64
	// Price is the credit in bytes at which a compaction pays for itself,
	// or MaxInt64 if there is nothing to compact. Each pick sets it.
	Price atomic.Int64

	asked atomic.Uint64 // Env.Level0Asked when ForgetReads was called
}

// earned returns the credit of seeks and lookups since ForgetReads, in bytes.
func (s *Scheduler) earned() int64 {
	lookups := s.env.Level0Asked() - s.Reads.asked.Load()
	return s.Reads.Seeks.Load() + int64(lookups)*compaction.LookupCost
}

// ReadsPay reports whether the credit has reached the price, so that Pick has
// a compaction. It takes no lock.
func (s *Scheduler) ReadsPay() bool { return s.earned() >= s.Reads.Price.Load() }

// ForgetReads begins another credit, because level 0 has changed or because the
// compaction that was paid for begins.
func (s *Scheduler) ForgetReads() {
	s.Reads.asked.Store(s.env.Level0Asked())
	s.Reads.Seeks.Store(0)
}

// SameLevel0 reports whether two versions have the same runs in level
// 0. It compares the number of runs and the newest one. That is enough,
// because runs are added as the newest and removed as the oldest.
func SameLevel0(a, b *manifest.Version) bool {
	x, y := a.Levels[0].Runs, b.Levels[0].Runs
	return a == b || len(x) == len(y) && (len(x) == 0 || x[0].ID == y[0].ID)
}
