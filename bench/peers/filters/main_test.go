package main

import (
	"errors"
	"io"
	"math"
	"strings"
	"testing"

	"github.com/shaledb/shale/bench/peers/internal/keys"
)

// rates are the shares of absent keys that pass each filter: of 10 bits for each of 10,000
// keys, or as they are set.
var rates = map[string]float64{
	"shale Blocked": 0.0094, "shale Blocked, xxh3": 0.0094, "shale Fuse": 1. / 128, "shale Fuse, xxh3": 1. / 128, "xorfilter BinaryFuse8": 1. / 256,
	"shale AtomicBlocked": 0.0100, "shale Filter": 0.0082, "shale Filter, xxh3": 0.0082, "shale parquet.Filter": 0.0110,
	"bits-and-blooms": 0.0082, "holiman": 0.0082, "blobloom": 0.0095, "parquet-go": 0.0110, "ristretto z.Bloom": 0.0012,
	"shale Counting": 0.01, "shale Cuckoo, 8 bits": 0.031, "BoomFilters Counting": 0.01, "seiflotfy cuckoo": 0.019,
	"shale Scalable": 0.0075, "BoomFilters Scalable": 0.0089,
}

// All filters do all work, small; answers and rates are right, and all are in the table.
func TestRun(t *testing.T) {
	c := config{keys: 10_000, asks: 20_000, rounds: 2}
	rows, err := c.run(contestants())
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	if err := c.print(&out, rows); err != nil {
		t.Fatal(err)
	}
	t.Logf("\n%s", out.String())
	for _, r := range rows {
		if r.bitsPerKey < 6 || len(r.adds) != c.rounds || len(r.misses) != c.rounds {
			t.Errorf("%s: too small, or not all rounds: %+v", r.name, r)
		}
		want, known := rates[r.name]
		if slack := 5*math.Sqrt(want/float64(r.absent)) + want/5; !known || math.Abs(r.rate()-want) > slack {
			t.Errorf("%s: %.4f %% false positives, want %.4f ± %.4f %%", r.name, 100*r.rate(), 100*want, 100*slack)
		}
		if !strings.Contains(out.String(), r.name) {
			t.Errorf("%s is not in the table", r.name)
		}
	}
}

func TestCommand_Refused(t *testing.T) {
	for _, args := range []string{"-n 10", "-n x", "-rounds 0", "-asks 0", "-only none", "more"} {
		if err := command(strings.Fields(args), io.Discard); err == nil {
			t.Errorf("filters %s: no error", args)
		}
	}
}

// A filter that denies a present key ends the run, and so does one that forgets another
// key than it was asked to, and one that always refuses a key.
func TestRun_WrongAnswers(t *testing.T) {
	for want, broken := range map[string]*liar{
		"":                          {},
		"that are there":            {hit: -1},
		"denied after others":       {afterRemove: -1},
		"removed keys":              {keeps: true},
		"could be removed":          {stays: 1},
		"before its time, 10 times": {refusals: 1000},
	} {
		c := config{keys: 1000, asks: 100, rounds: 1}
		_, err := c.run([]contestant{{removal, "liar", func(int) filter { return broken.filter() }}})
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("run: %v, want %q", err, want)
		}
	}
}

// A filter that refuses a key now and then is filled again.
func TestRun_Refusals(t *testing.T) {
	few := &liar{refusals: patience - 1}
	c := config{keys: 1000, asks: 100, rounds: 1}
	if _, err := c.run([]contestant{{removal, "liar", func(int) filter { return few.filter() }}}); err != nil || few.refusals > 0 {
		t.Errorf("run with a filter that refused a key %d times: %v", patience-1, err)
	}
	none := adding(func(keys.Slab) int { return 0 })
	if err := none(keys.NewSpace("random", 10).AbsentSlab(0, 1)); !errors.Is(err, errFull) {
		t.Errorf("a key that was refused: %v", err)
	}
}

// A liar knows which keys are asked for, but for what it adds to the answers.
type liar struct {
	hit, afterRemove int
	stays            int // keys that can't be removed
	keeps            bool
	refusals         int // times that a key is still to be refused
	questions        int // after keys were removed
	removed          bool
}

func (l *liar) filter() filter {
	return filter{
		add: func(keys.Slab) error {
			if l.refusals--; l.refusals >= 0 {
				return errFull
			}
			return nil
		},
		ask: func(k keys.Slab) int {
			if k.Absent() {
				return 0
			}
			if !l.removed {
				return k.Len() + l.hit
			}
			if l.questions++; l.questions == 1 { // which is for the others
				return k.Len() + l.afterRemove
			}
			if l.keeps {
				return k.Len()
			}
			return 0
		},
		remove: func(k keys.Slab) int {
			l.removed = true
			return k.Len() - l.stays
		},
		bits: func() float64 { return 1 },
	}
}
