package main

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/shaledb/shale"
)

func explain(_ context.Context, s *session, a arguments) (status, error) {
	x, err := s.db.Explain(a.key(0))
	if err != nil {
		return failed, err
	}
	fmt.Fprint(s.out, x)
	return foundIf(x.Found), nil
}

func metrics(_ context.Context, s *session, _ arguments) (status, error) {
	m := s.db.Metrics()
	fmt.Fprint(s.out, m)
	if m.FilterNegative > 0 {
		fmt.Fprintf(s.out, "filters saved %s of blocks\n", plural(int(m.FilterNegative), "read"))
	}
	return found, nil
}

func levels(_ context.Context, s *session, _ arguments) (status, error) {
	m := s.db.Metrics()
	g := newGrid("level", ">runs", ">tables", ">size", ">entries", ">deletions", ">filters", ">bits/key")
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
	list, err := s.tablesOf(a)
	if err != nil {
		return failed, err
	}
	g := newGrid("level", ">run", ">table", ">size", ">entries", ">deletions", "keys")
	for _, t := range list {
		g.row(levelName(t.Level), t.Run, tableName(t.Number), sizeCell(t.Size), t.Entries,
			t.Tombstones, keysCell(t.Smallest, t.Largest))
	}
	return foundIf(len(list) > 0), s.show(g)
}

func filters(_ context.Context, s *session, a arguments) (status, error) {
	list, err := s.tablesOf(a)
	if err != nil {
		return failed, err
	}
	g := newGrid("level", ">table", "kind", "in", ">bits/key", ">memory", ">predicted FPR", ">measured")
	listed := map[int]bool{}
	for _, t := range list {
		listed[t.Level] = true
	}
	for _, l := range s.db.Metrics().Levels {
		if listed[l.Level] {
			g.row(levelName(l.Level), "all", "", "", bits(l.FilterBits), sizeCell(l.FilterBytes),
				percentCell(l.PredictedFPR), measured(l.MeasuredFPR, l.FilterAsked))
		}
	}
	for _, t := range list {
		g.row(levelName(t.Level), tableName(t.Number), t.FilterKind, filterPlace(t), bits(t.FilterBits), sizeCell(t.FilterBytes),
			percentCell(t.PredictedFPR), measured(t.MeasuredFPR, t.Asked))
	}
	return foundIf(len(list) > 0), s.show(g)
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
func bits(perKey float64) string     { return fmt.Sprintf("%.1f", perKey) }

// tablesOf returns the tables of the level that the first word names, else all.
func (s *session) tablesOf(a arguments) ([]shale.TableInfo, error) {
	all := s.db.Tables()
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

// shortKey is how many characters of a key a table shows.
const shortKey = 32

// short returns a key as a word, cut if it is long.
func short(key []byte) string {
	text := quote(key)
	if utf8.RuneCountInString(text) <= shortKey {
		return text
	}
	return string([]rune(text)[:shortKey-1]) + "…"
}

func measured(p float64, asked uint64) cell {
	if asked == 0 {
		return noCell("-")
	}
	return percentCell(p)
}
