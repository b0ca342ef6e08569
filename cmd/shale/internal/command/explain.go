package command

import (
	"context"
	"fmt"
	"strings"

	"github.com/shaledb/shale"
	"github.com/shaledb/shale/cmd/shale/internal/output"
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
filters, and the false positives that were to be expected. In json, jsonl and csv the last row, "all", has the
sums. Status 1 if the key is absent.

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
		if !s.AsText() {
			return foundIf(x.Found), s.showSteps(x)
		}
		g := output.NewGrid("where", "range", "filter", "blocks read", "time")
		for _, step := range x.Steps {
			where, span, verdict := step.Words()
			g.Row(where, span, output.In(verdictColour(step.Verdict), verdict), blocksRead(step.Blocks), step.Duration)
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

// verdictColour shows the place that has the key, and those that were read in vain.
func verdictColour(v shale.Verdict) output.Colour {
	switch v {
	case shale.Found:
		return output.Good
	case shale.FalsePositive, shale.NoFilter:
		return output.Bad
	}
	return ""
}

// showSteps prints the steps for a program: a row for each, and one with the sums, whose place is "all".
func (s *Session) showSteps(x shale.Explanation) error {
	g := output.NewGrid("where", ">level", ">run", ">table", "range", "filter", ">blocks read", ">bytes read", ">blocks cached", ">time",
		">expected false positives", ">measured FPR")
	none := output.NoCell("")
	number := func(there bool, n uint64) output.Cell {
		if !there {
			return none
		}
		return output.NumberCell(n)
	}
	var read, bytes, cached int64
	for _, step := range x.Steps {
		_, span, verdict := step.Words()
		var stepRead, stepBytes, stepCached int64
		for _, b := range step.Blocks {
			if b.Cached {
				stepCached++
			} else {
				stepRead, stepBytes = stepRead+1, stepBytes+b.Bytes
			}
		}
		read, bytes, cached = read+stepRead, bytes+stepBytes, cached+stepCached
		inTree := step.Level >= 0
		g.Row(step.Place, number(inTree, uint64(max(0, step.Level))), number(inTree, uint64(step.Run)), number(step.Table > 0, step.Table),
			wordOrNone(span), wordOrNone(verdict), stepRead, stepBytes, stepCached, step.Duration, none, none)
	}
	outcome := "not found"
	if x.Found {
		outcome = "found"
	}
	if x.RangeDelete != nil {
		g.Row("range delete", none, none, none, wordOrNone(x.RangeDelete.String()), none, none, none, none, none, none, none)
	}
	g.Row("all", none, none, none, none, outcome, read, bytes, cached, x.Duration,
		output.FloatCell("%g", x.ExpectedFalsePositives), output.FloatCell("%g", x.MeasuredFPR))
	return s.Show(g)
}

// wordOrNone returns a cell with a word of a step, whose dash stands for what does not apply.
func wordOrNone(text string) output.Cell {
	if text == "-" {
		return output.NoCell(text)
	}
	return output.Cell{Text: text}
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
