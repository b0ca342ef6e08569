package compaction

import (
	"bytes"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"
	"github.com/shaledb/shale/internal/base"
	"github.com/shaledb/shale/manifest"
)

// TestPlan_TableSize: a level has tables of TableSize until it has levelTables of them. Then they
// grow with the level, up to maxGrowth times, and so does what one compaction may read.
func TestPlan_TableSize(t *testing.T) {
	for _, c := range []struct{ last, want, most int64 }{
		{900, 100, 1000}, {1000, 100, 1000}, {2500, 250, 2500}, {8000, 800, 8000}, {9999, 800, 8000},
	} {
		v, err := manifest.ParseVersion(fmt.Sprintf("L5: 000001:[a-b]{size=%d}\nL6: 000002:[a-b]{size=%d}", c.last/4, c.last))
		if err != nil {
			t.Fatal(err)
		}
		o := Options{TableSize: 100, levelTables: 10, maxBytes: 1000, BaseBytes: 100}
		plan := Pick(v, o, InFlight{})
		if p := newPicker(v, o, &InFlight{}); plan.TableSize() != c.want || p.maxBytes(lastLevel) != c.most {
			t.Errorf("above %d bytes: tables of %d, compactions of %d; want %d, %d", c.last, plan.TableSize(), p.maxBytes(lastLevel), c.want, c.most)
		}
		if got := newPicker(v, o, &InFlight{}).shape.tableSize[lastLevel-1]; got != max(100, c.last/100) {
			t.Errorf("with %d bytes in the last level the one above has tables of %d", c.last, got)
		}
	}
}

// What a dropped table hides has expired too, but perhaps later than the table itself: the clock must not fall behind that.
// It need not be later: a system's clock that was wrong for a moment must not stay in the manifest.
func TestPick_ClockOfADrop(t *testing.T) {
	v, err := manifest.ParseVersion("L5: 000001:[a-c]{expiring=10/1/1/1/1/1/1/1/1/1}\nL6: 000002:[a-c]{expiring=10/9/9/9/9/9/9/9/9/9}")
	if err != nil {
		t.Fatal(err)
	}
	var busy InFlight
	below := Pick(v, Options{Clock: 20}, busy)
	busy.Add(&below)
	if plan := Pick(v, Options{Clock: 20}, busy); plan.Kind != Drop || plan.From != 5 || plan.Clock() != 9 {
		t.Errorf("%v by %d", plan.String(), plan.Clock())
	}
}

// newest returns the number of the newest entry in v.
func newest(v *manifest.Version) (seq base.Seq) {
	for t := range v.Tables() {
		seq = max(seq, t.MaxSeq)
	}
	return seq
}

// TestPick runs the planner on versions written as text. The commands:
//
//	version        sets the version; nothing is in flight
//	pick [start]   picks a compaction; start adds it to those in flight
//	level0 [start] picks one of level 0 alone
//	aside n        sets a table aside; back n takes it back
//	seeks credit=n picks one for seeks that have earned this credit, or prints the price
//	manual [start] takes the next step of a range compaction; lower, upper begin one
//	ingest [start] places tables that are ingested, with a range of keys
//	finish         ends the oldest in flight without a change
//	apply          carries out the last plan: a merge gives one table
//	scores         prints the shape
//	live           prints how many of the bytes are live
//
// version takes the options trigger, base, table, max, runs, drop, clock. clock n sets that later, and prints when
// something expires next.
func TestPick(t *testing.T) {
	datadriven.Walk(t, "testdata/pick", func(t *testing.T, path string) {
		var v *manifest.Version
		var o Options
		var busy InFlight
		var last Plan
		var job *Manual
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			switch d.Cmd {
			case "version":
				var err error
				if v, err = manifest.ParseVersion(d.Input); err != nil {
					return err.Error()
				}
				if err := v.Check(); err != nil {
					return err.Error()
				}
				o, busy, job = Options{TableSize: 100, BaseBytes: 400, DropSeq: base.MaxSeq}, InFlight{}, nil
				for _, a := range d.CmdArgs {
					switch a.Key {
					case "trigger":
						a.Scan(t, 0, &o.Level0Trigger)
					case "base":
						a.Scan(t, 0, &o.BaseBytes)
					case "table":
						a.Scan(t, 0, &o.TableSize)
					case "max":
						a.Scan(t, 0, &o.maxBytes)
						o.level0Bytes = o.maxBytes
					case "runs":
						a.Scan(t, 0, &o.LevelRuns)
					case "clock":
						a.Scan(t, 0, &o.Clock)
					case "drop":
						var seq uint64
						a.Scan(t, 0, &seq)
						o.DropSeq = base.Seq(seq)
					}
				}
				return "ok"
			case "clock":
				fmt.Sscan(d.CmdArgs[0].Key, &o.Clock)
				return fmt.Sprint("next ", NextExpiry(v, o.Clock))
			case "pick":
				last = Pick(v, o, busy)
				checkPlan(t, v, &last)
				return start(d, &busy, last)
			case "level0":
				last = PickLevel0(v, o, busy)
				checkPlan(t, v, &last)
				return start(d, &busy, last)
			case "aside", "back":
				num, err := strconv.Atoi(d.CmdArgs[0].Key)
				if err != nil {
					return err.Error()
				}
				if d.Cmd == "aside" {
					busy.SetAside(base.FileNum(num))
				} else {
					busy.TakeBack(base.FileNum(num))
				}
				return fmt.Sprint(busy.IsAside(base.FileNum(num)))
			case "seeks":
				var credit int64
				d.ScanArgs(t, "credit", &credit)
				var price int64
				var near *manifest.Table
				if d.HasArg("near") {
					var num uint64
					d.ScanArgs(t, "near", &num)
					for t := range v.Tables() {
						if t.Num == base.FileNum(num) {
							near = t
						}
					}
				}
				if last, price = PickOftenRead(v, o, busy, credit, near); price == math.MaxInt64 {
					return "no price"
				}
				checkPlan(t, v, &last)
				return fmt.Sprintf("price %d KiB and %d\n%s", price>>10, price&1023, start(d, &busy, last))
			case "manual":
				if job == nil || len(d.CmdArgs) > 0 && !d.HasArg("start") {
					var lower, upper string
					if d.HasArg("lower") {
						d.ScanArgs(t, "lower", &lower)
					}
					job = NewManual([]byte(lower), nil, newest(v))
					if d.HasArg("upper") {
						d.ScanArgs(t, "upper", &upper)
						job = NewManual([]byte(lower), []byte(upper), newest(v))
					}
				}
				var blocked bool
				ready := job.Ready(v, o, busy.WithAside())
				last, blocked = job.Next(v, o, busy.WithAside())
				if ready != (last.Kind != Nothing) {
					t.Errorf("Ready is %v, Next returns %v", ready, last)
				}
				checkPlan(t, v, &last)
				if blocked {
					return "blocked"
				}
				return start(d, &busy, last)
			case "ingest":
				var lo, hi string
				d.ScanArgs(t, "keys", &lo, &hi)
				last = PlaceIngest(v, o, busy, []byte(lo), []byte(hi))
				if d.HasArg("start") {
					busy.Add(&last)
				}
				return fmt.Sprintf("L%d.%d", last.To, last.OutputRun())
			case "finish":
				busy.Remove(busy.plans[0])
				return fmt.Sprintf("%d in flight", len(busy.plans))
			case "apply":
				next, err := v.Apply(last.Edit(oneTable(v, &last)...))
				if err != nil {
					return err.Error()
				}
				v = next
				if err := v.Check(); err != nil {
					return err.Error()
				}
				return v.String()
			case "live":
				sum := int64(0)
				for level := range v.Levels {
					sum += v.Bytes(level)
				}
				return fmt.Sprintf("%d of %d", SumLive(v, LiveShares(v, between(v), none)), sum)
			case "scores":
				s := shapeOf(v, o.withDefaults(), &busy)
				var b strings.Builder
				fmt.Fprintf(&b, "base L%d, debt %d\n", s.base, Debt(v, o))
				for level, score := range idleScores(v, o) {
					if score > 0 || s.target[level] > 0 {
						fmt.Fprintf(&b, "L%d: %d of %d, score %.2f\n", level, v.Bytes(level), s.target[level], score)
					}
				}
				return b.String()
			}
			return "unknown command " + d.Cmd
		})
	})
}

func start(d *datadriven.TestData, busy *InFlight, p Plan) string {
	if d.HasArg("start") && p.Kind != Nothing {
		busy.Add(&p)
	}
	return p.String()
}

// oneTable returns the output of a merge that writes one table.
func oneTable(v *manifest.Version, p *Plan) []manifest.Added {
	if p.Kind != Merging {
		return nil
	}
	sum := p.inputTotals()
	num := base.FileNum(100)
	for level := range v.Levels {
		for _, run := range v.Levels[level].Runs {
			for _, t := range run.Tables {
				num = max(num, t.Num+1)
			}
		}
	}
	t := &manifest.Table{Num: num, Size: sum.Bytes, Smallest: p.smallest, Largest: p.largest, Entries: sum.Entries, Keys: sum.Keys, Tombstones: sum.Tombstones}
	if p.bottom() {
		t.Entries -= t.Tombstones
		t.Keys, t.Tombstones = min(t.Keys, t.Entries), 0
	}
	return []manifest.Added{{Level: p.To, Run: p.OutputRun(), Table: t}}
}

// checkPlan checks the guarantees of Plan.
func checkPlan(t *testing.T, v *manifest.Version, p *Plan) {
	t.Helper()
	if p.Kind == Nothing {
		return
	}
	input := make(map[base.FileNum]bool)
	upper := &Plan{} // range of the inputs above level To
	for _, in := range p.Inputs {
		for _, tab := range in.Tables {
			input[tab.Num] = true
			if in.level == p.From {
				upper.widen(tab)
			}
		}
	}
	isInput := func(invariant int, tables []*manifest.Table) {
		t.Helper()
		for _, tab := range tables {
			if !input[tab.Num] {
				t.Errorf("invariant %d: %s is no input of %s", invariant, tab, p)
			}
		}
	}
	if runs := v.Levels[p.To].Runs; p.From != p.To {
		for i := range runs {
			if runs[i].ID >= p.OutputRun() {
				isInput(1, runs[i].Overlaps(upper.smallest, upper.largest))
			}
			if runs[i].ID == p.OutputRun() {
				isInput(1, runs[i].Overlaps(p.smallest, p.largest))
			}
		}
	}
	for _, in := range p.Inputs {
		for _, older := range v.Levels[in.level].Runs {
			if older.ID >= in.run || in.level == p.To && older.ID < p.OutputRun() {
				continue
			}
			for _, tab := range in.Tables {
				isInput(2, older.Overlaps(tab.Smallest, tab.Largest))
			}
			if in.level == 0 {
				isInput(2, older.Overlaps(in.Tables[0].Smallest, in.Tables[len(in.Tables)-1].Largest))
			}
		}
	}
	for level := p.From + 1; level < p.To; level++ {
		if len(v.Levels[level].Runs) > 0 {
			t.Errorf("invariant 3: L%d is passed over by %s", level, p)
		}
	}
	older := olderTables(v, p, input)
	cursor := p.Older.cursor()
	for _, tab := range older {
		if !cursor.mayHold(tab.Smallest) && bytes.Compare(tab.Smallest, p.smallest) >= 0 {
			t.Errorf("the older %s is unknown to %s", tab, p)
		}
	}
	if len(older) > 0 && p.bottom() {
		t.Errorf("%v lie below %s", older, p)
	}
}

// olderTables returns the tables that are older than the plan's
// output and share its range, in the order of their smallest keys.
func olderTables(v *manifest.Version, p *Plan, input map[base.FileNum]bool) (older []*manifest.Table) {
	for level := p.To; level <= lastLevel; level++ {
		for _, run := range v.Levels[level].Runs {
			for _, tab := range run.Overlaps(p.smallest, p.largest) {
				if !input[tab.Num] && (level > p.To || run.ID < p.OutputRun()) {
					older = append(older, tab)
				}
			}
		}
	}
	slices.SortFunc(older, func(a, b *manifest.Table) int { return bytes.Compare(a.Smallest, b.Smallest) })
	return older
}

// idleScores returns the scores of the levels while nothing
// is in flight. A level is due if its score is at least 1.
func idleScores(v *manifest.Version, o Options) [manifest.NumLevels]float64 {
	o = o.forVersion(v)
	return scores(v, o, &InFlight{}, shapeOf(v, o, &InFlight{}))
}
