package compaction

import (
	"fmt"
	"math/bits"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/shaledb/shale/internal/base"
	"github.com/shaledb/shale/internal/testenv"
	"github.com/shaledb/shale/manifest"
)

// TestLevel0Index_AsOneByOne changes level 0 at random, and compares each
// query with one that looks at all tables.
func TestLevel0Index_AsOneByOne(t *testing.T) {
	r := rand.New(rand.NewPCG(testenv.Seed(t), 1))
	for range 30 {
		x := new(level0Index)
		var runs []manifest.Run
		next := base.FileNum(0)
		for range 60 {
			switch {
			case r.IntN(3) > 0 || len(runs) == 0:
				run := manifest.Run{ID: uint64(next + 1)}
				for lo := r.IntN(100); lo < 100 && len(run.Tables) < 1+r.IntN(5); lo += 1 + r.IntN(20) {
					hi := min(99, lo+r.IntN(30))
					next++
					run.Tables = append(run.Tables, &manifest.Table{Num: next, Smallest: fmt.Appendf(nil, "%02d", lo), Largest: fmt.Appendf(nil, "%02d", hi)})
					lo = hi
				}
				runs = append([]manifest.Run{run}, runs...)
			default:
				i := r.IntN(len(runs))
				runs = slices.Clone(runs)
				at := r.IntN(len(runs[i].Tables))
				runs[i].Tables = slices.Delete(slices.Clone(runs[i].Tables), at, at+1)
				if len(runs[i].Tables) == 0 {
					runs = slices.Delete(runs, i, i+1)
				}
			}
			x.update(runs)
			for range 5 {
				compareQueries(t, r, x, runs)
			}
		}
	}
}

// randomSpan returns a range, which may lack an upper bound if open is set.
func randomSpan(r *rand.Rand, open bool) span {
	lo := r.IntN(100)
	if open && r.IntN(5) == 0 {
		return span{lo: fmt.Appendf(nil, "%02d", lo)}
	}
	return span{fmt.Appendf(nil, "%02d", lo), fmt.Appendf(nil, "%02d", min(99, lo+r.IntN(40)))}
}

func overlap(t *manifest.Table, s span) bool {
	return string(t.Largest) >= string(s.lo) && (s.hi == nil || string(t.Smallest) <= string(s.hi))
}

func compareQueries(t *testing.T, r *rand.Rand, x *level0Index, runs []manifest.Run) {
	t.Helper()
	q := level0Query{span: randomSpan(r, true)}
	for range r.IntN(3) {
		q.blocked = append(q.blocked, level0Block{randomSpan(r, false), uint64(r.IntN(100))})
	}
	if r.IntN(3) == 0 {
		q.wanted = func(t *manifest.Table) bool { return t.Num%3 == 0 }
	}
	in, except := randomSpan(r, false), span{}
	if r.IntN(2) == 0 { // the middle of it
		except = in
		in = span{[]byte(string(in.lo[0]-1) + "5"), []byte(string(in.hi[0]+1) + "5")}
	}
	newest := uint64(r.IntN(100))

	var want young
	wantUpTo := make(map[base.FileNum]bool)
	for i := len(runs) - 1; i >= 0; i-- {
		for _, tab := range runs[i].Tables {
			free := overlap(tab, q.span) && (q.wanted == nil || q.wanted(tab))
			for _, b := range q.blocked {
				free = free && !(runs[i].ID >= b.from && overlap(tab, b.span))
			}
			if free && want.Table == nil {
				want = young{tab, runs[i].ID}
			}
			if runs[i].ID <= newest && overlap(tab, in) && !(except.hi != nil && overlap(tab, except)) {
				wantUpTo[tab.Num] = true
			}
		}
	}
	if got, ok := x.oldest(q); got != want || ok != (want.Table != nil) {
		t.Fatalf("the oldest in %s is %v, %v, want %v", q.span, got, ok, want)
	}
	x.upTo(newest, in, except, func(y young) bool {
		if !wantUpTo[y.Num] {
			t.Errorf("%s of run %d is among those in %s without %s up to run %d", y.Table, y.run, in, except, newest)
		}
		delete(wantUpTo, y.Num)
		return true
	})
	if len(wantUpTo) > 0 {
		t.Errorf("%v are missing in %s without %s up to run %d", wantUpTo, in, except, newest)
	}
}

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

// TestLevel0_WorkOfPicks drains large levels 0, and counts the comparisons of keys. The
// first pick sorts the runs. Each later one looks at what has changed, at the tables that
// it picks, and at a bounded number of runs, whatever the number of tables is.
func TestLevel0_WorkOfPicks(t *testing.T) {
	for shape, s := range level0Shapes {
		for _, n := range []int{500, 4000} {
			v := level0Of(t, shape, n)
			busy := NewInFlight()
			first, most, picks, sum := 0, 0, 0, 0
			for {
				busy.index.work = 0
				p := newPicker(v, Options{}, &busy)
				plan, ok := p.fromLevel0(level0Query{}, "level 0")
				if !ok {
					break
				}
				if picks%50 == 0 {
					checkPlan(t, v, &plan)
				}
				work := busy.index.work
				if picks++; picks == 1 {
					first = work
				} else {
					most = max(most, work)
				}
				sum += work
				v = withoutInputs(t, v, &plan)
			}
			t.Logf("%s, %d tables: %d picks, %d comparisons, %d by the first, then at most %d", s.name, n, picks, sum, first, most)
			if left := v.Totals(0).Tables; left > 0 {
				t.Errorf("%s, %d tables: %d are left", s.name, n, left)
			}
			if limit := 3*n*bits.Len(uint(n)) + 10_000; first > limit {
				t.Errorf("%s, %d tables: the first pick made %d comparisons, want %d at most", s.name, n, first, limit)
			}
			if limit := 20_000; most > limit {
				t.Errorf("%s, %d tables: a pick made %d comparisons, want %d at most", s.name, n, most, limit)
			}
		}
	}
}

// BenchmarkLevel0 picks a compaction of a level 0 of many tables: the first one, and one after a
// compaction has changed the level. A scheduler's lock is held as long as one operation takes.
func BenchmarkLevel0(b *testing.B) {
	for shape, s := range level0Shapes {
		for _, n := range []int{1000, 12_800, 100_000} {
			v := level0Of(b, shape, n)
			pick := func(v *manifest.Version, busy *InFlight) Plan {
				p := newPicker(v, Options{}, busy)
				scores(v, p.opts, busy, p.shape)
				plan, ok := p.fromLevel0(level0Query{}, "level 0")
				if !ok {
					b.Fatal("nothing is picked")
				}
				return plan
			}
			b.Run(fmt.Sprintf("%s/%d/first", s.name, n), func(b *testing.B) {
				for b.Loop() {
					busy := NewInFlight()
					pick(v, &busy)
				}
			})
			b.Run(fmt.Sprintf("%s/%d/next", s.name, n), func(b *testing.B) {
				busy := NewInFlight()
				plan := pick(v, &busy)
				versions := [2]*manifest.Version{v, withoutInputs(b, v, &plan)}
				for i := 0; b.Loop(); i++ {
					pick(versions[i%2], &busy)
				}
			})
		}
	}
}

// What two owners of a lock have found out at once is learnt once. The second one's is about a
// level 0 that the index does not describe any more.
func TestLevel0Index_LearnsOnce(t *testing.T) {
	r := rand.New(rand.NewPCG(testenv.Seed(t), 2))
	v := level0Of(t, 4, 3*fewYoung)
	busy := NewInFlight()
	if busy.Level0Change(level0Of(t, 4, fewYoung)) != nil {
		t.Error("of few runs there is something to find out without the lock")
	}
	first := busy.Level0Change(v)
	first.Prepare()
	busy.Learn(first)
	if busy.Level0Change(v) != nil {
		t.Error("what was learnt is to be found out again")
	}
	without := func(n int) *manifest.Version {
		e := new(manifest.Edit)
		for _, run := range v.Levels[0].Runs[:n] {
			e.Removed = append(e.Removed, manifest.Removed{Level: 0, Num: run.Tables[0].Num, Table: run.Tables[0]})
		}
		next, err := v.Apply(e)
		if err != nil {
			t.Fatal(err)
		}
		return next
	}
	// Two changes from the same state: some runs go, and more of them.
	less, least := without(fewYoung/2), without(fewYoung)
	second, third := busy.Level0Change(less), busy.Level0Change(least)
	second.Prepare()
	third.Prepare()
	busy.Learn(third)
	busy.Learn(second)
	for _, now := range []*manifest.Version{less, least} {
		x := busy.level0(now)
		for range 20 {
			compareQueries(t, r, x, now.Levels[0].Runs)
		}
		if n := countNodes(x.root); n != len(now.Levels[0].Runs) {
			t.Errorf("the index has %d runs, want %d", n, len(now.Levels[0].Runs))
		}
	}
	// So many changes that the index is made anew.
	many := level0Of(t, 2, 2*mostMoved)
	change := busy.Level0Change(many)
	change.Prepare()
	busy.Learn(change)
	if n := countNodes(busy.index.root); change.whole == nil || n != 2*mostMoved {
		t.Errorf("the new index has %d runs, want %d", n, 2*mostMoved)
	}
}

func countNodes(n *runNode) int {
	if n == nil {
		return 0
	}
	return 1 + countNodes(n.left) + countNodes(n.right)
}
