package manifest

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"

	"github.com/shaledb/shale/internal/base"
)

// parseEdit reads the part of Edit.String that is about tables.
func parseEdit(text string) (*Edit, error) {
	e := new(Edit)
	for line := range strings.Lines(text) {
		words := strings.Fields(line)
		if len(words) < 3 {
			return nil, fmt.Errorf("line %q", line)
		}
		level, run, err := parseRunName(words[1])
		if err != nil {
			return nil, err
		}
		switch words[0] {
		case "remove":
			num, err := strconv.ParseUint(words[2], 10, 64)
			if err != nil {
				return nil, err
			}
			e.Removed = append(e.Removed, Removed{Level: level, Num: base.FileNum(num)})
		case "add":
			t, _, err := parseTable(strings.Join(words[2:], " "), level, run)
			if err != nil {
				return nil, err
			}
			e.Added = append(e.Added, Added{Level: level, Run: run, Table: t})
		case "beside":
			num, err := strconv.ParseUint(words[2], 10, 64)
			if err != nil {
				return nil, err
			}
			s, err := parseSidecar(words[3])
			if err != nil {
				return nil, err
			}
			e.Sidecars = append(e.Sidecars, SidecarChange{Level: level, Num: base.FileNum(num), Sidecar: s})
		default:
			return nil, fmt.Errorf("line %q", line)
		}
	}
	return e, nil
}

func TestVersion(t *testing.T) {
	var v *Version
	datadriven.RunTest(t, "testdata/version", func(t *testing.T, d *datadriven.TestData) string {
		var err error
		switch d.Cmd {
		case "version":
			if v, err = ParseVersion(d.Input); err != nil {
				return err.Error()
			}
			if d.HasArg("describe") {
				return v.Describe()
			}
			return v.String()
		case "check":
			if v, err = ParseVersion(d.Input); err != nil {
				return err.Error()
			}
			if err := v.Check(); err != nil {
				return err.Error()
			}
			return "ok"
		case "apply":
			e, err := parseEdit(d.Input)
			if err != nil {
				return err.Error()
			}
			next, err := v.Apply(e)
			if err != nil {
				return err.Error()
			}
			v = next
			if d.HasArg("describe") {
				return v.Describe()
			}
			runs := 0
			for level := range v.Levels {
				runs += len(v.Levels[level].Runs)
			}
			return v.String() + fmt.Sprintf("%d runs, %d tables\n", runs, v.NumTables())
		case "overlaps":
			var b strings.Builder
			for line := range strings.Lines(d.Input) {
				words := strings.Fields(line)
				level, err := strconv.Atoi(words[0])
				if err != nil {
					return err.Error()
				}
				var hi []byte
				if len(words) > 2 {
					hi = []byte(words[2])
				}
				fmt.Fprintln(&b, v.Overlaps(level, []byte(words[1]), hi))
			}
			return b.String()
		}
		return "unknown command " + d.Cmd
	})
}

func mustParse(t testing.TB, text string) *Version {
	t.Helper()
	v, err := ParseVersion(text)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func TestParseVersion_RoundTrip(t *testing.T) {
	text := `L0.7: 000007:[a-"\x00\xff"]{size=1,seq=5-9,entries=10,del=3,keys=9,filter=24}
L1: 000002:[""-"a b"]{size=67108864,seq=0-0,entries=1,del=0,keys=1,filter=0} 000003:["a b\x00"-"c-d"]{size=2,seq=1-2,entries=2,del=1,keys=2,filter=9.5}
`
	text = strings.Replace(text, `[a-"\x00\xff"]`, `["\x00\xff"-a]`, 1)
	if got := mustParse(t, text).Describe(); got != text {
		t.Errorf("Describe() =\n%s, want\n%s", got, text)
	}
	for _, bad := range []string{"x", "L1 a", "M1: 000001:[a-b]", "L9: 000001:[a-b]", "L-1: 1:[a-b]", "L1: 1:[a]", "L1: 1:[a-b",
		"L1: 1:[a-b]{size}", "L1: 1:[a-b]{size=1", "L1: 1:[a-b]{size=99999999T}", "L1: 1:[a-b]{what=1}", "L1: 1:[\"a-b]"} {
		if v, err := ParseVersion(bad); err == nil {
			t.Errorf("ParseVersion(%q) = %q, want an error", bad, v)
		}
	}
}

func TestApply_LeavesTheOldVersionAlone(t *testing.T) {
	v := mustParse(t, "L0.9: 000009:[a-z]\nL1: 000001:[a-c] 000002:[d-f] 000003:[g-i]\nL2: 000004:[a-z]\n")
	before := v.Describe()
	e := &Edit{
		Removed: []Removed{{Level: 1, Num: 2}, {Level: 0, Num: 9}},
		Added:   []Added{{Level: 1, Table: &Table{Num: 10, Size: 5, Smallest: []byte("d"), Largest: []byte("e"), Entries: 1, Keys: 1}}},
	}
	next, err := v.Apply(e)
	if err != nil {
		t.Fatal(err)
	}
	if got := v.Describe(); got != before {
		t.Errorf("the old version became\n%s, was\n%s", got, before)
	}
	if &next.Levels[2].Runs[0] != &v.Levels[2].Runs[0] {
		t.Error("the unchanged level 2 was copied")
	}
	if got, want := next.Bytes(1), int64(205); got != want {
		t.Errorf("Bytes(1) = %d, want %d", got, want)
	}
}

// TestTotals_FollowEdits compares the totals that Apply keeps with sums, and
// Apply with the builder that replays manifests, over random edits.
func TestTotals_FollowEdits(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 1))
	v := new(Version)
	var b builder
	next := base.FileNum(1)
	for range 500 {
		e := randomEdit(r, v, &next)
		after, err := v.Apply(e)
		if err != nil {
			t.Fatalf("Apply(%s) to\n%s: %v", e, v, err)
		}
		if err := b.apply(e); err != nil {
			t.Fatalf("replay of %s: %v", e, err)
		}
		if err := after.Check(); err != nil {
			t.Fatalf("after %s:\n%s: %v", e, after, err)
		}
		v = after
		for level := range v.Levels {
			var all []*Table
			for _, run := range v.Levels[level].Runs {
				if got, want := run.totals, TotalsOf(run.Tables); got != want {
					t.Fatalf("totals of run %d in level %d = %+v, want %+v", run.ID, level, got, want)
				}
				all = append(all, run.Tables...)
			}
			if got, want := v.Totals(level), TotalsOf(all); got != want {
				t.Fatalf("totals of level %d = %+v, want %+v", level, got, want)
			}
		}
	}
	replayed, err := b.version()
	if err != nil {
		t.Fatal(err)
	}
	if got, want := replayed.Describe(), v.Describe(); got != want {
		t.Errorf("replayed version\n%s, want\n%s", got, want)
	}
}

// randomEdit returns an edit that flushes a table, or that moves the tables which overlap one
// table of a level to the next level.
func randomEdit(r *rand.Rand, v *Version, next *base.FileNum) *Edit {
	table := func(lo, hi int, seq base.Seq) *Table {
		n := 1 + r.Uint64N(1000)
		t := &Table{
			Num: *next, Size: 1 + r.Int64N(1000), Checksum: r.Uint32(), MinSeq: seq, MaxSeq: seq,
			Smallest: fmt.Appendf(nil, "%04d", lo), Largest: fmt.Appendf(nil, "%04d", hi),
			Entries: n, Keys: n, Tombstones: r.Uint64N(n + 1), RawKeyBytes: r.Uint64(), FilterBits: r.Float64() * 24,
		}
		*next++
		return t
	}
	level := r.IntN(NumLevels - 1)
	runs := v.Levels[level].Runs
	if len(runs) == 0 || r.IntN(3) == 0 {
		lo := r.IntN(1000)
		num := *next
		return &Edit{Added: []Added{{Level: 0, Run: uint64(num), Table: table(lo, lo+r.IntN(200), base.Seq(num))}}}
	}
	oldest := runs[len(runs)-1]
	t := oldest.Tables[r.IntN(len(oldest.Tables))]
	remove := func(level int, t *Table) Removed {
		if r.IntN(2) == 0 {
			return Removed{Level: level, Num: t.Num}
		}
		return Removed{Level: level, Num: t.Num, Table: t}
	}
	e := &Edit{Removed: []Removed{remove(level, t)}}
	lo, hi := t.Smallest, t.Largest
	for _, o := range v.Overlaps(level+1, lo, hi) {
		e.Removed = append(e.Removed, remove(level+1, o))
		lo, hi = slices.MinFunc([][]byte{lo, o.Smallest}, slices.Compare), slices.MaxFunc([][]byte{hi, o.Largest}, slices.Compare)
	}
	if len(e.Removed) == 1 { // nothing overlaps: the table itself moves
		e.Added = append(e.Added, Added{Level: level + 1, Table: t})
		return e
	}
	first, _ := strconv.Atoi(string(lo))
	last, _ := strconv.Atoi(string(hi))
	for first <= last {
		end := min(last, first+r.IntN(100))
		e.Added = append(e.Added, Added{Level: level + 1, Table: table(first, end, t.MaxSeq)})
		first = end + 1 + r.IntN(5)
	}
	return e
}

func TestBuilder_RefusesEditsThatDoNotFit(t *testing.T) {
	a := Added{Level: 1, Table: &Table{Num: 1, Size: 1, Entries: 1, Keys: 1}}
	var b builder
	if err := b.apply(&Edit{Added: []Added{a}}); err != nil {
		t.Fatal(err)
	}
	for _, e := range []*Edit{
		{Added: []Added{a}},
		{Removed: []Removed{{Level: 1, Num: 2}}},
		{Removed: []Removed{{Level: 2, Num: 1}}},
	} {
		before := maps.Clone(b.levels[1])
		if err := b.apply(e); err == nil {
			t.Errorf("apply(%s) succeeded", e)
		}
		if !maps.Equal(before, b.levels[1]) {
			t.Errorf("apply(%s) failed and changed level 1", e)
		}
	}
}

func TestState_Counters(t *testing.T) {
	s := &State{}
	apply := func(e Edit) error {
		next, err := s.Apply(&e, nil)
		if err == nil {
			s = next
		}
		return err
	}
	steps := []struct {
		edit Edit
		want string // the logs and the counters; "": the edit is refused
	}{
		{Edit{NewLog: 3}, "[3] min 0 next 4 seq 0"},
		{Edit{NewLog: 3}, ""},
		{Edit{NewLog: 2}, ""},
		{Edit{SealedLog: &SealedLog{Num: 2}}, ""},
		{Edit{NewLog: 5, SealedLog: &SealedLog{Num: 3, Length: 7, LastSeq: 9}}, "[3=7 5] min 0 next 6 seq 0"},
		{Edit{SealedLog: &SealedLog{Num: 3, Length: 7, LastSeq: 9}}, ""},
		{Edit{MinLog: 5, LastSeq: 9}, "[5] min 5 next 6 seq 9"},
		{Edit{SealedLog: &SealedLog{Num: 3, Length: 7}}, "[5] min 5 next 6 seq 9"}, // the log is obsolete already
		{Edit{NewLog: 4}, ""},
		{Edit{LastSeq: 8, NextFileNum: 5}, "[5] min 5 next 6 seq 9"},
		{Edit{Added: []Added{{Table: &Table{Num: 8, MaxSeq: 11}}}}, "[5] min 5 next 9 seq 11"},
		{Edit{MinLog: 12}, "[] min 12 next 12 seq 11"},
	}
	for i, step := range steps {
		err := apply(step.edit)
		got := ""
		if err == nil {
			var logs []string
			for _, l := range s.Logs {
				if l.Sealed {
					logs = append(logs, fmt.Sprintf("%d=%d", l.Num, l.Length))
				} else {
					logs = append(logs, fmt.Sprint(uint64(l.Num)))
				}
			}
			got = fmt.Sprintf("[%s] min %d next %d seq %d", strings.Join(logs, " "), s.MinLog, s.NextFileNum, s.LastSeq)
		}
		if got != step.want {
			t.Errorf("step %d: %q (%v), want %q", i, got, err, step.want)
		}
	}
}

// errorIsCorruption reports whether err is a CorruptionError that names file.
func errorIsCorruption(err error, file string) bool {
	var c *base.CorruptionError
	return errors.As(err, &c) && c.File == file
}
