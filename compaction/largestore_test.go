package compaction

import (
	"testing"
	"time"

	"github.com/shaledb/shale/internal/base"
	"github.com/shaledb/shale/internal/testenv"
	"github.com/shaledb/shale/manifest"
)

// largeStore returns a version with n tables in the last level and a sixth of them in the level
// above, which is due. change may change a table before it is added.
func largeStore(tb testing.TB, n int, change func(level, i int, t *manifest.Table)) *manifest.Version {
	e := new(manifest.Edit)
	num := base.FileNum(0)
	add := func(level, i int, lo, hi uint64) {
		num++
		t := &manifest.Table{Num: num, Size: 1 << 20, Smallest: simKey(lo), Largest: simKey(hi), MinSeq: 1, MaxSeq: 1, Entries: 1000, Keys: 1000}
		if change != nil {
			change(level, i, t)
		}
		e.Added = append(e.Added, manifest.Added{Level: level, Table: t})
	}
	for i := range n {
		add(lastLevel, i, uint64(10*i), uint64(10*i+9))
	}
	for i := range n / 6 {
		add(lastLevel-1, i, uint64(60*i+5), uint64(60*i+54))
	}
	v, err := new(manifest.Version).Apply(e)
	if err != nil {
		tb.Fatal(err)
	}
	return v
}

// A largePick is a pick in a large store. change changes its tables, and busy what is in flight.
type largePick struct {
	name   string
	change func(n int) func(level, i int, t *manifest.Table)
	busy   func(n int, busy *InFlight)
	pick   func(v *manifest.Version, o Options, busy InFlight) (found bool)
	want   bool
}

// version returns a store of about n tables, and what is in flight.
func (p *largePick) version(tb testing.TB, n int) (*manifest.Version, InFlight) {
	var change func(level, i int, t *manifest.Table)
	if p.change != nil {
		change = p.change(n)
	}
	var busy InFlight
	if p.busy != nil {
		p.busy(n, &busy)
	}
	return largeStore(tb, n, change), busy
}

// largePicks are picks that would have to look at all tables of a large store, if they looked at
// one after the other. An owner of an InFlight holds its lock meanwhile.
var largePicks = []largePick{
	{"while all of the last level is written to", nil, func(n int, busy *InFlight) {
		busy.Add(&Plan{From: lastLevel, To: lastLevel, smallest: simKey(0), largest: simKey(uint64(10 * n))})
	}, pickFound, false},
	{"while all but the last tables are written to", nil, func(n int, busy *InFlight) {
		busy.Add(&Plan{From: lastLevel, To: lastLevel, smallest: simKey(0), largest: simKey(uint64(10*n - 200))})
	}, pickFound, true},
	{"with tombstones everywhere", func(int) func(level, i int, t *manifest.Table) {
		return func(_, i int, t *manifest.Table) { t.Tombstones = 300 + uint64(i%100) }
	}, nil, tombstonesFound, true},
	{"with tombstones in one table", func(n int) func(level, i int, t *manifest.Table) {
		return func(_, i int, t *manifest.Table) {
			if i == n-1 {
				t.Tombstones = 300
			}
		}
	}, nil, tombstonesFound, true},
	{"step of a range compaction from level 5", nil, nil, func(v *manifest.Version, o Options, busy InFlight) bool {
		plan, _ := NewManual(nil, nil, base.MaxSeq).Next(v, o, busy)
		return plan.Kind != Nothing && plan.From == lastLevel-1
	}, true},
	{"step of a range compaction whose range has nothing", nil, nil, func(v *manifest.Version, o Options, busy InFlight) bool {
		plan, blocked := NewManual([]byte{0xff}, nil, base.MaxSeq).Next(v, o, busy)
		return plan.Kind != Nothing || blocked
	}, false},
	{"step of a range compaction that has one table left to rewrite", func(n int) func(level, i int, t *manifest.Table) {
		return func(level, i int, t *manifest.Table) {
			if level == lastLevel && i == n-1 {
				t.Keys--
			}
		}
	}, nil, func(v *manifest.Version, o Options, busy InFlight) bool {
		last := *v // without the level above, which would come first
		last.Levels[lastLevel-1] = manifest.Level{}
		v = &last
		job := NewManual(nil, nil, base.MaxSeq)
		job.Next(v, o, busy)
		return job.More()
	}, true},
}

func pickFound(v *manifest.Version, o Options, busy InFlight) bool {
	return Pick(v, o, busy).Kind != Nothing
}

// tombstonesFound is pickFound as if no level were due.
func tombstonesFound(v *manifest.Version, o Options, busy InFlight) bool {
	_, found := newPicker(v, o, &busy).pickTombstones()
	return found
}

// No pick looks at all tables of a level, whatever keeps it from taking the first ones.
func TestPick_NotLinear(t *testing.T) {
	if testenv.Race {
		t.Skip("the race detector makes times meaningless")
	}
	const few, many = 6_000, 300_000
	for _, p := range largePicks {
		var times [2]time.Duration
		for i, n := range []int{few, many} {
			v, busy := p.version(t, n)
			o := Options{TableSize: 1 << 20, BaseBytes: 1 << 20, DropSeq: base.MaxSeq}
			times[i] = time.Hour
			for range 30 { // other programs take the processor's cache away
				begin := time.Now()
				if found := p.pick(v, o, busy); found != p.want {
					t.Fatalf("%s: a pick among %d tables finds something: %v, want %v", p.name, n, found, p.want)
				}
				times[i] = min(times[i], time.Since(begin))
			}
		}
		t.Logf("%-60s %8v of %d tables, %8v of %d", p.name, times[0], few, times[1], many)
		if times[1] > 10*times[0]+500*time.Microsecond {
			t.Errorf("a pick %s takes %v among %d tables, and %v among %d", p.name, times[0], few, times[1], many)
		}
	}
}

// A range compaction that has looked at as many tables as it may goes on behind them, and comes to
// the one that it has to rewrite.
func TestManual_GoesOn(t *testing.T) {
	v := largeStore(t, 5*mostLooks/2, func(level, i int, t *manifest.Table) {
		if level == lastLevel && i == 5*mostLooks/2-1 {
			t.Keys--
		}
	})
	v.Levels[lastLevel-1] = manifest.Level{}
	job := NewManual(nil, nil, base.MaxSeq)
	for calls := 1; ; calls++ {
		if ready := job.Ready(v, Options{DropSeq: base.MaxSeq}, InFlight{}); ready != (calls == 3) {
			t.Errorf("before call %d, Ready is %v", calls, ready)
		}
		plan, blocked := job.Next(v, Options{DropSeq: base.MaxSeq}, InFlight{})
		if job.More() && calls < 3 {
			continue
		}
		checkPlan(t, v, &plan)
		if plan.Kind != Merging || plan.inputTables() != 1 || blocked || calls != 3 {
			t.Errorf("call %d returns %v, blocked %v, and more %v; want the third to rewrite one table", calls, plan.Kind, blocked, job.More())
		}
		return
	}
}
