package shale

import (
	"math"
	"sync/atomic"

	"github.com/shaledb/shale/compaction"
	"github.com/shaledb/shale/internal/base"
	"github.com/shaledb/shale/manifest"
)

// A seek looks into every run of level 0, since no filter tells it where the next
// key is. Flushes alone leave some runs there for ever, so what seeks waste on
// them is credited to the compaction that would spare them that. Only seeks
// count, not the steps after them.

const (
	// cachedSeekCost is compaction.SeekCost where the block was cached. A run
	// more costs a seek 0.2 µs then, the time of a compaction for 45 bytes.
	cachedSeekCost = compaction.SeekCost / 256

	// seeksAtOnce is how many seeks of a cursor are credited together.
	seeksAtOnce = 64
)

// A seekCredit counts the bytes that seeks would have saved in a better shaped tree.
type seekCredit struct {
	// earned is bytes, since level 0 changed or a compaction was started for them.
	earned atomic.Int64
	// price is the credit at which a compaction pays for itself, or MaxInt64 if
	// there is nothing to compact. Each pick sets it.
	price atomic.Int64
}

// spend says that a compaction for the seeks begins.
func (s *seekCredit) spend() {
	s.price.Store(math.MaxInt64)
	s.earned.Store(0)
}

// countSeek counts a movement that positioned anew.
func (c *cursor) countSeek() {
	if c.wasted == 0 {
		return
	}
	for _, s := range c.runs[:c.wasted] {
		c.misses += s.table.TakeMisses()
	}
	if c.seeks++; c.seeks == seeksAtOnce {
		c.creditSeeks()
	}
}

// creditSeeks tells the store of the seeks since the last time.
func (c *cursor) creditSeeks() {
	looks := int64(c.seeks) * int64(c.wasted)
	misses := min(int64(c.misses), looks)
	c.seeks, c.misses = 0, 0
	credit := &c.db.scheduler.seeks
	price := credit.price.Load()
	now := c.db.view.Load()
	if price == math.MaxInt64 || now == nil || !sameLevel0(c.view.Meta, now.Meta) {
		return // an iterator that is older than a compaction gains by none
	}
	if credit.earned.Add(misses*compaction.SeekCost+(looks-misses)*cachedSeekCost) >= price {
		base.Wake(c.db.scheduler.wake)
	}
}

// sameLevel0 tells whether two versions have the same runs in level 0: these come
// as the newest and go as the oldest.
func sameLevel0(a, b *manifest.Version) bool {
	x, y := a.Levels[0].Runs, b.Levels[0].Runs
	return a == b || len(x) == len(y) && (len(x) == 0 || x[0].ID == y[0].ID)
}
