// Command filters runs the same work on shale's filters and on those of other
// libraries, in one process and in turns, and prints a table of medians.
//
//	cd bench/peers && go run ./filters
//
// README.md of the module says how each of them is set up, and why.
package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"runtime"
	"slices"
	"strings"

	"github.com/shaledb/shale/bench/peers/internal/figures"
	"github.com/shaledb/shale/bench/peers/internal/keys"
)

func main() {
	err := command(os.Args[1:], os.Stdout)
	if err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "filters:", err)
		os.Exit(1)
	}
}

// A config is what a run is asked to do.
type config struct{ keys, asks, rounds int }

func command(args []string, out io.Writer) error {
	var c config
	var only string
	f := flag.NewFlagSet("filters", flag.ContinueOnError)
	f.IntVar(&c.keys, "n", 1_000_000, "`keys` of each filter, at least 1000")
	f.IntVar(&c.asks, "asks", 1_000_000, "`questions` in a round, absent keys and present ones each")
	f.IntVar(&c.rounds, "rounds", 5, "`rounds`, in turns; medians are printed")
	f.StringVar(&only, "only", "", "run only the filters with this `part` in their names")
	if err := f.Parse(args); err != nil {
		return err
	}
	if f.NArg() > 0 || c.keys < 1000 || c.asks < 1 || c.rounds < 1 {
		return fmt.Errorf("%q: an argument that is no option, or a number that is too small; -h lists the options", args)
	}
	entrants := slices.DeleteFunc(contestants(), func(x contestant) bool { return !strings.Contains(x.name, only) })
	if len(entrants) == 0 {
		return fmt.Errorf("-only: no filter has %q in its name", only)
	}
	rows, err := c.run(entrants)
	if err != nil {
		return err
	}
	return c.print(out, rows)
}

// A row has what was found out about a contestant: nanoseconds a key, by round, and the
// share of absent keys that passed.
type row struct {
	contestant
	filter                     filter
	bitsPerKey                 float64
	adds, hits, misses, leaves []float64
	maybe, absent              int
}

func (r *row) rate() float64 { return float64(r.maybe) / float64(r.absent) }

// run measures all contestants in turns: A B C, in the next round C B A.
func (c config) run(all []contestant) ([]*row, error) {
	runtime.LockOSThread() // whose time is taken
	defer runtime.UnlockOSThread()
	space := keys.NewSpace("random", c.keys)
	var rows []*row
	for _, x := range all {
		rows = append(rows, &row{contestant: x})
	}
	inTurn := func(round int, do func(*row) error) error {
		order := slices.Clone(rows)
		if round%2 == 1 {
			slices.Reverse(order)
		}
		for _, r := range order {
			runtime.GC() // what earlier work left is freed before the clock starts
			if err := do(r); err != nil {
				return fmt.Errorf("%s: %w", r.name, err)
			}
		}
		return nil
	}
	for round := range c.rounds {
		if err := inTurn(round, func(r *row) error { return c.fill(r, space) }); err != nil {
			return nil, err
		}
		warm := space.PresentSlab(1_000_000, c.keys, max(1, c.asks/4))
		hit := space.PresentSlab(uint64(round), c.keys, c.asks)
		miss := space.AbsentSlab(uint64(round*c.asks), c.asks)
		err := inTurn(round, func(r *row) error {
			r.filter.ask(warm)
			return errors.Join(r.ask(hit, miss), c.remove(r, space))
		})
		if err != nil {
			return nil, err
		}
	}
	return rows, nil
}

// patience is how many times in a row a filter may refuse a key. One that is nearly
// full, and chooses at random what it moves, does so now and then.
const patience = 10

// errFull says that a filter refused a key, although it was told how many there
// would be. What it holds then may not be all that it took before.
var errFull = errors.New("full before its time")

// fill makes the filter of all keys, and makes it again if it refuses one.
func (c config) fill(r *row, space keys.Space) (err error) {
	r.filter = filter{}
	for range patience {
		var took float64
		took, err = timed(c.keys, func() error {
			r.filter = r.make(c.keys)
			return nil
		})
		const chunk = 1 << 19 // keys are made outside the time, and not all at once
		for done := 0; done < c.keys && err == nil; done += chunk {
			k := space.PresentRange(uint64(done), min(chunk, c.keys-done))
			var nanos float64
			nanos, err = timed(c.keys, func() error { return r.filter.add(k) })
			took += nanos
		}
		if err == nil && r.filter.build != nil {
			var nanos float64
			nanos, err = timed(c.keys, r.filter.build)
			took += nanos
		}
		if err == nil {
			r.adds = append(r.adds, took)
			r.bitsPerKey = r.filter.bits() / float64(c.keys)
			return nil
		}
		if !errors.Is(err, errFull) {
			return err
		}
	}
	return fmt.Errorf("%w, %d times in a row", err, patience)
}

// ask asks for keys that are there and for others.
func (r *row) ask(hit, miss keys.Slab) error {
	maybe := 0
	nanos, _ := timed(hit.Len(), func() error { maybe = r.filter.ask(hit); return nil })
	if maybe != hit.Len() {
		return fmt.Errorf("wrong answers: maybe for %d of %d keys that are there", maybe, hit.Len())
	}
	r.hits = append(r.hits, nanos)
	nanos, _ = timed(miss.Len(), func() error { maybe = r.filter.ask(miss); return nil })
	r.misses = append(r.misses, nanos)
	r.maybe, r.absent = r.maybe+maybe, r.absent+miss.Len()
	return nil
}

// remove takes some keys out and sees that it is they that are gone, and no others. The
// next round fills a new filter.
func (c config) remove(r *row, space keys.Space) error {
	if r.filter.remove == nil {
		return nil
	}
	count := max(1, min(c.keys/4, c.asks))
	gone, rest := space.PresentRange(0, count), space.PresentRange(uint64(count), count)
	removed := 0
	nanos, _ := timed(count, func() error { removed = r.filter.remove(gone); return nil })
	if removed != count {
		return fmt.Errorf("wrong answers: %d of %d keys that are there could be removed", removed, count)
	}
	r.leaves = append(r.leaves, nanos)
	if maybe := r.filter.ask(rest); maybe != count {
		return fmt.Errorf("wrong answers: of %d keys that are there %d are denied after others were removed", count, count-maybe)
	}
	if maybe := r.filter.ask(gone); maybe > count/2 {
		return fmt.Errorf("wrong answers: maybe for %d of %d removed keys", maybe, count)
	}
	return nil
}

// timed returns the nanoseconds that the work took for each of count keys.
func timed(count int, work func() error) (float64, error) {
	begin := now()
	err := work()
	return float64(now()-begin) / float64(count), err
}

func (c config) print(out io.Writer, rows []*row) error {
	fmt.Fprintf(out, "%d keys of %d bytes; %d questions of each kind a round, medians of %d rounds; ns a key, %s\n%v\n\n",
		c.keys, keys.Size, c.asks, c.rounds, clock, figures.ThisMachine())
	t := figures.Columns(out)
	fmt.Fprintln(t, "\tbits a key\tfalse positives\tadd\tpresent\tabsent\tremove\t")
	group := ""
	for _, r := range rows {
		if r.group != group {
			group = r.group
			fmt.Fprintf(t, "[%s]\t\t\t\t\t\t\t\n", group)
		}
		remove := "-"
		if len(r.leaves) > 0 {
			remove = fmt.Sprintf("%.1f", figures.Median(r.leaves))
		}
		fmt.Fprintf(t, "%s\t%.2f\t%.4f %%\t%.1f\t%.1f\t%.1f\t%s\t\n", r.name, r.bitsPerKey, 100*r.rate(),
			figures.Median(r.adds), figures.Median(r.hits), figures.Median(r.misses), remove)
	}
	return t.Flush()
}
