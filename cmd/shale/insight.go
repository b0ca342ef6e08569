package main

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"text/tabwriter"
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
	fmt.Fprint(s.out, s.db.Metrics())
	return found, nil
}

// grid returns a writer for rows whose cells end with tabs, flush right.
func (s *session) grid() *tabwriter.Writer {
	return tabwriter.NewWriter(s.out, 0, 0, 2, ' ', tabwriter.AlignRight)
}

func levels(_ context.Context, s *session, _ arguments) (status, error) {
	m := s.db.Metrics()
	w := s.grid()
	defer w.Flush()
	fmt.Fprintln(w, "level\truns\ttables\tsize\tentries\tdeletions\tfilters\tbits/key\t")
	fmt.Fprintf(w, "mem\t\t\t%s\t%d\t\t\t\t\n", bytesText(m.MemtableBytes), m.MemtableEntries)
	for _, l := range m.Levels {
		if l.Tables > 0 {
			fmt.Fprintf(w, "L%d\t%d\t%d\t%s\t%d\t%d\t%s\t%.1f\t\n", l.Level, l.Runs, l.Tables, bytesText(l.Bytes),
				l.Entries, l.Tombstones, bytesText(l.FilterBytes), l.FilterBits)
		}
	}
	return found, nil
}

func tables(_ context.Context, s *session, a arguments) (status, error) {
	list, err := s.tablesOf(a)
	if err != nil {
		return failed, err
	}
	w := s.grid()
	defer w.Flush()
	fmt.Fprintln(w, "level\trun\ttable\tsize\tentries\tdeletions\t\x00  keys")
	for _, t := range list {
		fmt.Fprintf(w, "L%d\t%d\t%06d\t%s\t%d\t%d\t\x00  %s … %s\n", t.Level, t.Run, t.Number, bytesText(t.Size), t.Entries, t.Tombstones,
			short(t.Smallest), short(t.Largest))
	}
	return foundIf(len(list) > 0), nil
}

func filters(_ context.Context, s *session, a arguments) (status, error) {
	list, err := s.tablesOf(a)
	if err != nil {
		return failed, err
	}
	w := s.grid()
	defer w.Flush()
	fmt.Fprintln(w, "level\ttable\tkind\tbits/key\tsize\tpredicted FPR\tmeasured\t")
	for _, l := range s.db.Metrics().Levels {
		if l.Tables == 0 || len(a.words) > 0 && fmt.Sprint(l.Level) != strings.TrimPrefix(a.words[0].text, "L") {
			continue
		}
		fmt.Fprintf(w, "L%d\tall\t\t%.1f\t%s\t%s\t%s\t\n", l.Level, l.FilterBits, bytesText(l.FilterBytes),
			percent(l.PredictedFPR), measured(l.MeasuredFPR, l.FilterAsked))
	}
	for _, t := range list {
		fmt.Fprintf(w, "L%d\t%06d\t%s\t%.1f\t%s\t%s\t%s\t\n", t.Level, t.Number, t.FilterKind, t.FilterBits, bytesText(t.FilterBytes),
			percent(t.PredictedFPR), measured(t.MeasuredFPR, t.Asked))
	}
	return foundIf(len(list) > 0), nil
}

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

func percent(p float64) string { return fmt.Sprintf("%.3g %%", 100*p) }

func measured(p float64, asked uint64) string {
	if asked == 0 {
		return "-"
	}
	return percent(p)
}

// bytesText returns n with a binary unit.
func bytesText(n int64) string {
	if n < 1<<10 {
		return fmt.Sprintf("%d B", n)
	}
	v, unit := float64(n)/(1<<10), "KiB"
	for _, next := range []string{"MiB", "GiB", "TiB"} {
		if v < 1<<10 {
			break
		}
		v, unit = v/(1<<10), next
	}
	return fmt.Sprintf("%.1f %s", v, unit)
}
