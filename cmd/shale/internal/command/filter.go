package command

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/shaledb/shale"
	"github.com/shaledb/shale/cmd/shale/internal/output"
	"github.com/shaledb/shale/internal/base"
)

func filterCommand() *Command {
	var sift sifter
	var keep, quiet bool
	var by, separator string
	part := &sift.part
	c := New("filter [DIR]", NeedsNothing, "print the lines whose keys are in a store, or are not", `
Reads lines from standard input, looks each up in the store in DIR or of -C, and prints those that are
present, or with --drop those that are absent, unchanged and in order. Totals, and the reads that filters
saved, go to standard error. --by host looks up the host in lower case, without user, port or a dot at the
end. The store may be open in a program that writes to it; filter sees the state when it began. A line may
have 64 MiB. Status 1 if no line was printed.`)
	c.flag(&keep, "keep", "print the lines that are present; the default")
	c.flag(&sift.drop, "drop", "print the lines that are absent")
	choice(c, &by, "by", "host: look up the host of a URL, and the domains above it", "line", "host")
	c.count(&part.field, "field", "look up only field N, counted from 1; spaces and tabs separate fields")
	c.option("separator", "TEXT", `what separates fields, such as "," or "\t"`, func(w Word) error {
		if separator = w.Text; separator == "" {
			return errors.New("is empty")
		}
		return nil
	})
	c.flag(&part.parents, "subdomains", "a name also counts as present if a domain above it is: a.b.org if b.org is")
	c.flag(&quiet, "quiet", "print no totals")
	return c.Does(func(ctx context.Context, s *Session, words []Word) (st Status, err error) {
		switch {
		case keep && sift.drop:
			return Failed, errors.New("--keep and --drop can't be used together")
		case separator != "" && part.field == 0:
			return Failed, errors.New("--separator needs --field N, which says which field to look at")
		}
		part.separator, part.host = []byte(separator), by == "host"
		part.parents = part.parents || part.host
		if err := s.checkLines(c); err != nil {
			return Failed, err
		}
		db, release, err := s.storeFor(c, words)
		if err != nil {
			return Failed, err
		}
		defer func() { err = errors.Join(err, release()) }()
		if sift.keys.hash, err = hashesLines(db); err != nil {
			return Failed, err
		}
		sift.db, sift.out.out = db, s.Out
		begin, before := time.Now(), db.Metrics()
		_, err = s.eachBatch(ctx, feedLimits{bytes: 1 << 20, lines: 16 << 10, line: 64 << 20}, sift.add)
		if !quiet {
			sift.report(s.Notes, time.Since(begin), db.Metrics().Sub(before))
		}
		if err != nil {
			return Failed, err
		}
		return foundIf(sift.printed > 0), nil
	})
}

// A sifter prints the lines whose keys are in a store, or the lines whose keys are not.
type sifter struct {
	db   *shale.DB
	out  lineWriter
	part linePart
	drop bool

	lines, present, printed, asked int // counts

	// For one batch; the memory is reused.
	keys  keyList
	line  []int // the line of each key
	known []bool
}

// add looks up the lines of a batch together, and prints those that are wanted.
func (f *sifter) add(b *lineBatch) error {
	f.keys.reset()
	f.line = f.line[:0]
	f.known = append(f.known[:0], make([]bool, b.len())...)
	for i := range b.len() {
		f.part.keysOf(b.text(i), &f.keys)
		for len(f.line) < f.keys.len() {
			f.line = append(f.line, i)
		}
	}
	f.asked += f.keys.len()
	err := f.db.GetMany(f.keys.all(), func(k int, _ []byte, found bool) error {
		if found {
			f.known[f.line[k]] = true
		}
		return nil
	})
	if err != nil {
		return err
	}
	for i, known := range f.known {
		f.lines++
		if known {
			f.present++
		}
		if known != f.drop {
			f.printed++
			if err := f.out.add(b.line(i)); err != nil {
				return err
			}
		}
	}
	return f.out.flush()
}

// report prints totals, and how many reads the filters saved.
func (f *sifter) report(w io.Writer, took time.Duration, m shale.Metrics) {
	what := "kept"
	if f.drop {
		what = "left"
	}
	fmt.Fprintf(w, "%s: %s present, %s absent, %s %s; %v, %s lines/s\n", output.Plural(f.lines, "line"), output.Number(f.present),
		output.Number(f.lines-f.present), output.Number(f.printed), what, output.RoundTime(took), output.Rate(f.lines, took))
	fmt.Fprintf(w, "%s looked up: filters saved %s, %s (%s) %s made; %s\n", output.Plural(f.asked, "key"),
		output.Plural(int(m.FilterNegative), "block read"), output.Number(m.BlockReads), base.FormatBytes(int64(m.BlockReadBytes)),
		output.WasWere(m.BlockReads), falsePositives(m))
}

// falsePositives returns the number and the rate of false positives as text.
func falsePositives(m shale.Metrics) string {
	wrong := m.FilterFalsePositive + m.FalsePositivesRemembered
	asked := wrong + m.FilterNegative
	switch {
	case asked == 0 && m.FilterTruePositive == 0:
		return "no table was asked"
	case asked == 0:
		return "every filter was right"
	}
	return fmt.Sprintf("false positives %s of %s, %s", output.Number(wrong), output.Number(asked), base.FormatPercent(float64(wrong)/float64(asked)))
}
