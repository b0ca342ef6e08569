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
//
// Next to a busy writer no interval between two flushes is long enough to earn that price.
// So the credit of such an interval is also compared with the size of a memtable. If it is
// larger, level 0 is due at a few runs for the next interval: see compaction.Options.ManyReads.
// More runs earn more credit, so the fewer reads there are for each write, the later that happens.

// A ReadCredit counts the bytes that reads have earned for a compaction of level 0, or of the
// levels below it once it is empty.
//
// Cursors credit each seek. Point lookups are too many to share a counter. For its
// metrics the store counts them by level, in stripes, if they asked a level in vain.
// ReadsPay looks at these counts now and then.
type ReadCredit struct {
	// Seeks is what seeks have earned since ForgetReads.
	Seeks atomic.Int64
	// Near is a table into which a seek has looked that earned credit: see
	// compaction.PickOftenRead.
	Near atomic.Pointer[manifest.Table]
	// Price is the credit in bytes at which a compaction pays for itself,
	// or MaxInt64 if there is nothing to compact. Each pick sets it.
	Price atomic.Int64

	// Many reports whether reads have earned as much as a memtable's bytes in the last
	// interval between two flushes.
	Many atomic.Bool

	asked     atomic.Uint64 // Env.Level0Asked when ForgetReads was called
	forgotten atomic.Int64  // what ForgetReads has forgotten since the last flush
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
	s.Reads.forgotten.Add(s.earned())
	s.Reads.asked.Store(s.env.Level0Asked())
	s.Reads.Seeks.Store(0)
}

// Level0Changed takes notice of a version whose level 0 is not that of the version before it.
func (s *Scheduler) Level0Changed(old, next *manifest.Version) {
	if sameLevel0(old, next) {
		return
	}
	// What reads have earned was for compacting another level 0.
	s.ForgetReads()
	if newest(next) > newest(old) {
		s.Reads.Many.Store(s.Reads.forgotten.Swap(0) >= s.env.Options().MemtableSize)
	}
}

// newest returns the number of the newest run of level 0, or 0 if it is empty.
func newest(v *manifest.Version) uint64 {
	if runs := v.Levels[0].Runs; len(runs) > 0 {
		return runs[0].ID
	}
	return 0
}

// sameLevel0 reports whether two versions have the same runs in level
// 0. It compares the number of runs and the newest one. That is enough,
// because runs are added as the newest and removed as the oldest.
func sameLevel0(a, b *manifest.Version) bool {
	x, y := a.Levels[0].Runs, b.Levels[0].Runs
	return a == b || len(x) == len(y) && (len(x) == 0 || x[0].ID == y[0].ID)
}
