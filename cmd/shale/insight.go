package main

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/shaledb/shale"
)

// openOrRead opens the store for a command that reads. If it does not open
// because it is damaged, it returns what the manifest says of it.
func (s *session) openOrRead(name string) (*folder, error) {
	err := s.open(&command{name: name, access: reads})
	if !isDamage(err) {
		return nil, err
	}
	fmt.Fprintf(s.notes, "shale: %s; shown is what the manifest says\n", plain(err))
	return s.lookInto()
}

func levels(_ context.Context, s *session, _ arguments) (status, error) {
	f, err := s.openOrRead("levels")
	if err != nil {
		return failed, err
	}
	g := newGrid("level", ">runs", ">tables", ">size", ">entries", ">deletions", ">filters", ">bits/key")
	if f != nil {
		for i := range f.version().Levels {
			if t := f.version().Totals(i); t.Tables > 0 {
				g.row(levelName(i), len(f.version().Levels[i].Runs), t.Tables, sizeCell(t.Bytes), t.Entries, t.Tombstones,
					sizeCell(t.FilterBytes), bits(8*float64(t.FilterBytes)/float64(max(t.Keys, 1))))
			}
		}
		return absent, s.show(g)
	}
	m := s.db.Metrics()
	g.row("memtables", "", "", sizeCell(m.MemtableBytes), m.MemtableEntries, "", "", "")
	for _, l := range m.Levels {
		if l.Tables > 0 {
			g.row(levelName(l.Level), l.Runs, l.Tables, sizeCell(l.Bytes), l.Entries,
				l.Tombstones, sizeCell(l.FilterBytes), bits(l.FilterBits))
		}
	}
	return found, s.show(g)
}

func tables(_ context.Context, s *session, a arguments) (status, error) {
	f, err := s.openOrRead("tables")
	if err != nil {
		return failed, err
	}
	list, err := s.tablesOf(a, f)
	if err != nil {
		return failed, err
	}
	g := newGrid("level", ">run", ">table", ">size", ">entries", ">deletions", "keys")
	for _, t := range list {
		g.row(levelName(t.Level), t.Run, tableName(t.Number), sizeCell(t.Size), t.Entries,
			t.Tombstones, keysCell(t.Smallest, t.Largest))
	}
	return foundIf(len(list) > 0 && f == nil), s.show(g)
}

// filterPlace tells which file a filter is in.
func filterPlace(t shale.TableInfo) string {
	if t.FilterFile == "" {
		return "table"
	}
	return t.FilterFile
}

func levelName(level int) string     { return fmt.Sprintf("L%d", level) }
func tableName(number uint64) string { return fmt.Sprintf("%06d", number) }
func bits(perKey float64) cell       { return floatCell("%.1f", perKey) }

// tablesOf returns the tables of the level that the first word names, else all.
// f, if it is not nil, stands for a store that does not open.
func (s *session) tablesOf(a arguments, f *folder) ([]shale.TableInfo, error) {
	var all []shale.TableInfo
	if f == nil {
		all = s.db.Tables()
	} else {
		for _, p := range f.places() {
			all = append(all, p.info())
		}
	}
	if len(a.words) == 0 {
		return all, nil
	}
	text := a.words[0].text
	level, err := strconv.Atoi(strings.TrimPrefix(text, "L"))
	if err != nil || level < 0 || level >= shale.NumLevels {
		return nil, fmt.Errorf("%s is no level; levels are 0 to %d", quote(text), shale.NumLevels-1)
	}
	var list []shale.TableInfo
	for _, t := range all {
		if t.Level == level {
			list = append(list, t)
		}
	}
	return list, nil
}

func measured(p float64, asked uint64) cell {
	if asked == 0 {
		return noCell("-")
	}
	return percentCell(p)
}
