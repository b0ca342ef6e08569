package process

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/shaledb/shale"
	"github.com/shaledb/shale/internal/testenv"
	"github.com/shaledb/shale/test/harness"
	"github.com/shaledb/shale/vfs"
)

// While a store is opened read-only its owner writes, flushes and uses logs again: at each operation of
// Open, enough that all files are others then. Open finds what was acknowledged before it began, and
// what came after in order.
func TestReadOnly_OwnerWritesMeanwhile(t *testing.T) {
	seed := testenv.Seed(t)
	first, step := int64(1), int64(1)
	if testing.Short() {
		step = 8
		first += int64(seed % 8)
	}
	openings := 0
	for i, noMap := range []bool{false, true} {
		for j, burst := range []int{15, 100} {
			b := beside{seed: seed, options: uint64(2*i + j), noMap: noMap, before: 40, all: 40 + burst}
			for k, met := first, true; met; k += step {
				var err error
				if met, err = b.open(k); err != nil {
					opts := b.draw(nil)
					t.Fatalf("%d commits at operation %d of Open: %v; the owner has %s", burst, k, err, harness.OptionsText(&opts))
				}
				openings++
			}
		}
	}
	t.Logf("%d openings", openings)
}

// A beside is a store that is opened read-only next to its owner.
type beside struct {
	seed        uint64
	options     uint64 // numbers those of the owner
	noMap       bool
	before, all int // commits of the owner before Open, and with those that it makes meanwhile
}

// draw draws the options of the owner.
func (b *beside) draw(fs vfs.FS) shale.Options {
	o := harness.DrawSeeded(fs, b.seed, b.options)
	o.MemtableSize = 4 << 10 // files come and go
	*harness.KnobsOf(&o).NoMap = b.noMap
	return o
}

// open opens the store read-only, and has the owner make its other commits before the k-th operation
// of that. It reports whether there is one. A later operation may be one of the background, which goes
// on while the state is checked; so the owner draws its commits from a stream of its own.
func (b *beside) open(k int64) (met bool, err error) {
	mem := vfs.NewMem()
	opts := b.draw(mem)
	db, err := shale.Open(harness.Dir, &opts)
	if err != nil {
		return false, err
	}
	defer db.Close()
	writes := harness.NewStream("a", b.seed, 120)
	write := func(from, to int) error {
		for n := from + 1; n <= to; n++ {
			if err := db.Write(context.Background(), writes.Write(n).Batch()); err != nil {
				return err
			}
		}
		return nil
	}
	if err := write(0, b.before); err != nil {
		return false, err
	}
	var failed error // this and met are set once, by the goroutine of the k-th operation
	reader := harness.DrawSeeded(nil, b.seed, b.options+100)
	reader.ReadOnly = true
	reader.FS = vfs.NewFault(mem, func(_ vfs.Op, _ string, n int64) error {
		if n != k {
			return nil
		}
		met = true
		failed = write(b.before, b.all)
		if k%3 == 0 {
			harness.TreeOf(db).RenewManifest()
		}
		if failed == nil && k%2 == 0 {
			failed = db.Flush(context.Background())
		}
		return nil
	})
	ro, err := shale.Open(harness.Dir, &reader)
	if err == nil {
		err = harness.NewStream("a", b.seed, 120).Check(ro, b.before, b.all)
		err = errors.Join(err, ro.Close()) // which waits for the background, and so for failed and met
	}
	if failed != nil {
		err = fmt.Errorf("the owner: %w", failed)
	}
	return met, err
}
