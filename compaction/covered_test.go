package compaction

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/shaledb/shale/internal/base"
	"github.com/shaledb/shale/internal/spans"
	"github.com/shaledb/shale/internal/testenv"
	"github.com/shaledb/shale/manifest"
)

// rangesOver returns a version of n range deletes of a key each, with runs of level 0 and two levels below, of as many tables as
// runs says.
func rangesOver(n int, runs ...int) *manifest.Version {
	var all []spans.Fragment
	for i := range n {
		all = append(all, spans.NewFragment(fmt.Appendf(nil, "%08d", 2*i), fmt.Appendf(nil, "%08d", 2*i+1), []base.Seq{base.Seq(1000 + i)}))
	}
	v := new(manifest.Version)
	v.Spans, _ = spans.Join(all)
	for r, tables := range runs {
		run := manifest.Run{ID: uint64(len(runs) - r)}
		for i := range tables {
			run.Tables = append(run.Tables, &manifest.Table{
				Num: base.FileNum(r*1000 + i), Smallest: fmt.Appendf(nil, "%08d", i*2*n/tables), Largest: fmt.Appendf(nil, "%08d", (i+1)*2*n/tables-1),
				MinSeq: 1, MaxSeq: 900,
			})
		}
		level := max(0, r+3-len(runs))
		v.Levels[level].Runs = append(v.Levels[level].Runs, run)
	}
	return v
}

// A pick among 100,000 range deletes and 200 tables does not look at each over each: a hundred picks took five seconds.
func TestPickCovered_ManyOverMany(t *testing.T) {
	v := rangesOver(100_000, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 20, 160)
	begin := testenv.CPUTime()
	for range 100 {
		if plan, _ := PickCovered(v, Options{}, InFlight{}); plan.Kind != Nothing {
			t.Fatalf("%v is picked", plan.String())
		}
	}
	if took := testenv.CPUTime() - begin; took > time.Second {
		t.Errorf("100 picks take %v", took)
	}
}

// What is picked is what the rules say of each range delete and each table: with tables that are clean, or newer, with snapshots,
// and with tables that go.
func TestPickCovered_Rules(t *testing.T) {
	r := rand.New(rand.NewPCG(testenv.Seed(t), 21))
	key := func(i int) []byte { return fmt.Appendf(nil, "%03d", i) }
	finished, dropped := 0, 0
	for range 2000 {
		v := new(manifest.Version)
		for range r.IntN(40) {
			lower := r.IntN(100)
			upper := key(lower + 1 + r.IntN(12))
			if r.IntN(50) == 0 {
				upper = nil
			}
			v.Spans = v.Spans.With(key(lower), upper, base.Seq(1+r.IntN(100)))
		}
		v.Spans = v.Spans.UpTo(base.MaxSeq) // the sets of versions come from manifests
		for n := range 1 + r.IntN(4) {
			run := manifest.Run{ID: uint64(10 - n)}
			for at := r.IntN(20); at < 100; at += 1 + r.IntN(30) {
				least := base.Seq(r.IntN(100))
				table := &manifest.Table{Num: base.FileNum(1000*n + at), Smallest: key(at), MinSeq: least, MaxSeq: least + base.Seq(r.IntN(10))}
				if r.IntN(2) == 0 {
					table.Clean = base.Seq(r.IntN(100))
				}
				at += r.IntN(20)
				table.Largest = key(at)
				run.Tables = append(run.Tables, table)
			}
			v.Levels[n].Runs = append(v.Levels[n].Runs, run)
		}
		var o Options
		for range r.IntN(3) {
			o.Snapshots = append(o.Snapshots, base.Seq(r.IntN(110)))
		}
		slices.Sort(o.Snapshots)
		plan, _ := PickCovered(v, o, InFlight{})
		if v.Spans.Empty() {
			continue
		}
		// A table goes if each reader that sees an entry of it sees all of its keys covered by newer numbers.
		gone := make(map[base.FileNum]bool)
		for table := range v.Tables() {
			seen := base.MaxSeq
			for _, s := range slices.Backward(o.Snapshots) {
				if s >= table.MinSeq {
					seen = s
				}
			}
			covered := true
			for i := range 200 { // all bounds are such keys
				if k := key(i); bytes.Compare(table.Smallest, k) <= 0 && bytes.Compare(k, table.Largest) <= 0 {
					covered = covered && v.Spans.Cover(k, seen) > table.MaxSeq
				}
			}
			if covered {
				gone[table.Num] = true
			}
		}
		for _, in := range plan.Inputs {
			for _, table := range in.Tables {
				if !gone[table.Num] {
					t.Fatalf("table %d must not go: %v", table.Num, v)
				}
				dropped++
			}
		}
		if n := plan.inputTables(); n != len(gone) {
			t.Fatalf("%d tables go, want %d of\n%v", n, len(gone), v)
		}
		// A number of a range delete is finished if no table that overlaps it may have older entries which are covered.
		after := v.Spans
		for _, f := range plan.Finished {
			after = after.Without(f.Lower, f.Upper, f.Seq)
		}
		want := v.Spans
		for f := range v.Spans.All() {
			upto := base.MaxSeq
			if len(o.Snapshots) > 0 {
				upto = o.Snapshots[0]
			}
			for table := range v.Tables() {
				if gone[table.Num] || f.Upper != nil && bytes.Compare(table.Smallest, f.Upper) >= 0 || bytes.Compare(table.Largest, f.Lower) < 0 {
					continue
				}
				upto = min(upto, max(table.Clean, max(table.MinSeq, 1)-1))
			}
			want = want.Without(f.Lower, f.Upper, upto)
		}
		if !after.Equal(want) {
			t.Fatalf("%v are finished of\n%v", plan.Finished, v)
		}
		if !want.Equal(v.Spans) {
			finished++
		}
	}
	if finished < 100 || dropped < 100 {
		t.Errorf("only %d versions had finished range deletes, and %d tables went", finished, dropped)
	}
}
