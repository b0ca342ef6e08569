package fault

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/shaledb/shale"
	"github.com/shaledb/shale/internal/base"
	"github.com/shaledb/shale/internal/testenv"
	"github.com/shaledb/shale/test/harness"
	"github.com/shaledb/shale/vfs"
	"github.com/shaledb/shale/vfs/faultfs"
)

// A panicking is the life of a store whose file system does not return from an operation: it panics, or
// calls runtime.Goexit, in a goroutine of a caller or of the store.
type panicking struct {
	mem    *vfs.Mem
	disk   *faultfs.FS
	opts   shale.Options
	db     *shale.DB
	n      int               // of the last write
	known  map[string]string // what was acknowledged; absent: see maybe
	maybe  map[string]string // of the key of a call that failed, what may be there instead
	failed int               // calls that did not return, or returned an error
	last   error             // of them
}

// leaves returns an InjectFunc with which the k-th operation of a kind does not return.
func leaves(op vfs.Op, k int64, exit bool, fired *atomic.Int64) faultfs.InjectFunc {
	var seen atomic.Int64
	return func(at vfs.Op, name string, _ int64) error {
		if at != op || seen.Add(1) != k {
			return nil
		}
		fired.Add(1)
		if exit {
			runtime.Goexit()
		}
		panic("a file system that panics")
	}
}

// call does a call of the program, which survives.
func (p *panicking) call(fn func() error) error {
	err := base.Survive(fn)
	if err != nil {
		p.failed++
		p.last = err
	}
	return err
}

// put writes a key by a call.
func (p *panicking) put(key string, write func(key, value []byte) error) {
	p.n++
	value := fmt.Sprintf("%d.%0600d", p.n, p.n)
	if p.call(func() error { return write([]byte(key), []byte(value)) }) == nil {
		p.known[key] = value
		delete(p.maybe, key)
	} else if _, is := p.maybe[key]; !is {
		p.maybe[key] = value // later writes of the key are refused, or may be there, too
	}
}

// check compares what the store holds with what was acknowledged.
func (p *panicking) check(when string) error {
	for key := range p.known {
		value, err := p.db.Get([]byte(key))
		if string(value) != p.known[key] && (p.maybe[key] == "" || string(value) != p.maybe[key]) {
			return fmt.Errorf("%s: Get(%q) = %.20q, %v, want %.20q", when, key, value, err, p.known[key])
		}
	}
	return nil
}

// work uses the store in all ways that touch the disk.
func (p *panicking) work(round int) {
	ctx := context.Background()
	for i := range 30 {
		p.put(fmt.Sprintf("k%02d", i), p.db.Put)
	}
	_ = p.call(p.db.Sync)
	_ = p.call(func() error { return p.db.Flush(ctx) })
	p.put(fmt.Sprintf("i%d", round), func(key, value []byte) error {
		return p.db.Ingest(ctx, func(yield func(k, v []byte) bool) { yield(key, value) })
	})
	p.put("k07", func(key, value []byte) error {
		var b shale.Batch
		b.SetDurability(shale.SyncEach)
		return errors.Join(b.Put(key, value), p.db.Write(ctx, &b))
	})
	_ = p.call(func() error { return p.db.Compact(ctx, shale.Range{}) })
	_ = p.call(func() error { _, err := p.db.Inspect().RebuildFilters(ctx); return err })
	_ = p.call(func() error { return p.db.Checkpoint(fmt.Sprintf("copy%d", round)) })
	_ = p.call(func() error { return p.db.Verify(ctx) })
	_ = p.call(func() error { _, err := p.db.Get([]byte("k20")); return err })
	_ = p.call(func() error {
		keys := [][]byte{[]byte("k01"), []byte("k11"), []byte("absent")}
		return p.db.GetMany(keys, func(int, []byte, bool) error { return nil })
	})
}

// live lives the life, with operations that inject decides about, and checks that nothing is lost.
func (p *panicking) live(seed uint64, inject faultfs.InjectFunc) error {
	p.mem, p.known, p.maybe = vfs.NewMem(), make(map[string]string), make(map[string]string)
	p.disk = faultfs.New(p.mem, nil)
	p.opts = harness.DrawSeeded(p.disk, seed, 0)
	p.opts.FilterBits, p.opts.Shipping.HoldLogs, p.opts.OnEvent = 10, 0, func(shale.Event) {}
	var err error
	if p.db, err = shale.Open(harness.Dir, &p.opts); err != nil {
		return err
	}
	p.disk.Inject(inject)
	for round := range 3 {
		p.work(round)
	}
	p.disk.Inject(nil)
	if err := p.check("on the same handle"); err != nil {
		return err
	}
	if p.db.Err() != nil {
		if err := base.Survive(p.db.Resume); err != nil {
			return fmt.Errorf("Resume of a store that is read-only by %w: %w", p.db.Err(), err)
		}
	}
	// What has failed in the background is tried again now, so that writers find room.
	if err := base.Survive(func() error { return p.db.Compact(context.Background(), shale.Range{}) }); err != nil {
		return fmt.Errorf("Compact: %w", err)
	}
	failed := p.failed
	p.work(3)
	if p.failed > failed {
		return fmt.Errorf("after Resume %d calls fail, the last with %w", p.failed-failed, p.last)
	}
	if err := base.Survive(p.db.Close); err != nil {
		return fmt.Errorf("Close: %w", err)
	}
	p.opts.FS = p.mem
	if p.db, err = shale.Open(harness.Dir, &p.opts); err != nil {
		return err
	}
	return errors.Join(p.check("opened again"), harness.Close(p.db))
}

// A file system that panics, or ends the goroutine, in any operation does not end the process. The store
// may be read-only after that; then Resume works. Nothing that was acknowledged is lost, and Close returns.
func TestFault_PanicAtEveryOperation(t *testing.T) {
	seed := testenv.Seed(t)
	var none atomic.Int64
	dry := new(panicking)
	if err := dry.live(seed, leaves(vfs.OpLock, 1<<40, false, &none)); err != nil {
		t.Fatalf("without a panic: %v", err)
	}
	most := int64(6)
	if testing.Short() || testenv.Race {
		most = 2
	}
	tried, fired, failed := 0, int64(0), 0
	for _, op := range faultOps {
		n := dry.disk.Count(op)
		for i := range min(n, most) {
			k := 1 + (i*n+int64(seed%97))%n
			if most < n {
				k = 1 + (i*(n/most)+int64(seed>>8)%(n/most))%n
			}
			for _, exit := range []bool{false, true} {
				var met atomic.Int64
				p := new(panicking)
				var err error
				testenv.Within(t, time.Minute, fmt.Sprintf("operation %d of kind %q, Goexit %v", k, op, exit), func() {
					err = p.live(seed, leaves(op, k, exit, &met))
				})
				if err != nil {
					t.Errorf("operation %d of kind %q, Goexit %v: %v; %s", k, op, exit, err, harness.OptionsText(&p.opts))
				}
				tried++
				fired += met.Load()
				failed += p.failed
			}
		}
	}
	t.Logf("%d lives, in %d of which an operation did not return; %d calls failed", tried, fired, failed)
	if fired == 0 || failed == 0 {
		t.Error("no operation did not return, or no call has noticed")
	}
}

// A file system that panics, or ends the goroutine, in any operation of Open makes Open return an error. It
// keeps no lock, and the next Open finds everything.
func TestFault_PanicInOpen(t *testing.T) {
	seed := testenv.Seed(t)
	p := &panicking{mem: vfs.NewMem(), known: make(map[string]string)}
	p.disk = faultfs.New(p.mem, nil)
	reopen := func(inject faultfs.InjectFunc, readOnly bool) (err error) {
		p.opts = harness.DrawSeeded(p.disk, seed, 0)
		p.opts.FilterBits, p.opts.Shipping.HoldLogs, p.opts.OnEvent, p.opts.ReadOnly = 10, 0, func(shale.Event) {}, readOnly
		p.disk.Inject(inject)
		defer p.disk.Inject(nil)
		return base.Survive(func() error { p.db, err = shale.Open(harness.Dir, &p.opts); return err })
	}
	if err := reopen(nil, false); err != nil {
		t.Fatal(err)
	}
	p.work(0)
	tried, fired, failed := 0, int64(0), 0
	for _, op := range faultOps {
		for _, readOnly := range []bool{false, true} {
			for k := int64(1); ; k++ {
				if !readOnly {
					p.put(fmt.Sprintf("o%s%d", op, k), p.db.Put) // there is a log to replay
				}
				if err := base.Survive(p.db.Close); err != nil {
					t.Fatal(err)
				}
				var met atomic.Int64
				err := reopen(leaves(op, k, k%2 == 0, &met), readOnly)
				tried++
				fired += met.Load()
				if err != nil {
					failed++
					var panicked *base.PanicError
					if !errors.As(err, &panicked) || !strings.HasPrefix(err.Error(), "shale: open ") {
						t.Errorf("operation %d of kind %q, read-only %v: Open = %v", k, op, readOnly, err)
					}
					if err := reopen(nil, false); err != nil {
						t.Fatalf("operation %d of kind %q, read-only %v: the Open after it: %v", k, op, readOnly, err)
					}
				}
				if err := p.check(fmt.Sprintf("operation %d of kind %q, read-only %v", k, op, readOnly)); err != nil {
					t.Fatal(err)
				}
				if met.Load() == 0 || k > 40 {
					break
				}
			}
			if err := errors.Join(base.Survive(p.db.Close), reopen(nil, false)); err != nil {
				t.Fatal(err)
			}
		}
	}
	t.Logf("%d calls of Open, in %d of which an operation did not return; %d failed", tried, fired, failed)
	if failed == 0 {
		t.Error("no Open has failed")
	}
	if err := harness.Close(p.db); err != nil {
		t.Fatal(err)
	}
}
