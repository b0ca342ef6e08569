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

// openOrRead opens the store for a command that reads. If the store can't be opened because it
// is damaged, openOrRead returns what the manifest states about it.
func (s *Session) openOrRead(c *Command) (*folder, error) {
	err := s.OpenFor(c.Title, Reads)
	if !isDamage(err) {
		return nil, err
	}
	fmt.Fprintf(s.Notes, "shale: %s; what the manifest says is shown\n", plain(err))
	return s.lookInto()
}

func levelsCommand() *Command {
	c := newCommand("levels", needsNothing, "the levels of the tree", "Prints a line for each level that has tables, and one for the memtables.")
	return c.does(func(_ context.Context, s *Session, _ []Word) (Status, error) {
		f, err := s.openOrRead(c)
		if err != nil {
			return Failed, err
		}
		g := output.NewGrid("level", ">runs", ">tables", ">size", ">entries", ">deletions", ">filters", ">bits/key")
		if f != nil {
			for i := range f.version().Levels {
				if t := f.version().Totals(i); t.Tables > 0 {
					g.Row(levelName(i), len(f.version().Levels[i].Runs), t.Tables, output.SizeCell(t.Bytes), t.Entries, t.Tombstones,
						output.SizeCell(t.FilterBytes), bits(8*float64(t.FilterBytes)/float64(max(t.Keys, 1))))
				}
			}
			return Absent, s.Show(g)
		}
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

func tablesCommand() *Command {
	c := newCommand("tables [LEVEL]", needsNothing, "the tables, with their key ranges",
		"Prints a line for each table, or for each table of one level. The newest run of a level is run 0, and comes first.")
	return c.does(func(_ context.Context, s *Session, words []Word) (Status, error) {
		f, err := s.openOrRead(c)
		if err != nil {
			return Failed, err
		}
		list, err := s.tablesOf(words, f)
		if err != nil {
			return Failed, err
		}
		g := output.NewGrid("level", ">run", ">table", ">size", ">entries", ">deletions", "keys")
		for _, t := range list {
			g.Row(levelName(t.Level), t.Run, tableName(t.Number), output.SizeCell(t.Size), t.Entries,
				t.Tombstones, output.KeysCell(t.Smallest, t.Largest))
		}
		return foundIf(len(list) > 0 && f == nil), s.Show(g)
	})
}

func levelName(level int) string      { return fmt.Sprintf("L%d", level) }
func tableName(number uint64) string  { return fmt.Sprintf("%06d", number) }
func bits(perKey float64) output.Cell { return output.FloatCell("%.1f", perKey) }

// awaitLoaded waits until the filters are in memory that Open has left for later, so that a command
// shows all of them.
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
// no word. If f is not nil, it takes the tables from f, because the store can't be opened.
func (s *Session) tablesOf(words []Word, f *folder) ([]shale.TableInfo, error) {
	var all []shale.TableInfo
	if f == nil {
		all = s.DB.Tables()
	} else {
		for _, p := range f.places() {
			all = append(all, p.info())
		}
	}
	if len(words) == 0 {
		return all, nil
	}
	text := words[0].Text
	level, err := strconv.Atoi(strings.TrimPrefix(text, "L"))
	if err != nil || level < 0 || level >= shale.NumLevels {
		return nil, fmt.Errorf("%s is not a level; levels are 0 to %d", output.Quote(text), shale.NumLevels-1)
	}
	var list []shale.TableInfo
	for _, t := range all {
		if t.Level == level {
			list = append(list, t)
		}
	}
	return list, nil
}

func measured(p float64, asked uint64) output.Cell {
	if asked == 0 {
		return output.NoCell("-")
	}
	return output.PercentCell(p)
}
