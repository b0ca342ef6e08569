package compaction

import (
	"math/rand/v2"
	"testing"

	"github.com/shaledb/shale/internal/base"
	"github.com/shaledb/shale/manifest"
)

// level0Shapes are levels 0 of n tables as ingestions leave them. Their keys and
// those of the tables below them are numbers below level0Keys.
var level0Shapes = []struct {
	name string
	run  func(r *rand.Rand, n, i int) (run int, lo, hi uint64)
}{
	{"one run", func(_ *rand.Rand, n, i int) (int, uint64, uint64) {
		each := level0Keys / uint64(n)
		return 0, uint64(i) * each, uint64(i)*each + each - 1
	}},
	{"runs over all keys", func(_ *rand.Rand, n, i int) (int, uint64, uint64) {
		const in = 50 // tables of a run
		each := uint64(level0Keys / in)
		return i / in, uint64(i%in) * each, uint64(i%in)*each + each - 1
	}},
	{"a run for each table, apart", func(_ *rand.Rand, n, i int) (int, uint64, uint64) {
		each := level0Keys / uint64(n)
		at := uint64(i*7919%n) * each
		return i, at, at + each - 1
	}},
	{"a run for each table, all over the keys", func(_ *rand.Rand, n, i int) (int, uint64, uint64) {
		return i, 0, level0Keys - 1
	}},
	{"a run for each table, anywhere", func(r *rand.Rand, n, i int) (int, uint64, uint64) {
		lo := r.Uint64N(level0Keys)
		return i, lo, min(level0Keys-1, lo+r.Uint64N(level0Keys/uint64(n)*8))
	}},
}

const level0Keys = 1 << 40

// level0Of returns a version with n tables in level 0, and 40 in the last level.
func level0Of(tb testing.TB, shape int, n int) *manifest.Version {
	r := rand.New(rand.NewPCG(1, 1))
	var e manifest.Edit
	for i := range 40 { // so small that level 0 is merged with them
		each := uint64(level0Keys / 40)
		t := level0Table(base.FileNum(i+1), uint64(i)*each, uint64(i)*each+each-1, 0)
		t.Size = 1 << 20
		e.Added = append(e.Added, manifest.Added{Level: lastLevel, Table: t})
	}
	for i := range n {
		run, lo, hi := level0Shapes[shape].run(r, n, i)
		num := base.FileNum(100 + i)
		e.Added = append(e.Added, manifest.Added{Level: 0, Run: uint64(run + 1), Table: level0Table(num, lo, hi, base.Seq(run+1))})
	}
	v, err := new(manifest.Version).Apply(&e)
	if err != nil {
		tb.Fatal(err)
	}
	return v
}

func level0Table(num base.FileNum, lo, hi uint64, seq base.Seq) *manifest.Table {
	return &manifest.Table{Num: num, Size: 16 << 20, Smallest: simKey(lo), Largest: simKey(hi), MinSeq: seq, MaxSeq: seq, Entries: 1000, Keys: 1000}
}

// withoutInputs returns the version after a plan that writes tables as large as the
// last level's inputs were: what comes down is assumed to replace what is there.
func withoutInputs(tb testing.TB, v *manifest.Version, p *Plan) *manifest.Version {
	e := p.Edit()
	for _, in := range p.Inputs {
		for _, t := range in.Tables {
			if in.level == lastLevel {
				again := *t
				again.Num += 1 << 40
				e.Added = append(e.Added, manifest.Added{Level: lastLevel, Run: p.OutputRun(), Table: &again})
			}
		}
	}
	next, err := v.Apply(e)
	if err != nil {
		tb.Fatal(err)
	}
	return next
}

// TestLevel0_Drained takes large levels 0 down, plan by plan.
func TestLevel0_Drained(t *testing.T) {
	for shape, s := range level0Shapes {
		const n = 500
		v := level0Of(t, shape, n)
		for {
			p := newPicker(v, Options{}, &InFlight{})
			plan, ok := p.fromLevel0(level0Query{}, "level 0")
			if !ok {
				break
			}
			checkPlan(t, v, &plan)
			v = withoutInputs(t, v, &plan)
		}
		if left := v.Totals(0).Tables; left > 0 {
			t.Errorf("%s, %d tables: %d are left", s.name, n, left)
		}
	}
}
