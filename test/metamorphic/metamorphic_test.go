// Package metamorphic runs the same programs on stores with different options. None of the options
// may change an answer, whatever happens to the store: closing, crashes, the death of the process.
package metamorphic

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/shaledb/shale"
	"github.com/shaledb/shale/internal/testenv"
	"github.com/shaledb/shale/test/harness"
)

// figures are what programs have come by, so that a test which tests little can be told.
type figures struct {
	programs, steps, deepest, found, asked, refused int
	counts                                          map[string]int
}

// run runs a program on a store with options of the seed.
func (f *figures) run(p harness.Program, seed uint64, part harness.Part, large bool) error {
	l := harness.NewLife(seed)
	l.Part, l.Encrypted = part, seed>>32%2 == 1
	if large {
		l.Options = func(n int) shale.Options {
			return harness.DrawLarge(rand.New(rand.NewPCG(seed, uint64(n))), nil)
		}
	}
	l.Look = func(l *harness.Life) { f.deepest = max(f.deepest, harness.Levels(l.DB)) }
	err := harness.RunLife(l, p)
	f.found, f.asked, f.refused = f.found+l.Found, f.asked+l.Asked, f.refused+l.Refused
	return err
}

// parts are where in a store programs run. Those with long keys leave no room for a prefix.
var parts = []harness.Part{{}, harness.Sub(""), harness.Sub("a/"), harness.Sub("\xff\xff")}

// Each program gives the answers of the model, under all options, and in a part of a store as in the whole. The keys are
// short ones in every other program, and up to as long as keys can be in the others.
func TestPrograms(t *testing.T) {
	testenv.CheckLeaks(t)
	seed, long := testenv.Seed(t), testenv.Long(t)
	limit, length, least := 8*time.Second, 300, uint64(4)
	if testing.Short() {
		limit = 3 * time.Second
	}
	if testenv.Race {
		length, least = 100, 2
	}
	f := figures{counts: make(map[string]int)}
	begin := time.Now()
	for n := uint64(0); n < least || time.Since(begin) < max(limit, long); n++ {
		// All depends on this number, so that it gives the same program again.
		drawn := seed + n
		keys, parts := harness.ShortKeys, parts
		if drawn%2 == 1 {
			keys, parts = harness.AllKeys, parts[:2]
		}
		p := harness.DrawProgram(drawn, length<<(drawn%4), harness.NewSource(keys), harness.Operations, harness.LifeOperations)
		for set := range uint64(3) { // each with other options
			part := parts[(drawn/2+set)%uint64(len(parts))]
			ok := harness.Try(t, p, func(p harness.Program) error {
				if err := f.run(p, p.Seed+set<<32, part, set == 2); err != nil {
					return fmt.Errorf("in %v: %w", part, err)
				}
				return nil
			})
			if !ok {
				return
			}
		}
		f.programs++
		f.steps += len(p.Steps)
		for name, n := range p.Counts() {
			f.counts[name] += n
		}
	}
	var histogram []string
	for _, name := range slices.Sorted(maps.Keys(f.counts)) {
		histogram = append(histogram, fmt.Sprintf("%s %d", name, f.counts[name]))
	}
	t.Logf("%d programs of %d steps, each under 3 options, in %v; up to %d levels; %d of %d keys asked for were there; %d groups refused; %s", f.programs, f.steps,
		time.Since(begin).Round(time.Millisecond), f.deepest, f.found, f.asked, f.refused, strings.Join(histogram, ", "))
	if 3*f.found < f.asked {
		t.Errorf("only %d of %d keys asked for were there", f.found, f.asked)
	}
	if f.steps < 3000 {
		return // they may well miss what is rare
	}
	if f.refused == 0 {
		t.Error("no gate has refused a group of writes")
	}
	if f.deepest < 3 {
		t.Errorf("no program made more than %d levels", f.deepest)
	}
	for _, o := range slices.Concat(harness.Operations, harness.LifeOperations) {
		if f.counts[o.Name] == 0 {
			t.Errorf("no program has the operation %s", o.Name)
		}
	}
}
