package command

import (
	"context"
	"fmt"

	"github.com/shaledb/shale/cmd/shale/internal/output"
	"github.com/shaledb/shale/internal/base"
)

// metricsCommand shows the counters of this program's handle. They begin at 0 when the store is opened,
// so they say most at a prompt or in a script. What another program does with the store only that
// program knows: debug.Handler shows it.
func metricsCommand() *Command {
	c := newCommand("metrics", Reads, "the counters since the store was opened", `
Prints what was counted since this program opened the store: lookups, answers of filters, blocks, writes and
memory. At a prompt, a command that writes opens the store for itself, so its writes are not among them.`)
	return c.does(func(_ context.Context, s *Session, _ []Word) (Status, error) {
		m := s.DB.Metrics()
		if !s.AsText() {
			return Found, s.showCounters(m)
		}
		fmt.Fprint(s.Out, m)
		// Metrics prints counters. The two lines below are what they add up to for somebody who
		// wonders whether cache and filters are worth their memory.
		if asked := m.CacheHits + m.CacheMisses; asked > 0 {
			fmt.Fprintf(s.Out, "hits: %s of lookups, %s of blocks in the cache\n", share(m.GetHits, m.Gets), share(m.CacheHits, asked))
		}
		if m.FilterNegative > 0 {
			// This assumes that blocks that were not read have the average size.
			saved := ""
			if m.BlockReads > 0 {
				saved = ", about " + base.FormatBytes(int64(float64(m.BlockReadBytes)/float64(m.BlockReads)*float64(m.FilterNegative)))
			}
			fmt.Fprintf(s.Out, "filters saved %s of blocks%s\n", output.Plural(int(m.FilterNegative), "read"), saved)
		}
		return Found, nil
	})
}

// share returns part as a percentage of all.
func share(part, all uint64) string {
	if all == 0 {
		return "-"
	}
	return base.FormatPercent(float64(part) / float64(all))
}
