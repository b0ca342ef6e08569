package command

import (
	"context"
	"fmt"
	"strings"

	"github.com/shaledb/shale"
	"github.com/shaledb/shale/bloom"
	"github.com/shaledb/shale/cmd/shale/internal/output"
	"github.com/shaledb/shale/internal/base"
	"github.com/shaledb/shale/manifest"
	"github.com/shaledb/shale/sstable"
)

// explainCommand performs a get and shows each place where it looked.
func explainCommand() *Command {
	c := newCommand("explain KEY", Reads, "print how a get of a key goes: filters, blocks, time", `
Performs the get and prints each memtable, run and table that it looked at or passed over, what the
filter said there, and the blocks that were read. Below: what was read in all, the false positives that were
to be expected, and what reading the same tables without filters takes. Status 1 if the key is absent.`)
	c.keys = 1
	return c.does(func(_ context.Context, s *Session, words []Word) (Status, error) {
		x, err := s.DB.Explain(words[0].bytes())
		if err != nil {
			return Failed, err
		}
		g := output.NewGrid("where", "range", "filter", "blocks read", "time")
		for _, step := range x.Steps {
			where, span, verdict := step.Words()
			g.Row(where, span, verdict, blocksRead(step.Blocks), output.Cell{Text: output.Took(step.Duration), Raw: step.Duration.Seconds()})
		}
		if err := s.Show(g); err != nil {
			return Failed, err
		}
		s.remark("%s%s", x.Summary(), s.withoutFilters(&x))
		return foundIf(x.Found), nil
	})
}

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

// withoutFilters repeats the get in the same tables, but without their filters, and returns
// what it had to read. It returns "" if there is no table, or if one of them was removed
// meanwhile.
func (s *Session) withoutFilters(x *shale.Explanation) string {
	blocks, bytes := 0, int64(0)
	f, err := s.lookInto()
	if err != nil {
		return ""
	}
	named := map[uint64]*manifest.Table{}
	for _, p := range f.places() {
		named[uint64(p.table.Num)] = p.table
	}
	hash := bloom.Hash(x.Key)
	for _, step := range x.Steps {
		if step.Table == 0 || step.Verdict == shale.Skipped {
			continue
		}
		t := named[step.Table]
		if t == nil {
			return ""
		}
		r, release, err := f.reader(t)
		if err != nil {
			return ""
		}
		var v sstable.Value
		var trace sstable.Trace
		found, err := r.Get(x.Key, hash, base.MaxSeq, &v, &trace)
		if found {
			v.Release()
		}
		release()
		if err != nil {
			return ""
		}
		for _, b := range trace.Reads {
			blocks++
			bytes += b.Bytes
		}
	}
	if blocks == 0 {
		return ""
	}
	used := 0
	for _, step := range x.Steps {
		used += len(step.Blocks)
	}
	return fmt.Sprintf("the same tables read without asking filters: %s, %s; filters saved %s\n",
		output.Plural(blocks, "block"), base.FormatBytes(bytes), output.Plural(max(blocks-used, 0), "block"))
}
