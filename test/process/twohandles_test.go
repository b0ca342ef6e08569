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
	"github.com/shaledb/shale/vfs/faultfs"
)

// While a store is opened read-only its owner writes, flushes and uses logs again: at each operation of
// Open, enough that all files are others then. Open finds what was acknowledged before it began, and
// what came after in order.
func TestReadOnly_OwnerWritesMeanwhile(t *testing.T) {
	eachOperation(t, "Open", testing.Short(), (*twoHandles).open)
}

// eachOperation tries what a reader does for some owners and sizes of what they commit meanwhile. do has that
// happen at the k-th operation of the file system, and reports whether there is one. If few is true, one operation
// in eight is tried.
func eachOperation(t *testing.T, what string, few bool, do func(b *twoHandles, k int64) (met bool, err error)) {
	seed := testenv.Seed(t)
	first, step := int64(1), int64(1)
	if few {
		step = 8
		first += int64(seed % 8)
	}
	tries := 0
	for i, noMap := range []bool{false, true} {
		for j, burst := range []int{15, 100} {
			b := &twoHandles{seed: seed, options: uint64(2*i + j), noMap: noMap, before: 40, all: 40 + burst}
			for k, met := first, true; met; k += step {
				var err error
				if met, err = do(b, k); err != nil {
					opts := b.draw(nil)
					t.Fatalf("%d commits at operation %d of %s: %v; the owner has %s", burst, k, what, err, harness.OptionsText(&opts))
				}
				tries++
			}
		}
	}
	t.Logf("%d times %s", tries, what)
}

// A twoHandles is a store that is opened read-only next to its owner.
type twoHandles struct {
	seed        uint64
	options     uint64 // numbers those of the owner
	noMap       bool
	before, all int // commits of the owner before Open, and with those that it makes meanwhile
}

// draw draws the options of the owner.
func (b *twoHandles) draw(fs vfs.FS) shale.Options {
	o := harness.DrawSeeded(fs, b.seed, b.options)
	o.MemtableSize = 4 << 10 // files come and go
	*harness.KnobsOf(&o).NoMap = b.noMap
	return o
}

// An owner has the store open for writing.
type owner struct {
	db     *shale.DB
	writes *harness.Stream
}

// own opens the store for writing. The owner draws its commits from a stream of its own: what it does
// meanwhile may fall into the time in which the reader's state is checked.
func (b *twoHandles) own(fs vfs.FS) (*owner, error) {
	opts := b.draw(fs)
	db, err := shale.Open(harness.Dir, &opts)
	return &owner{db, harness.NewStream("a", b.seed, 120)}, err
}

// write makes the commits behind the one numbered from, up to the one numbered to.
func (o *owner) write(from, to int) error {
	for n := from + 1; n <= to; n++ {
		if err := o.db.Write(context.Background(), o.writes.Write(n).Batch()); err != nil {
			return err
		}
	}
	return nil
}

// meanwhile is what the owner does at the k-th operation of a reader.
func (b *twoHandles) meanwhile(o *owner, k int64) error {
	err := o.write(b.before, b.all)
	if k%3 == 0 {
		harness.TreeOf(o.db).RenewManifest()
	}
	if err == nil && k%2 == 0 {
		err = o.db.Flush(context.Background())
	}
	return err
}

// check checks what a reader shows. If it has few files open, some that it needs may be gone when the owner works
// meanwhile. A lookup shows a newer state then, so the check looks at a snapshot, which can only fail.
func check(s *harness.Stream, ro *shale.DB, few bool, safe, begun int) error {
	if !few {
		return s.Check(ro, safe, begun)
	}
	snap, err := ro.Snapshot()
	if err != nil {
		return err
	}
	if err = s.Check(snap, safe, begun); harness.Gone(err) {
		err = nil
	}
	return errors.Join(err, snap.Close())
}

// open opens the store read-only, and has the owner make its other commits before the k-th operation
// of that. It reports whether there is one. A later operation may be one of the background, which goes
// on while the state is checked.
func (b *twoHandles) open(k int64) (met bool, err error) {
	mem := vfs.NewMem()
	o, err := b.own(mem)
	if err != nil {
		return false, err
	}
	defer o.db.Close()
	if err := o.write(0, b.before); err != nil {
		return false, err
	}
	var failed error // this and met are set once, by the goroutine of the k-th operation
	reader := harness.DrawSeeded(nil, b.seed, b.options+100)
	reader.ReadOnly = true
	reader.FS = faultfs.New(mem, func(_ vfs.Op, _ string, n int64) error {
		if n == k {
			met, failed = true, b.meanwhile(o, k)
		}
		return nil
	})
	ro, err := shale.Open(harness.Dir, &reader)
	if err == nil {
		err = check(harness.NewStream("a", b.seed, 120), ro, reader.Tuning.MaxOpenFiles > 0, b.before, b.all)
		err = errors.Join(err, ro.Close()) // which waits for the background, and so for failed and met
	}
	if failed != nil {
		err = fmt.Errorf("the owner: %w", failed)
	}
	return met, err
}
