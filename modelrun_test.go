package shale

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/shaledb/shale/internal/testenv"
	"github.com/shaledb/shale/vfs"
)

// A chooser makes the choices of a model run.
type chooser interface {
	// choose returns a number in [0, n).
	choose(what string, n int) int
}

type rapidChooser struct{ t *rapid.T }

func (c rapidChooser) choose(what string, n int) int { return rapid.IntRange(0, n-1).Draw(c.t, what) }

type randomChooser struct{ *rand.Rand }

func (c randomChooser) choose(_ string, n int) int { return c.IntN(n) }

// A modelRun is a store beside its model. Actions panic with a modelFailure
// when the two differ.
type modelRun struct {
	chooser
	model
	opts Options
	mem  *vfs.Mem
	db   *DB

	serial    int // makes values unique
	snapshots []modelSnapshot
	iterators []modelIterator
	copy      modelState // what the checkpoint holds
	copyDir   string     // empty: there is none
	copies    int

	counts  map[string]int // of actions
	hits    int            // keys asked that were there
	misses  int
	deepest int // levels seen
}

type modelSnapshot struct {
	*Snapshot
	state modelState
}

type modelIterator struct {
	*Iterator
	modelCursor
}

type modelFailure struct{ err error }

func newModelRun(c chooser) *modelRun {
	r := &modelRun{chooser: c, mem: vfs.NewMem(), counts: make(map[string]int)}
	r.open()
	return r
}

func (r *modelRun) failf(format string, args ...any) {
	panic(modelFailure{fmt.Errorf(format, args...)})
}

func (r *modelRun) must(what string, err error) {
	if err != nil {
		r.failf("%s: %w", what, err)
	}
}

// modelPrefixes are rules by which many of modelKeys share prefixes, some are
// prefixes, and some have none.
var modelPrefixes = []PrefixRule{{}, FixedPrefix(1), FixedPrefix(5), FixedPrefix(10), DelimitedPrefix('0', 2), DelimitedPrefix(0, 1), DelimitedPrefix(0xff, 2)}

// open opens the store with options of the moment: none of them may change an
// answer.
func (r *modelRun) open() {
	r.opts = drawOptions(r, r.mem)
	db, err := Open("db", &r.opts)
	r.must("Open", err)
	r.db = db
}

// letGo closes what is held of the store.
func (r *modelRun) letGo() {
	for _, it := range r.iterators {
		r.must("Iterator.Close", it.Close())
	}
	for _, s := range r.snapshots {
		r.must("Snapshot.Close", s.Close())
	}
	r.iterators, r.snapshots = nil, nil
}

// end closes the store and checks that nothing is left.
func (r *modelRun) end() {
	r.letGo()
	r.actionVerify()
	r.must("Close", r.db.Close())
	if n := r.mem.OpenFiles(); n != 0 {
		r.failf("%d files are left open", n)
	}
}

// abandon closes the store after a failure.
func (r *modelRun) abandon() {
	if r.db != nil {
		_ = r.db.Close() // the failure is reported already
	}
}

// actions are what a step may be, with how often it should be.
func (r *modelRun) actions() map[string]modelAction {
	return map[string]modelAction{
		"put":         {20, r.actionPut},
		"delete":      {8, r.actionDelete},
		"batch":       {10, r.actionBatch},
		"fill":        {4, r.actionFill},
		"putIfAbsent": {6, r.actionPutIfAbsent},
		"get":         {20, r.actionGet},
		"getMany":     {6, r.actionGetMany},
		"scan":        {10, r.actionScan},
		"snapshot":    {4, r.actionSnapshot},
		"readOld":     {8, r.actionReadSnapshot},
		"iterator":    {4, r.actionIterator},
		"move":        {20, r.actionMove},
		"sync":        {2, r.actionSync},
		"flush":       {4, r.actionFlush},
		"compact":     {2, r.actionCompact},
		"checkpoint":  {1, r.actionCheckpoint},
		"reopen":      {2, r.actionReopen},
		"readOnly":    {1, r.actionReadOnly},
		"crash":       {2, r.actionCrash},
		"kill":        {1, r.actionKill},
		"verify":      {1, r.actionVerify},
		"rebuild":     {2, r.actionRebuildFilters},
		"ingest":      {2, r.actionIngest},
		"export":      {1, r.actionExportFilters},
	}
}

type modelAction struct {
	weight int
	do     func()
}

// attempt runs fn and returns the failure in it.
func (r *modelRun) attempt(fn func()) (err error) {
	defer func() {
		if p := recover(); p != nil {
			f, ok := p.(modelFailure)
			if !ok {
				panic(p)
			}
			err = fmt.Errorf("%w; %s", f.err, optionsText(&r.opts))
		}
	}()
	fn()
	return nil
}

// The whole API against a sorted slice, in runs that rapid shrinks when they
// fail. It prints how to run the shortest failure again.
func TestModel_Rapid(t *testing.T) {
	checkLeaks(t)
	setFlag(t, "rapid.steps", "120")
	setFlag(t, "rapid.checks", "90")
	setFlag(t, "rapid.shrinktime", "20s")
	rapid.Check(t, func(t *rapid.T) {
		r := newModelRun(rapidChooser{t})
		defer r.abandon()
		steps := make(map[string]func(*rapid.T))
		for name, a := range r.actions() {
			for i := range (a.weight + 3) / 4 {
				steps[fmt.Sprint(name, i)] = func(t *rapid.T) {
					r.chooser = rapidChooser{t}
					if err := r.attempt(a.do); err != nil {
						t.Fatalf("%s: %v", name, err)
					}
				}
			}
		}
		t.Repeat(steps)
		r.chooser = rapidChooser{t}
		if err := r.attempt(r.end); err != nil {
			t.Fatalf("at the end: %v", err)
		}
	})
}

// setFlag sets a flag of a package for the duration of the test, unless it was
// given on the command line.
func setFlag(t *testing.T, name, value string) {
	t.Helper()
	given := false
	flag.Visit(func(f *flag.Flag) { given = given || f.Name == name })
	if f := flag.Lookup(name); f != nil && !given {
		old := f.Value.String()
		if err := f.Value.Set(value); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = f.Value.Set(old) }) // it was good before
	}
}

// The same in a few long random lives, which see deeper trees: as many steps
// as fit in three seconds, or in the time that SHALE_LONG gives.
func TestModel_Random(t *testing.T) {
	checkLeaks(t)
	seed := testenv.Seed(t)
	limit := 4 * time.Second
	if testing.Short() {
		limit = 2 * time.Second
	}
	limit = max(limit, testenv.Long(t))
	begin := time.Now()
	total, deepest, hits, asked := make(map[string]int), 0, 0, 0
	for life := uint64(0); time.Since(begin) < limit; life++ {
		r := newModelRun(randomChooser{rand.New(rand.NewPCG(seed, life))})
		for step := 0; step < 3000 && time.Since(begin) < limit; step++ {
			if err := r.attempt(r.randomStep); err != nil {
				r.abandon()
				t.Fatalf("seed %d, life %d, step %d: %v", seed, life, step, err)
			}
		}
		if err := r.attempt(r.end); err != nil {
			t.Fatalf("seed %d, life %d, at the end: %v", seed, life, err)
		}
		for name, n := range r.counts {
			total[name] += n
		}
		deepest, hits, asked = max(deepest, r.deepest), hits+r.hits, asked+r.hits+r.misses
	}
	steps := 0
	var histogram []string
	for name, n := range total {
		steps += n
		histogram = append(histogram, fmt.Sprintf("%s %d", name, n))
	}
	slices.Sort(histogram)
	t.Logf("%d steps, %d levels, %d of %d keys asked were there: %s", steps, deepest, hits, asked, strings.Join(histogram, ", "))
	if 2*hits < asked {
		t.Errorf("only %d of %d keys asked were there", hits, asked)
	}
}

// randomStep does one action, by weight.
func (r *modelRun) randomStep() {
	actions := r.actions()
	names := make([]string, 0, len(actions))
	sum := 0
	for name, a := range actions {
		names = append(names, name)
		sum += a.weight
	}
	slices.Sort(names)
	n := r.choose("action", sum)
	for _, name := range names {
		if n -= actions[name].weight; n < 0 {
			r.counts[name]++
			actions[name].do()
			return
		}
	}
}
