package shale

import (
	"fmt"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/shaledb/shale/internal/base"
)

// A Verdict is what a memtable, run or table had to say to a lookup.
type Verdict int

// The verdicts.
const (
	OutOfRange     Verdict = iota // no table of the run covers the key
	FilterNegative                // the filter said no: certainly not there
	FalsePositive                 // the filter said maybe, the blocks said no
	NoFilter                      // there is no filter; the blocks said no
	Found                         // here is the value
	Tombstone                     // here is the mark of a deletion
	Skipped                       // a newer place had answered already
	Remembered                    // the filter said maybe, but the key was proven absent from the table before
)

var verdictNames = [...]string{
	OutOfRange:     "outside",
	FilterNegative: "definitely not",
	FalsePositive:  "maybe (false!)",
	NoFilter:       "no filter",
	Found:          "found",
	Tombstone:      "deleted",
	Skipped:        "skipped",
	Remembered:     "maybe (remembered)",
}

// String returns the word that an Explanation prints.
func (v Verdict) String() string {
	if v < 0 || int(v) >= len(verdictNames) {
		return fmt.Sprintf("verdict %d", int(v))
	}
	return verdictNames[v]
}

// An Explanation tells how a Get went.
type Explanation struct {
	Key      []byte
	Value    []byte // nil if absent
	Found    bool
	Steps    []ExplainStep
	Duration time.Duration

	// ExpectedFalsePositives is the sum of the predicted false positive rates
	// of the tables whose range covers the key; MeasuredFPR is the store's
	// since Open, a lookup of an absent key.
	ExpectedFalsePositives float64
	MeasuredFPR            float64
}

// An ExplainStep is one place where a Get looked, or passed over, in the order
// of the Get: memtables, then runs from the newest to the oldest.
type ExplainStep struct {
	Place    string // "memtable", "immutable memtable", "L1"
	Level    int    // -1 for memtables
	Run      int    // 0 is the newest of its level
	Table    uint64 // number of the table; 0 where none covers the key
	Verdict  Verdict
	Blocks   []BlockRead
	Duration time.Duration

	asked bool // the table has a filter, which was asked
}

// A BlockRead is one block that a lookup needed.
type BlockRead struct {
	Kind   string // "data block", "index partition"
	Offset int64  // in the table's file
	Bytes  int64  // on disk
	Cached bool
}

// BlocksRead returns the number of blocks that came from disk, and their bytes.
func (e Explanation) BlocksRead() (blocks int, bytes int64) {
	for _, s := range e.Steps {
		for _, b := range s.Blocks {
			if !b.Cached {
				blocks++
				bytes += b.Bytes
			}
		}
	}
	return blocks, bytes
}

// String prints the explanation as a table.
func (e Explanation) String() string {
	var s strings.Builder
	w := tabwriter.NewWriter(&s, 0, 0, 3, ' ', 0)
	fmt.Fprintln(w, "where\trange\tfilter\tblocks read\ttime")
	for _, step := range e.Steps {
		where, span, verdict := step.Words()
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\n", where, span, verdict, formatReads(step.Blocks), micros(step.Duration))
	}
	w.Flush()
	return s.String() + e.Summary()
}

// Words returns what a table of steps has in its first columns: the place with
// its table, whether the key is in the table's range, and what was said there.
func (s ExplainStep) Words() (where, span, verdict string) {
	where, span, verdict = s.Place, "-", s.Verdict.String()
	switch {
	case s.Verdict == Skipped:
		return where, "not looked at", "-"
	case s.Level >= 0 && s.Table == 0:
		return where, "outside", "-"
	case s.Level >= 0:
		return fmt.Sprintf("%s #%06d", where, s.Table), "inside", verdict
	}
	return where, span, verdict
}

// Summary returns two lines: how it ended with what was read, and what it would
// have been without filters.
func (e Explanation) Summary() string {
	asked, no, falseYes, covered := 0, 0, 0, 0
	for _, step := range e.Steps {
		if step.asked {
			asked++
		}
		if step.Level < 0 || step.Table == 0 {
			continue
		}
		covered++
		switch step.Verdict {
		case FilterNegative:
			no++
		case FalsePositive, Remembered:
			falseYes++
		}
	}
	blocks, bytes := e.BlocksRead()
	outcome := "not found"
	if e.Found {
		outcome = fmt.Sprintf("found, %d bytes", len(e.Value))
	}
	return fmt.Sprintf("%s: %s asked, %d said no, %s; %s from disk, %s; %s\n",
		outcome, plural(asked, "filter"), no, plural(falseYes, "false positive"), plural(blocks, "block"), base.FormatBytes(bytes), micros(e.Duration)) +
		fmt.Sprintf("without filters: %s. Expected false positives here: %.2g; measured since open: %s a miss\n",
			plural(covered, "block"), e.ExpectedFalsePositives, base.FormatPercent(e.MeasuredFPR))
}

func plural(n int, word string) string {
	if n == 1 {
		return "1 " + word
	}
	return fmt.Sprintf("%d %ss", n, word)
}

func micros(d time.Duration) string { return fmt.Sprintf("%.1f µs", float64(d)/1e3) }

func formatReads(reads []BlockRead) string {
	if len(reads) == 0 {
		return "-"
	}
	parts := make([]string, len(reads))
	for i, r := range reads {
		from := "disk"
		if r.Cached {
			from = "cached"
		}
		parts[i] = fmt.Sprintf("%s %d B (%s)", r.Kind, r.Bytes, from)
	}
	return strings.Join(parts, ", ")
}
