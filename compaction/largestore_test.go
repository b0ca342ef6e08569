package compaction

import (
	"fmt"
	"testing"

	"github.com/shaledb/shale/internal/base"
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

// largePicks are picks that look at all tables of a level. An owner of an InFlight holds its lock
// meanwhile.
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
		plan, _ := NewManual(nil, nil, base.MaxSeq).Next(&last, o, busy)
		return plan.Kind != Nothing
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

// BenchmarkPick_Large makes picks that look at all tables of a level.
func BenchmarkPick_Large(b *testing.B) {
	for _, p := range largePicks {
		for _, n := range []int{10_000, 70_000} {
			b.Run(fmt.Sprintf("%s/%d", p.name, n), func(b *testing.B) {
				v, busy := p.version(b, n)
				o := Options{TableSize: 1 << 20, BaseBytes: 1 << 20, DropSeq: base.MaxSeq}
				for b.Loop() {
					if found := p.pick(v, o, busy); found != p.want {
						b.Fatalf("a pick among %d tables finds something: %v, want %v", n, found, p.want)
					}
				}
			})
		}
	}
}
