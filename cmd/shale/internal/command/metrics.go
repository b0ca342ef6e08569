package command

import (
	"context"
	"fmt"
	"strings"

	"github.com/shaledb/shale"
	"github.com/shaledb/shale/cmd/shale/internal/output"
	"github.com/shaledb/shale/internal/base"
	"github.com/shaledb/shale/internal/monitor"
)

// metricsCommand shows the counters of this program's handle. They begin at 0 when the store is opened,
// so they say most at a prompt or in a script. What another program does with the store only that
// program knows: debug.Handler shows it.
func metricsCommand() *Command {
	c := newCommand("metrics", Reads, "the counters since the store was opened", `
Prints the levels and the memory, and what was counted since this program opened the store: lookups, answers of
filters, blocks, and writes. So a command of its own has counted nothing, and another program counts for itself: ask this in
a script or at a prompt, and that program by debug.Handler. In json, jsonl and csv the names are those of its page
/metrics. At a prompt, a command that writes opens the store for itself, so its writes are not counted.`)
	return c.does(func(ctx context.Context, s *Session, _ []Word) (Status, error) {
		if err := s.awaitLoaded(ctx); err != nil {
			return Failed, err
		}
		state, err := monitor.StateOf(s.DB)
		if err != nil {
			return Failed, err
		}
		if !s.AsText() {
			return Found, s.showCounters(state)
		}
		m := state.Metrics
		if err := s.Show(levelRates(&m)); err != nil {
			return Failed, err
		}
		// The table of String is as wide as it is, and that of the grid as wide as the terminal.
		_, rest, _ := strings.Cut(m.String(), "\nmemtables:")
		fmt.Fprint(s.Out, s.wrapped("memtables:"+rest))
		if s.Mode == oneShot {
			s.remark("The counters are those of this command, which has only just opened the store.\n")
		}
		// Metrics prints counters. The two lines below are what they add up to for somebody who
		// wonders whether cache and filters are worth their memory.
		if asked := m.CacheHits + m.CacheMisses; asked > 0 {
			s.remark("hits: %s of lookups, %s of blocks in the cache\n", share(m.GetHits, m.Gets), share(m.CacheHits, asked))
		}
		if m.FilterNegative > 0 {
			// This assumes that blocks that were not read have the average size.
			saved := ""
			if m.BlockReads > 0 {
				saved = ", about " + base.FormatBytes(int64(float64(m.BlockReadBytes)/float64(m.BlockReads)*float64(m.FilterNegative)))
			}
			s.remark("filters saved %s of blocks%s\n", output.Plural(int(m.FilterNegative), "read"), saved)
		}
		return Found, nil
	})
}

// levelRates has a row for each level that has tables, with what its filters promise and do.
func levelRates(m *shale.Metrics) *output.Grid {
	g := output.NewGrid("level", ">runs", ">tables", ">size", ">entries", ">filters", ">bits/key", ">FPR predicted", ">measured")
	for _, l := range m.Levels {
		if l.Tables > 0 {
			g.Row(levelName(l.Level), l.Runs, l.Tables, output.SizeCell(l.Bytes), l.Entries, output.SizeCell(l.FilterBytes),
				bits(l.FilterBits), output.PercentCell(l.PredictedFPR), measured(l.MeasuredFPR, l.FilterAsked))
		}
	}
	return g
}

// share returns part as a percentage of all.
func share(part, all uint64) string {
	if all == 0 {
		return "-"
	}
	return base.FormatPercent(float64(part) / float64(all))
}
