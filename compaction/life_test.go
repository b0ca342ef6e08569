package compaction

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/shaledb/shale/internal/base"
	"github.com/shaledb/shale/internal/testenv"
	"github.com/shaledb/shale/manifest"
)

// A life is a small store: real entries, real plans, real merges, several of
// them in flight at a time.
type life struct {
	t         *testing.T
	r         *rand.Rand
	o         Options
	v         *manifest.Version
	content   map[base.FileNum][]base.KV
	next      base.FileNum
	seq       base.Seq
	history   []base.KV // all that was ever written, newest first
	snapshots []base.Seq
	busy      InFlight
	running   []*job
	kinds     [4]int
	runs      int // most of a level between level 0 and the last
	mostRuns  int // that options have allowed
}

// A job is a plan whose work is done but not yet installed.
type job struct {
	plan *Plan
	edit *manifest.Edit
}

var lifeKeys = func() (keys []string) {
	for i := range 40 {
		keys = append(keys, fmt.Sprintf("k%02d", i))
	}
	return keys
}()

// flush writes some entries into a run of level 0.
func (l *life) flush() {
	first, width := l.r.IntN(len(lifeKeys)), 1+l.r.IntN(len(lifeKeys))
	var fresh []base.KV
	for range 1 + l.r.IntN(12) {
		l.seq++
		key := lifeKeys[(first+l.r.IntN(width))%len(lifeKeys)]
		kind := base.KindPut
		if l.r.IntN(2) == 0 {
			kind = base.KindDelete
		}
		kv := base.KV{InternalKey: base.NewKey([]byte(key), l.seq, kind), Value: fmt.Appendf(nil, "%d", l.seq)}
		fresh = append(fresh, kv)
		l.history = slices.Insert(l.history, 0, kv)
		if l.r.IntN(10) == 0 && len(l.snapshots) < 3 {
			l.snapshots = append(l.snapshots, l.seq)
		}
	}
	slices.SortFunc(fresh, func(a, b base.KV) int { return base.Compare(a.InternalKey, b.InternalKey) })
	run := uint64(l.next + 1)
	var out outputs
	opts := MergeOptions{Snapshots: l.snapshots, NewOutput: out.new}
	if l.r.IntN(3) == 0 { // as an ingestion does, which makes several tables
		opts.TableSize = l.o.TableSize
	}
	if _, err := Merge(context.Background(), &sliceIter{entries: fresh}, opts); err != nil {
		l.t.Fatal(err)
	}
	l.install(&manifest.Edit{Added: l.added(0, run, &out)})
}

// added gives the outputs numbers and descriptions.
func (l *life) added(level int, run uint64, out *outputs) []manifest.Added {
	var added []manifest.Added
	for _, entries := range out.tables {
		l.next++
		l.content[l.next] = entries
		t := &manifest.Table{
			Num: l.next, Size: int64(10 * len(entries)), Smallest: entries[0].UserKey, Largest: entries[len(entries)-1].UserKey,
			MinSeq: base.MaxSeq, Entries: uint64(len(entries)),
		}
		for i, kv := range entries {
			t.MinSeq, t.MaxSeq = min(t.MinSeq, kv.Seq()), max(t.MaxSeq, kv.Seq())
			if kv.Kind() == base.KindDelete {
				t.Tombstones++
			}
			if i == 0 || string(entries[i-1].UserKey) != string(kv.UserKey) {
				t.Keys++
			}
		}
		added = append(added, manifest.Added{Level: level, Run: run, Table: t})
	}
	return added
}

func (l *life) install(e *manifest.Edit) {
	next, err := l.v.Apply(e)
	if err == nil {
		err = next.Check()
	}
	if err != nil {
		l.t.Fatalf("%v\nversion\n%sedit\n%s", err, l.v, e)
	}
	l.v = next
	for level := 1; level < lastLevel; level++ {
		l.runs = max(l.runs, len(next.Levels[level].Runs))
	}
}

// options returns options in which DropSeq is up to date.
func (l *life) options() Options {
	o := l.o
	o.DropSeq = base.MaxSeq
	if len(l.snapshots) > 0 {
		o.DropSeq = l.snapshots[0]
	}
	return o
}

// begin starts a plan. It returns false if there is none.
func (l *life) begin(p Plan) bool {
	checkPlan(l.t, l.v, &p)
	l.kinds[p.Kind]++
	if p.Kind == Nothing {
		return false
	}
	j := &job{plan: &p}
	var added []manifest.Added
	if p.Kind == Merging {
		added = l.merge(&p)
	}
	j.edit = p.Edit(added...)
	l.busy.Add(&p)
	l.running = append(l.running, j)
	return true
}

// pick starts an automatic compaction. If there is none, the oldest snapshot is the
// reason only where AwaitsSnapshots says so.
func (l *life) pick() {
	if l.begin(Pick(l.v, l.options(), l.busy)) || AwaitsSnapshots(l.v) {
		return
	}
	o := l.o
	o.DropSeq = base.MaxSeq
	if p := Pick(l.v, o, l.busy); p.Kind != Nothing {
		l.t.Fatalf("without snapshots there is a plan: %s\n%s", &p, l.v)
	}
}

// merge merges the plan's inputs, sometimes in sub-ranges.
func (l *life) merge(p *Plan) []manifest.Added {
	var entries []base.KV
	for _, in := range p.Inputs {
		for _, t := range in.Tables {
			entries = append(entries, l.content[t.Num]...)
		}
	}
	slices.SortFunc(entries, func(a, b base.KV) int { return base.Compare(a.InternalKey, b.InternalKey) })
	cuts := SplitRanges(p, 1+l.r.IntN(3))
	bounds := slices.Concat([][]byte{nil}, cuts, [][]byte{nil})
	var all []manifest.Added
	var results []MergeResult
	for i := range len(cuts) + 1 {
		var out outputs
		res, err := Merge(context.Background(), &sliceIter{entries: entries}, MergeOptions{
			Snapshots: slices.Clone(l.snapshots), Older: p.Older, TableSize: p.TableSize(), Grandparents: p.Grandparents, Guards: p.Guards,
			Lower: bounds[i], Upper: bounds[i+1], NewOutput: out.new,
		})
		if err != nil {
			l.t.Fatalf("%v\nplan %s", err, p)
		}
		results = append(results, res)
		all = append(all, l.added(p.To, p.OutputRun(), &out)...)
	}
	if err := p.CheckMerged(results...); err != nil {
		l.t.Fatal(err)
	}
	l.checkParts(p, entries, all)
	return all
}

// checkParts merges the entries once more, in a single part, and compares: the tables of all parts
// must have the same entries.
func (l *life) checkParts(p *Plan, entries []base.KV, added []manifest.Added) {
	var parts []base.KV
	for _, a := range added {
		parts = append(parts, l.content[a.Table.Num]...)
	}
	var out outputs
	_, err := Merge(context.Background(), &sliceIter{entries: entries}, MergeOptions{
		Snapshots: slices.Clone(l.snapshots), Older: p.Older, NewOutput: out.new,
	})
	if err != nil {
		l.t.Fatal(err)
	}
	whole := slices.Concat(out.tables...)
	same := func(a, b base.KV) bool {
		return base.Compare(a.InternalKey, b.InternalKey) == 0 && string(a.Value) == string(b.Value)
	}
	if !slices.EqualFunc(parts, whole, same) {
		l.t.Fatalf("merged in parts: %v\nas a whole: %v\nplan %s", parts, whole, p)
	}
}

// end installs one of the running jobs, or gives it up.
func (l *life) end() {
	i := l.r.IntN(len(l.running))
	j := l.running[i]
	l.running = slices.Delete(l.running, i, i+1)
	l.busy.Remove(j.plan)
	if l.r.IntN(10) > 0 {
		l.install(j.edit)
	}
}

// read looks a key up as the store does: newest run first.
func (l *life) read(key string, seq base.Seq) string {
	for level := range l.v.Levels {
		for _, run := range l.v.Levels[level].Runs {
			for _, t := range run.Overlaps([]byte(key), []byte(key)) {
				if value, kind, ok := get(l.content[t.Num], key, seq); ok {
					if kind == base.KindDelete {
						return "-"
					}
					return value
				}
			}
		}
	}
	return "-"
}

// scan looks a key up as an iterator does: the newest of all entries counts.
func (l *life) scan(key string, seq base.Seq) string {
	var all []base.KV
	for t := range l.v.Tables() {
		all = append(all, l.content[t.Num]...)
	}
	slices.SortStableFunc(all, func(a, b base.KV) int { return base.Compare(a.InternalKey, b.InternalKey) })
	if value, kind, ok := get(all, key, seq); ok && kind == base.KindPut {
		return value
	}
	return "-"
}

func (l *life) check(what string) {
	for _, key := range lifeKeys {
		for _, seq := range append(slices.Clone(l.snapshots), l.seq) {
			want := "-"
			if value, kind, ok := get(l.history, key, seq); ok && kind == base.KindPut {
				want = value
			}
			if got := l.read(key, seq); got != want {
				l.t.Fatalf("after %s: %s at %d reads %s, want %s\n%s", what, key, seq, got, want, l.v)
			}
		}
	}
	key := lifeKeys[l.r.IntN(len(lifeKeys))]
	if got, want := l.scan(key, l.seq), l.read(key, l.seq); got != want {
		l.t.Fatalf("after %s: an iterator finds %s at %s, and a lookup %s\n%s", what, key, got, want, l.v)
	}
}

// reopen continues with other options, and without the jobs that were running.
func (l *life) reopen() {
	l.running, l.busy = nil, InFlight{}
	l.o = Options{
		MemtableSize:  100,
		TableSize:     int64(20 << l.r.IntN(3)),
		Level0Trigger: 1 + l.r.IntN(3),
		BaseBytes:     int64(30 << l.r.IntN(4)),
		multiplier:    int64(2 + l.r.IntN(3)),
		maxBytes:      int64(100 * (1 + l.r.IntN(5))),
		LevelRuns:     1 + l.r.IntN(4),
		levelTables:   int64(1 + l.r.IntN(8)),
	}
	l.mostRuns = max(l.mostRuns, l.o.LevelRuns)
}

// TestLife_NobodyCanTell runs flushes, snapshots and concurrent
// compactions, and reads everything after each step. No plan
// may bring a deleted value back, or hide a value that exists.
func TestLife_NobodyCanTell(t *testing.T) {
	testenv.SkipRace(t)
	seed, long := testenv.Seed(t), testenv.Long(t)
	begin := time.Now()
	var kinds [4]int
	runs := 0
	for n := uint64(0); n < 25 || time.Since(begin) < long; n++ {
		l := &life{t: t, r: rand.New(rand.NewPCG(seed, n)), v: &manifest.Version{}, content: make(map[base.FileNum][]base.KV)}
		l.reopen()
		var manual *Manual
		for step := range 300 {
			switch c := l.r.IntN(10); {
			case l.r.IntN(50) == 0:
				l.reopen()
				manual = nil
			case c < 3:
				l.flush()
			case c < 6 && len(l.running) < 4:
				l.pick()
			case c < 7 && len(l.snapshots) > 0:
				i := l.r.IntN(len(l.snapshots))
				l.snapshots = slices.Delete(l.snapshots, i, i+1)
			case c < 8:
				if manual == nil {
					lower := lifeKeys[l.r.IntN(len(lifeKeys))]
					manual = NewManual([]byte(lower), []byte(lower+"~"), newest(l.v))
				}
				if p, blocked := manual.Next(l.v, l.options(), l.busy); !l.begin(p) && !blocked {
					manual = nil
				}
			case len(l.running) > 0:
				l.end()
			}
			l.check(fmt.Sprintf("step %d", step))
		}
		l.settle()
		runs = max(runs, l.runs)
		if l.runs > l.mostRuns {
			t.Errorf("%d runs in a level, want %d at most", l.runs, l.mostRuns)
		}
		for i := range kinds {
			kinds[i] += l.kinds[i]
		}
	}
	t.Logf("plans: nothing %d, move %d, merge %d, drop %d; up to %d runs in a level", kinds[Nothing], kinds[Move], kinds[Merging], kinds[Drop], runs)
	if slices.Contains(kinds[:], 0) {
		t.Error("a kind of plan did not occur")
	}
	if runs < 4 {
		t.Errorf("at most %d runs in a level: several were not tried", runs)
	}
}

// settle compacts until nothing is due, and then
// the whole range. Only the newest values are left.
func (l *life) settle() {
	for len(l.running) > 0 {
		l.end()
	}
	l.snapshots = nil
	for steps := 0; l.begin(Pick(l.v, l.options(), l.busy)); steps++ {
		if steps > 1000 {
			l.t.Fatalf("compactions do not end:\n%s", l.v.Describe())
		}
		l.busy.Remove(l.running[0].plan)
		l.install(l.running[0].edit)
		l.running = nil
		l.check("settling")
	}
	all := NewManual(nil, nil, newest(l.v))
	for steps := 0; ; steps++ {
		p, blocked := all.Next(l.v, l.options(), l.busy)
		if blocked || steps > 1000 {
			l.t.Fatalf("blocked (%v) or without end:\n%s", blocked, l.v.Describe())
		}
		if !l.begin(p) {
			break
		}
		l.busy.Remove(l.running[0].plan)
		l.install(l.running[0].edit)
		l.running = nil
		l.check("compacting all")
	}
	live := uint64(0)
	for _, key := range lifeKeys {
		if l.read(key, l.seq) != "-" {
			live++
		}
	}
	sum := l.v.Totals(lastLevel)
	if n := l.v.NumTables(); n != sum.Tables || sum.Entries != live || sum.Tombstones > 0 {
		l.t.Errorf("after a compaction of all: %d entries with %d tombstones, want the %d live keys\n%s", sum.Entries, sum.Tombstones, live, l.v.Describe())
	}
}
