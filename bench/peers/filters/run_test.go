package main

import (
	"encoding/json"
	"errors"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/shaledb/shale/bench/peers/internal/keys"
)

// All filters do all workloads, small; answers and rates are right.
func TestRun(t *testing.T) {
	for _, kind := range []string{"random", "structured"} {
		if kind == "structured" && testing.Short() {
			continue
		}
		t.Run(kind, func(t *testing.T) { testRun(t, kind) })
	}
}

func testRun(t *testing.T, kind string) {
	file := filepath.Join(t.TempDir(), "results.json")
	c, err := parse([]string{"-short", "-keys", kind, "-json", file}, t.Output())
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	if err := run(c, contestants(), &out, t.Output()); err != nil {
		t.Fatal(err)
	}
	t.Logf("\n%s", out.String())
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var r report
	if err := json.Unmarshal(data, &r); err != nil {
		t.Fatal(err)
	}
	if want := len(c.sizes) * len(contestants()); len(r.Filters) != want {
		t.Errorf("%d filters, want %d", len(r.Filters), want)
	}
	for _, f := range r.Filters {
		if f.Measured == nil || f.BitsPerKey < 6 || !strings.Contains(out.String(), f.Filter) {
			t.Errorf("%+v: no rate, too small, or not in the table", f)
		}
		// Structured keys are asked for more than once, and weak hashes like them
		// more or less than theory does.
		// BoomFilters' parts share one fnv, and are not independent.
		if f.Theory != nil && kind == "random" && f.Keys >= 10_000 && f.Filter != "BoomFilters Scalable" {
			checkRate(t, f)
		}
	}
	for _, x := range r.Results {
		if x.Median <= 0 || x.Least > x.Median || len(x.Nanos) != c.rounds {
			t.Errorf("%+v: no time, or not of %d rounds", x, c.rounds)
		}
		if x.Work != "add" && strings.HasPrefix(x.Filter, "shale") && x.Allocs > 0.01 {
			t.Errorf("%s %s %s allocates %.3f times", x.Filter, x.Work, x.Form, x.Allocs)
		}
	}
	if len(r.Targets) == 0 {
		t.Error("no targets")
	}
}

// checkRate wants a rate within five standard deviations and a tenth of theory,
// which the smallest filters do not keep to exactly.
func checkRate(t *testing.T, f *filterReport) {
	t.Helper()
	p, n := *f.Theory, float64(f.Absent)
	if slack := 5*math.Sqrt(p*(1-p)/n) + p/10; math.Abs(*f.Measured-p) > slack {
		t.Errorf("%s, %d keys: %.4f %% false positives, in theory %.4f ± %.4f %%", f.Filter, f.Keys, 100**f.Measured, 100*p, 100*slack)
	}
}

// A filter that denies a present key ends the run, and so do one that answers
// otherwise by hashes and one that forgets what it was not asked to.
func TestRun_WrongAnswers(t *testing.T) {
	for name, broken := range map[string]filter{
		"denies":                  &liar{hit: -1},
		"denies by hash":          &liar{hashHit: -1},
		"other rate by hash":      &liar{hashMiss: 1},
		"forgets what it may not": &liar{afterRemove: -1},
		"does not forget":         &liar{keeps: true},
	} {
		c, err := parse([]string{"-short"}, t.Output())
		if err != nil {
			t.Fatal(err)
		}
		all := []contestant{{removal, "liar", "", true, func(int) (filter, error) { return broken, nil }}}
		var out strings.Builder
		if err := run(c, all, &out, t.Output()); err == nil || !strings.Contains(err.Error(), "wrong answers") || !strings.Contains(err.Error(), "liar") {
			t.Errorf("%s: run: %v, want wrong answers of the liar", name, err)
		}
	}
	c, err := parse([]string{"-short", "-only", "liar"}, t.Output())
	if err != nil {
		t.Fatal(err)
	}
	honest := []contestant{{removal, "liar", "", true, func(int) (filter, error) { return &liar{}, nil }}}
	var out strings.Builder
	if err := run(c, honest, &out, t.Output()); err != nil {
		t.Errorf("run without a lie: %v", err)
	}
}

// A filter that refuses a key now and then is filled anew, one that always does
// ends the run.
func TestRun_Refusals(t *testing.T) {
	c, err := parse([]string{"-short"}, t.Output())
	if err != nil {
		t.Fatal(err)
	}
	for refusals, fails := range map[int]bool{3: false, 1000: true} {
		l := &liar{refusals: refusals}
		var out strings.Builder
		err := run(c, []contestant{{removal, "liar", "", true, func(int) (filter, error) { return l, nil }}}, &out, t.Output())
		if fails != errors.Is(err, errFull) || !fails && err != nil {
			t.Errorf("run with %d refusals: %v", refusals, err)
		}
		if !fails && !strings.Contains(out.String(), "liar refused a key of the 10 000 that it was sized for, and was filled anew: 3 times") {
			t.Errorf("the report does not tell of %d refusals:\n%s", refusals, out.String())
		}
	}
}

// A liar knows which keys are asked for, but for what it adds to the answers.
type liar struct {
	hit, hashHit, hashMiss, afterRemove int
	keeps                               bool

	refusals int // times that a key is still to be refused
	removed  int // keys that were removed and not added again
}

func (l *liar) add(keys.Slab) error {
	l.removed = 0
	if l.refusals > 0 {
		l.refusals--
		return errFull
	}
	return nil
}

func (l *liar) ask(k keys.Slab) int {
	switch {
	case k.Absent():
		return 0
	case l.removed == 0:
		return k.Len() + l.hit
	}
	l.removed++
	if l.removed == 2 { // the first question is for the others
		return k.Len() + l.afterRemove
	}
	if l.keeps {
		return k.Len()
	}
	return 0
}

func (l *liar) remove(keys.Slab) error {
	l.removed = 1
	return nil
}

func (l *liar) hash(k keys.Slab, h []uint64) []uint64 {
	for range k.Len() {
		if k.Absent() {
			h = append(h, 0)
		} else {
			h = append(h, 1)
		}
	}
	return h
}

func (l *liar) addHashes([]uint64) error { return nil }

func (l *liar) askHashes(h []uint64) (maybe int) {
	for _, h := range h {
		maybe += int(h)
	}
	if maybe == 0 {
		return l.hashMiss
	}
	return maybe + l.hashHit
}

func (l *liar) bits() float64   { return 1 }
func (l *liar) theory() float64 { return unknown }
