package main

import (
	"errors"
	"fmt"
	"io"
	"runtime"
	"slices"
	"time"

	"github.com/shaledb/shale/bench/peers/internal/figures"
	"github.com/shaledb/shale/bench/peers/internal/keys"
)

// A bench is a run: what it is to do, and what it has found.
type bench struct {
	config
	entrants []contestant
	report   *report
	next     uint64 // number of the first absent key that nobody has asked for

	messages io.Writer // progress
	begin    time.Time
}

// run does all that c asks for and prints the report to out.
func run(c config, all []contestant, out, messages io.Writer) error {
	runtime.LockOSThread() // whose time is taken
	defer runtime.UnlockOSThread()
	b := &bench{config: c, report: newReport(c), messages: messages, begin: time.Now()}
	for _, x := range all {
		if c.takes(x) {
			b.entrants = append(b.entrants, x)
		}
	}
	if len(b.entrants) == 0 {
		return fmt.Errorf("no filter is in -groups and -only")
	}
	for _, n := range c.lowered {
		b.progress("%d keys do not fit in memory: fewer", n)
	}
	for _, n := range c.sizes {
		for i, length := range c.lengths {
			if err := b.stage(n, length, i == 0); err != nil {
				return fmt.Errorf("%d keys of %d bytes: %w", n, length, err)
			}
		}
	}
	b.report.finish()
	b.report.print(out)
	if c.json == "" {
		return nil
	}
	return figures.WriteJSON(c.json, b.report)
}

func (b *bench) progress(format string, args ...any) {
	fmt.Fprintf(b.messages, "%6.1fs  %s\n", time.Since(b.begin).Seconds(), fmt.Sprintf(format, args...))
}

// A stage measures all filters of one number and length of keys. Beside the keys
// themselves, hashes are given to those that take them, in one of the stages.
type stage struct {
	*bench
	n      int
	form   string // of keys, in the report
	hashes bool
	space  keys.Space
	all    []*entry
	warm   keys.Slab // present keys, asked before the clock starts
	buf    []uint64  // hashes of a slab
}

// An entry is a contestant with its filled filter.
type entry struct {
	contestant
	filter filter
}

func (b *bench) stage(n, length int, hashes bool) error {
	s := &stage{bench: b, n: n, form: fmt.Sprintf("%d B", length), hashes: hashes}
	s.space = keys.NewSpace(b.keys, n).WithSize(length)
	for _, x := range b.entrants {
		s.all = append(s.all, &entry{contestant: x})
	}
	for round := range b.fillings(n) {
		b.progress("%d keys of %d bytes: fill, round %d", n, length, round+1)
		if err := s.inTurn(round, s.fill); err != nil {
			return err
		}
	}
	s.warm = s.space.PresentSlab(1_000_000, n, max(1, b.asks/4))
	for round := range b.rounds {
		b.progress("%d keys of %d bytes: ask, round %d", n, length, round+1)
		hit := s.space.PresentSlab(uint64(round), n, b.asks)
		miss := s.space.AbsentSlab(b.next, b.asks)
		b.next += uint64(b.asks)
		if err := s.inTurn(round, func(e *entry) error { return s.ask(e, hit, miss) }); err != nil {
			return err
		}
		if err := s.inTurn(round, s.remove); err != nil {
			return err
		}
	}
	return nil
}

// collect frees what earlier work left, so that nobody's clock runs while that is
// done.
func (b *bench) collect() {
	if !b.short {
		runtime.GC()
	}
}

// inTurn does something with each entry: A B, then B A.
func (s *stage) inTurn(round int, do func(*entry) error) error {
	all := slices.Clone(s.all)
	if round%2 == 1 {
		slices.Reverse(all)
	}
	for _, e := range all {
		if err := do(e); err != nil {
			return fmt.Errorf("%s: %w", e.name, err)
		}
	}
	return nil
}

// fill makes e's filter anew of all keys, and one of their hashes, of which only
// the cost is kept.
func (s *stage) fill(e *entry) error {
	e.filter = nil
	f, took, err := s.filledInTheEnd(e.contestant, byKey)
	if err != nil {
		return err
	}
	e.filter = f
	s.report.add(s.n, e.contestant, "add", s.form, took)
	s.report.noteFilter(s.n, e.contestant, f)
	if _, takes := f.(hashed); !takes || !s.hashes {
		return nil
	}
	_, took, err = s.filledInTheEnd(e.contestant, byHash)
	if err != nil {
		return err
	}
	s.report.add(s.n, e.contestant, "add", "hash", took)
	if f, takes := f.(bulk); !takes || f.addMany() == nil {
		return nil
	}
	_, took, err = s.filledInTheEnd(e.contestant, byMany)
	if err != nil {
		return err
	}
	s.report.add(s.n, e.contestant, "add", manyHashes, took)
	return nil
}

// A way is how a filter is given keys.
type way int

const (
	byKey way = iota
	byHash
	byMany // hashes, a batch at a time
)

// manyHashes is the form of keys in the report if they are given as hashes, a batch at a time.
const manyHashes = "many"

// patience is how many times in a row a filter may refuse a key.
const patience = 10

// filledInTheEnd is filled, anew if the filter refuses a key. One that is nearly
// full, and chooses at random what it moves, does so now and then.
func (s *stage) filledInTheEnd(c contestant, how way) (filter, cost, error) {
	for range patience {
		f, took, err := s.filled(c, how)
		if !errors.Is(err, errFull) {
			return f, took, err
		}
		s.report.noteRefusal(s.n, c)
	}
	return nil, cost{}, fmt.Errorf("%w, %d times in a row", errFull, patience)
}

// chunk is how many keys are made at once.
const chunk = 1 << 19

// filled makes a filter of all keys, or of their hashes, and tells what that
// cost: to make it empty, to add, and to build it. The hashes of a filter that is
// built are what it is built of, so that to collect them costs nothing then.
func (s *stage) filled(c contestant, how way) (filter, cost, error) {
	s.collect()
	var f filter
	total, err := timed(s.n, func() (err error) {
		f, err = c.make(s.n)
		return err
	})
	if err != nil {
		return nil, cost{}, err
	}
	for done := 0; done < s.n; done += chunk {
		k := s.space.PresentRange(uint64(done), min(chunk, s.n-done))
		one, err := timed(s.n, s.adding(f, k, how))
		if err != nil {
			return nil, cost{}, err
		}
		if _, collects := f.(built); !collects || how == byKey {
			total.plus(one)
		}
	}
	if f, is := f.(built); is {
		s.collect()
		last, err := timed(s.n, f.build)
		if err != nil {
			return nil, cost{}, err
		}
		total.plus(last)
	}
	return f, total, nil
}

// adding is what is timed of the keys of one chunk.
func (s *stage) adding(f filter, k keys.Slab, how way) func() error {
	if how == byKey {
		return func() error { return f.add(k) }
	}
	h := f.(hashed)
	s.buf = h.hash(k, s.buf[:0])
	if how == byMany {
		return func() error { return addInBatches(f.(bulk), s.buf, wordsOf(f)) }
	}
	return func() error { return h.addHashes(s.buf) }
}

// ask asks for keys that are there and for others.
func (s *stage) ask(e *entry, hit, miss keys.Slab) error {
	s.collect()
	e.filter.ask(s.warm)
	if _, err := s.asking(e, "hit", s.form, hit.Len(), hit.Len(), func() int { return e.filter.ask(hit) }); err != nil {
		return err
	}
	maybe, err := s.asking(e, "miss", s.form, miss.Len(), anything, func() int { return e.filter.ask(miss) })
	if err != nil {
		return err
	}
	s.report.countFalsePositives(s.n, e.contestant, maybe, miss.Len())
	h, takes := e.filter.(hashed)
	if !takes || !s.hashes {
		return nil
	}
	// By their hashes the same keys get the same answers.
	for _, q := range []struct {
		name  string
		keys  keys.Slab
		maybe int
	}{{"hit", hit, hit.Len()}, {"miss", miss, maybe}} {
		s.buf = h.hash(q.keys, s.buf[:0])
		if _, err := s.asking(e, q.name, "hash", q.keys.Len(), q.maybe, func() int { return h.askHashes(s.buf) }); err != nil {
			return err
		}
		f, takes := h.(bulk)
		if !takes || f.askMany() == nil {
			continue
		}
		words := wordsOf(e.filter)
		if _, err := s.asking(e, q.name, manyHashes, q.keys.Len(), q.maybe, func() int { return askInBatches(f, s.buf, words) }); err != nil {
			return err
		}
	}
	return nil
}

// anything is no expectation of how many answers are maybe.
const anything = -1

// asking times questions and ends the run where answers are wrong: where a key
// that is there is denied.
func (s *stage) asking(e *entry, op, form string, count, want int, ask func() int) (maybe int, err error) {
	took, err := timed(count, func() error {
		maybe = ask()
		return nil
	})
	if err != nil {
		return 0, err
	}
	if want != anything && maybe != want {
		return 0, fmt.Errorf("wrong answers: %s by %s: maybe for %d of %d keys, want %d", op, form, maybe, count, want)
	}
	s.report.add(s.n, e.contestant, op, form, took)
	return maybe, nil
}

// remove takes some keys out, sees that it is they that are gone and others that
// are not, and puts them back.
func (s *stage) remove(e *entry) error {
	f, can := e.filter.(remover)
	if !can || !s.hashes {
		return nil
	}
	count := max(1, min(s.n/4, s.asks))
	gone, rest := s.space.PresentRange(0, count), s.space.PresentRange(uint64(count), count)
	s.collect()
	e.filter.ask(s.warm)
	took, err := timed(count, func() error { return f.remove(gone) })
	if err != nil {
		return err
	}
	if maybe := e.filter.ask(rest); maybe != count {
		return fmt.Errorf("wrong answers: of %d keys that are there %d are denied after others were removed", count, count-maybe)
	}
	if maybe := e.filter.ask(gone); maybe > count/2 {
		return fmt.Errorf("wrong answers: maybe for %d of %d removed keys", maybe, count)
	}
	s.report.add(s.n, e.contestant, "remove", s.form, took)
	err = e.filter.add(gone)
	if errors.Is(err, errFull) {
		s.report.noteRefusal(s.n, e.contestant)
		e.filter, _, err = s.filledInTheEnd(e.contestant, byKey)
	}
	return err
}

// A cost is what a piece of work took, for each key.
type cost struct {
	nanos, allocs, bytes float64
}

func (c *cost) plus(other cost) {
	c.nanos += other.nanos
	c.allocs += other.allocs
	c.bytes += other.bytes
}

// timed does the work and says what it cost for each of count keys.
func timed(count int, work func() error) (cost, error) {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	begin := now()
	err := work()
	took := now() - begin
	runtime.ReadMemStats(&after)
	n := float64(count)
	return cost{
		float64(took) / n,
		float64(after.Mallocs-before.Mallocs) / n,
		float64(after.TotalAlloc-before.TotalAlloc) / n,
	}, err
}
