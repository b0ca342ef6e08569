package shale

import (
	"math"

	"github.com/shaledb/shale/compaction"
)

// This file has what cursors report of their seeks, so that runs that cost many of them a look are merged.

const (
	// cachedSeekCost takes the place of compaction.SeekCost if the block was cached. Each further
	// run costs a seek and the steps after it 0.2 to 1 µs then, in which time a compaction handles
	// 45 to 250 bytes. It counts about 16 times as much, for the reason that compaction.LookupCost gives.
	cachedSeekCost = compaction.SeekCost / 8

	// seeksAtOnce is how many seeks of a cursor are credited together.
	seeksAtOnce = 64
)

// countSeek counts a movement that goes to another place, such as a seek: it has looked into
// every run. Steps to the next entry do not count. Filters can't help a seek, so each spare run
// costs it a look; creditSeeks adds these up.
func (c *cursor) countSeek() {
	c.stretch.wait, c.stretch.pause = seekPause, 1
	if c.wasted == 0 {
		return
	}
	for _, s := range c.runs[:c.nruns] {
		if s.spare {
			c.misses += s.table.TakeMisses()
		}
	}
	if c.seeks++; c.seeks == seeksAtOnce {
		c.creditSeeks()
	}
}

// creditSeeks credits the scheduler with what the seeks since the last call would have saved
// after compactions of the spare runs. When the credit reaches the price of such a compaction, it wakes
// the scheduler. Seeks are reported in groups, since the credit is one cache line for all
// cursors.
func (c *cursor) creditSeeks() {
	looks := int64(c.seeks) * int64(c.wasted)
	misses := min(int64(c.misses), looks)
	c.seeks, c.misses = 0, 0
	credit := &c.db.scheduler.Reads
	price := credit.Price.Load()
	now := c.db.mems.View()
	if price == math.MaxInt64 || now == nil || c.view.Meta != now.Meta {
		return // an iterator that is older than a compaction gains by none
	}
	if s := c.runs[0]; s.spare {
		if at := s.concat.Table(); at >= 0 {
			credit.Near.Store(s.tables[at].Meta)
		}
	}
	if credit.Seeks.Add(misses*compaction.SeekCost+(looks-misses)*cachedSeekCost) >= price {
		c.db.scheduler.Nudge()
	}
}
