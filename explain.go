package shale

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/shaledb/shale/internal/base"
	"github.com/shaledb/shale/internal/filecache"
	"github.com/shaledb/shale/internal/memqueue"
	"github.com/shaledb/shale/internal/spans"
	"github.com/shaledb/shale/internal/tree"
	"github.com/shaledb/shale/memtable"
	"github.com/shaledb/shale/sstable"
)

// This file has Explain, which tells how a lookup went.

// Explain makes a Get and writes down each step. It does not call DB.find, which must stay
// fast: explainer goes through the same places in the same order as findIn (get.go) does.
// Whoever changes one of the two changes the other.
//
//  1. Explain loads the view, and then the visible sequence number, as a Get does.
//  2. explainer.memtable asks the filters of the memtables, and looks into those that say
//     maybe.
//  3. explainer.run finds the table of each run that covers the key, and asks its filter.
//  4. explainer.read looks into the table, with a sstable.Trace that notes which blocks it
//     needed.
//  5. Once a place has the key, those after it are listed as Skipped.

// A Verdict is what a memtable, run or table said to a lookup.
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
	Covered                       // a range delete is newer than what is here of the key, or may be
	Expired                       // here is a value that is over
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
	Covered:        "range delete",
	Expired:        "expired",
}

// String returns the word that an Explanation prints.
func (v Verdict) String() string {
	if v < 0 || int(v) >= len(verdictNames) {
		return fmt.Sprintf("verdict %d", int(v))
	}
	return verdictNames[v]
}

// An Explanation describes how a Get went. The caller owns its slices.
type Explanation struct {
	Key   []byte
	Value []byte // nil if absent
	Found bool   // whether the key is there
	// RangeDelete is the newest range delete that covers the key; nil: none does. Versions that are older than it are
	// deleted, and newer ones are not.
	RangeDelete *RangeDelete
	Steps       []ExplainStep // where the Get looked, in order
	Duration    time.Duration // of all steps

	// ExpectedFalsePositives is the sum of the predicted false positive rates (TableInfo.PredictedFPR) of the tables
	// that were asked: those whose range covers the key, down to the one that has it.
	ExpectedFalsePositives float64
	// MeasuredFPR is how many false positives a lookup of an absent key has met in this store, on average since Open.
	MeasuredFPR float64
}

// A RangeDelete is a [DB.DeleteRange] that a lookup has met, or the part of one that covers the key.
type RangeDelete struct {
	Lower, Upper []byte // the first key, and the first that is not deleted; Upper nil: there is no bound
	Seq          uint64 // the number of the write
}

// String returns "the range delete "a".."b" of number 7".
func (d RangeDelete) String() string {
	upper := "the end"
	if d.Upper != nil {
		upper = fmt.Sprintf("%q", abbreviate(d.Upper))
	}
	return fmt.Sprintf("the range delete %q..%s of number %d", abbreviate(d.Lower), upper, d.Seq)
}

// An ExplainStep is one place where a Get looked, or passed over, in the order
// of the Get: memtables, then runs from the newest to the oldest.
type ExplainStep struct {
	Place    string        // "memtable", "immutable memtable", "L1"
	Level    int           // -1 for memtables
	Run      int           // 0 is the newest of its level
	Table    uint64        // number of the table; 0 where none covers the key
	Only     uint64        // number of the run's only table, also where it does not cover the key; 0: the run has more
	Verdict  Verdict       // what the place said
	Blocks   []BlockRead   // that it needed
	Duration time.Duration // of the step
	Expiry   time.Time     // when the value that is here is over; zero: never

	asked bool // the table has a filter, which was asked
}

// A BlockRead is one block that a lookup needed.
type BlockRead struct {
	Kind   string // "data block", "index partition"
	Offset int64  // in the table's file
	Bytes  int64  // on disk
	Cached bool   // it was in the block cache, and not read from disk
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
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\n", where, span, verdict, formatReads(step.Blocks), base.FormatDuration(step.Duration))
	}
	w.Flush()
	if e.RangeDelete != nil {
		fmt.Fprintf(&s, "covered by %v\n", e.RangeDelete)
	}
	return s.String() + e.Summary()
}

// Words returns the first columns of a table of steps: the place with the number of the table
// that covers the key or is the only one, whether the key is in the table's range, and what the place said. A dash stands
// for what does not apply.
func (s ExplainStep) Words() (where, span, verdict string) {
	where, span, verdict = s.Place, "-", s.Verdict.String()
	switch {
	case s.Verdict == Expired:
		verdict = "expired at " + s.Expiry.UTC().Format(time.RFC3339Nano)
	case s.Verdict == Found && !s.Expiry.IsZero():
		verdict = "found, expires at " + s.Expiry.UTC().Format(time.RFC3339Nano)
	}
	if table := max(s.Table, s.Only); table > 0 {
		where = fmt.Sprintf("%s #%06d", where, table)
	}
	switch {
	case s.Verdict == Skipped:
		return where, "not looked at", "-"
	case s.Level >= 0 && s.Table == 0:
		return where, "outside", "-"
	case s.Level >= 0:
		return where, "inside", verdict
	}
	return where, span, verdict
}

// Summary returns two lines: the outcome with what was read, and what it would have been
// without filters.
func (e Explanation) Summary() string {
	asked, no, falseYes, covered := 0, 0, 0, 0
	for _, step := range e.Steps {
		if step.asked {
			asked++
		}
		// Without filters a Get reads a block of each table that covers the key, up to the
		// answer.
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
		outcome = "found, " + plural(len(e.Value), "byte")
	}
	return fmt.Sprintf("%s: %s asked, %d said no, %s; %s from disk, %s; %s\n",
		outcome, plural(asked, "filter"), no, plural(falseYes, "false positive"), plural(blocks, "block"), base.FormatBytes(bytes), base.FormatDuration(e.Duration)) +
		fmt.Sprintf("without filters: %s. Expected false positives here: %s; measured since open: %s a miss\n",
			plural(covered, "block"), base.FormatPercent(e.ExpectedFalsePositives), base.FormatPercent(e.MeasuredFPR))
}

func plural(n int, word string) string {
	if n == 1 {
		return "1 " + word
	}
	return fmt.Sprintf("%d %ss", n, word)
}

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

// Explain performs a Get and reports how it went: each memtable, run and table that it
// looked at or passed over, what was said there, which blocks were read, and how long it
// took. It does what Get does, in the same order, and its answer is Get's. Of Metrics it
// changes only the counts of blocks and of the cache.
func (i Inspector) Explain(key []byte) (Explanation, error) {
	db := i.db
	var gone string // see lookAgain
	for {
		v := db.mems.View()
		if v == nil {
			return Explanation{}, ErrClosed
		}
		x := explainer{db: db, seq: db.commits.Visible()}
		x.Key = cloneNonNil(key)
		err := x.explain(v)
		// A flush or a compaction has ended meanwhile. The next view has what it wrote, and
		// the steps so far do not count.
		if errors.Is(err, filecache.ErrGone) {
			continue
		}
		if err != nil && db.lookAgain(v, err, &gone) {
			continue
		}
		if err != nil {
			return x.Explanation, db.readError(key, err)
		}
		m := Metrics{Levels: make([]LevelMetrics, NumLevels)}
		db.counters.addTo(&m)
		x.MeasuredFPR = ratio(m.FilterFalsePositive, m.GetMisses)
		return x.Explanation, nil
	}
}

// An explainer is one traced Get. One goroutine uses it.
type explainer struct {
	Explanation
	db       *DB
	seq      base.Seq
	cover    base.Seq // the number of RangeDelete, or 0
	answered bool     // a version of the key was met: places to come are skipped
}

// explain goes through all places of v. The error is filecache.ErrGone if a memtable or a
// table was given up meanwhile.
func (x *explainer) explain(v *memqueue.View) error {
	begin := time.Now()
	defer func() { x.Duration = time.Since(begin) }()
	l := x.db.newLookup(x.Key)
	var deletes spans.Finder
	v.Spans(&deletes)
	if f, at := deletes.Find(x.Key, x.seq); at > 0 {
		x.cover, x.RangeDelete = at, &RangeDelete{cloneNonNil(f.Lower), bytes.Clone(f.Upper), uint64(at)}
	}
	if err := x.memtable("memtable", v.Mem, l.hash); err != nil {
		return err
	}
	for _, imm := range v.Imms {
		if err := x.memtable("immutable memtable", imm.Mem, l.hash); err != nil {
			return err
		}
	}
	for _, r := range v.Runs {
		if err := x.run(r, &l); err != nil {
			return err
		}
	}
	return nil
}

// step adds one place to the explanation, after look has filled it in, and measures how
// long look takes. Once a place has answered, look is not called for those after it.
func (x *explainer) step(s ExplainStep, look func(*ExplainStep) error) error {
	if x.answered {
		s.Verdict = Skipped
		x.Steps = append(x.Steps, s)
		return nil
	}
	begin := time.Now()
	err := look(&s)
	s.Duration = time.Since(begin)
	x.Steps = append(x.Steps, s)
	return err
}

// answer records that a place has a version of the key, which ends the search. The value is
// copied, because the block or the memtable that has it is not held.
func (x *explainer) answer(s *ExplainStep, seq base.Seq, kind base.Kind, value []byte, expiry int64) {
	x.answered = true
	if kind == base.KindExpiring {
		s.Expiry = time.UnixMilli(expiry)
	}
	switch s.Verdict = Tombstone; {
	case seq < x.cover:
		s.Verdict = Covered
	case kind == base.KindExpiring && x.db.snapshots.Clock.Over(expiry, 0):
		s.Verdict = Expired
	case kind != base.KindDelete:
		s.Verdict = Found
		x.Found, x.Value = true, cloneNonNil(value)
	}
}

// memtable asks one memtable, as lookup.inMemtables does.
func (x *explainer) memtable(place string, m *memtable.Memtable, hash uint64) error {
	return x.step(ExplainStep{Place: place, Level: -1}, func(s *ExplainStep) error {
		s.Verdict = FilterNegative
		if !m.MayContainHash(hash) {
			return nil
		}
		// A flush has given its memory back. The next view has the table instead.
		if !m.Pin() {
			return filecache.ErrGone
		}
		defer m.Unpin()
		s.Verdict = FalsePositive
		if value, kind, found, seq := m.Get(x.Key, x.seq); found {
			ms := int64(0)
			if kind == base.KindExpiring {
				ms, value = base.CutExpiry(value)
			}
			x.answer(s, seq, kind, value, ms)
		}
		return nil
	})
}

// run asks the one table of a run that may have the key, as findIn does. A table without a
// filter, or whose filter says maybe, is read, unless the key was proven absent from it
// before.
func (x *explainer) run(r *tree.Run, l *lookup) error {
	s := ExplainStep{Place: fmt.Sprintf("L%d", r.Level), Level: r.Level, Run: r.Nth}
	if len(r.Tables) == 1 {
		s.Only = uint64(r.Tables[0].Meta.Num)
	}
	return x.step(s, func(s *ExplainStep) error {
		t := r.Find(x.Key)
		if t == nil {
			s.Verdict = OutOfRange
			return nil
		}
		s.Table = uint64(t.Meta.Num)
		f := t.NeededFilter()
		x.ExpectedFalsePositives += t.PredictedFPR()
		maybe, asked := l.askFilter(t, f)
		s.asked = asked
		switch {
		case !maybe:
			s.Verdict = FilterNegative
			return nil
		case x.cover > t.Meta.MaxSeq:
			s.Verdict = Covered
			return nil
		case asked && x.db.falsePositives.Has(s.Table, x.Key, l.hash):
			s.Verdict = Remembered
			return nil
		}
		return x.read(t, l.tagHash(), s, asked)
	})
}

// read looks into the table's blocks, and notes which of them it needed, also before an
// error.
func (x *explainer) read(t *tree.Table, tagHash uint64, s *ExplainStep, hadFilter bool) error {
	var value sstable.Value
	var trace sstable.Trace
	found, err := t.Reader.Get(x.Key, tagHash, x.seq, &value, &trace)
	for _, r := range trace.Reads {
		s.Blocks = append(s.Blocks, BlockRead{Kind: r.Kind.String(), Offset: r.Offset, Bytes: r.Bytes, Cached: r.Cached})
	}
	if err != nil {
		return err
	}
	defer value.Release()
	switch {
	case found:
		x.answer(s, value.Trailer.Seq(), value.Trailer.Kind(), value.Bytes, value.Expiry)
	case hadFilter:
		s.Verdict = FalsePositive
	default:
		s.Verdict = NoFilter
	}
	return nil
}
