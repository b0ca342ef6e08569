package command

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/shaledb/shale"
	"github.com/shaledb/shale/cmd/shale/internal/output"
)

// levelsCommand shows the shape of the tree: how many runs a lookup has to look into, and where the
// bytes are.
func levelsCommand() *Command {
	c := newCommand("levels", Reads, "the levels of the tree", "Prints a line for each level that has tables, and one for the memtables. filters is their memory; in the tables they may be larger.")
	return c.does(func(ctx context.Context, s *Session, _ []Word) (Status, error) {
		if err := s.awaitLoaded(ctx); err != nil {
			return Failed, err
		}
		g := output.NewGrid("level", ">runs", ">tables", ">size", ">entries", ">deletions", ">filters", ">bits/key")
		// Memtables have no runs and tables, so these fields are empty.
		m := s.DB.Metrics()
		g.Row("memtables", "", "", output.SizeCell(m.MemtableBytes), m.MemtableEntries, "", "", "")
		for _, l := range m.Levels {
			if l.Tables > 0 {
				g.Row(levelName(l.Level), l.Runs, l.Tables, output.SizeCell(l.Bytes), l.Entries,
					l.Tombstones, output.SizeCell(l.FilterBytes), bits(l.FilterBits))
			}
		}
		return Found, s.Show(g)
	})
}

// These three are how levels, tables and bits a key are written everywhere: L6, 000012 and 10.0.
func levelName(level int) string      { return fmt.Sprintf("L%d", level) }
func tableName(number uint64) string  { return fmt.Sprintf("%06d", number) }
func bits(perKey float64) output.Cell { return output.FloatCell("%.1f", perKey) }

// awaitLoaded waits until the filters are in memory that Open has left for later, so that a command
// shows all of them.
//
// Open returns before all filters of a large store are read. Until then a table seems to have none.
func (s *Session) awaitLoaded(ctx context.Context) error {
	for s.DB.Metrics().Loading {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(10 * time.Millisecond):
		}
	}
	return nil
}

// tablesOf returns the tables of the level that the first word names, or all tables if there is
// no word.
func (s *Session) tablesOf(words []Word) ([]shale.TableInfo, error) {
	all := s.DB.Inspect().Tables()
	if len(words) == 0 {
		return all, nil
	}
	text := words[0].Text
	level, err := strconv.Atoi(strings.TrimPrefix(text, "L"))
	if err != nil || level < 0 || level >= shale.NumLevels {
		return nil, fmt.Errorf("%s is not a level; levels are L0 to L%d", output.Quote(text), shale.NumLevels-1)
	}
	var list []shale.TableInfo
	for _, t := range all {
		if t.Level == level {
			list = append(list, t)
		}
	}
	return list, nil
}

// measured returns a cell with a rate, or with none if nobody has asked: 0 % of nothing would look
// good.
func measured(p float64, asked uint64) output.Cell {
	if asked == 0 {
		return output.NoCell("-")
	}
	return output.PercentCell(p)
}
