package command

import (
	"context"
	"fmt"
	"strings"

	"github.com/shaledb/shale"
	"github.com/shaledb/shale/cmd/shale/internal/output"
	"github.com/shaledb/shale/internal/base"
)

// explainCommand performs a get and shows each place where it looked.
//
// The texts of a step and the sums below come from package shale, which debug shows in a browser
// too.
//
// For example, of an absent key in a store of one table:
//
//	where       range   filter          blocks read  time
//	memtable    -       definitely not  -            0.4 µs
//	L6 #000006  inside  definitely not  -            0.2 µs
func explainCommand() *Command {
	var versions bool
	c := newCommand("explain KEY", Reads, "print how a get of a key goes: filters, blocks, time", `
Performs the get and prints each memtable, run and table that it looked at or passed over, what the
filter said there, and the blocks that were read. Below: what was read in all, what it would take without
filters, and the false positives that were to be expected. Status 1 if the key is absent.

With --versions it searches every log, the range deletes of the manifest, and every table that it names, whatever
their filters say, and counts what they would say. It does not open the store, which may be damaged, or open in another
program.`)
	c.keys, c.late = 1, true
	c.flag(&versions, "versions", "all versions of the key in all files, and which of them a get sees")
	return c.does(func(ctx context.Context, s *Session, words []Word) (Status, error) {
		if versions {
			return s.versions(ctx, words[0].bytes())
		}
		if err := s.openLate(c); err != nil {
			return Failed, err
		}
		// Explain does the get once and counts like any other, so it also warms the cache.
		x, err := s.DB.Inspect().Explain(words[0].bytes())
		if err != nil {
			return Failed, err
		}
		g := output.NewGrid("where", "range", "filter", "blocks read", "time")
		for _, step := range x.Steps {
			where, span, verdict := step.Words()
			g.Row(where, span, verdict, blocksRead(step.Blocks), output.Cell{Text: base.FormatDuration(step.Duration), Raw: step.Duration.Seconds()})
		}
		if err := s.Show(g); err != nil {
			return Failed, err
		}
		if x.RangeDelete != nil {
			s.remark("covered by %v\n", x.RangeDelete)
		}
		s.remark("%s", x.Summary())
		return foundIf(x.Found), nil
	})
}

// blocksRead lists the blocks of one step: what they are, how large, and whether they came from the
// disk.
func blocksRead(list []shale.BlockRead) string {
	if len(list) == 0 {
		return "-"
	}
	var parts []string
	for _, b := range list {
		from := "disk"
		if b.Cached {
			from = "cached"
		}
		parts = append(parts, fmt.Sprintf("%s %s B (%s)", b.Kind, output.Number(b.Bytes), from))
	}
	return strings.Join(parts, ", ")
}
