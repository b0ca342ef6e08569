package harness

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/shaledb/shale"
	"github.com/shaledb/shale/internal/testenv"
	"github.com/shaledb/shale/vfs"
)

// Crashes lives a life and crashes its disk at the disk's operations, in all ways to crash. Each
// state that a crash leaves is opened and checked by other goroutines while the life goes on.
type Crashes struct {
	*Life
	Name  string
	Seed  uint64
	Share testenv.Share // of the pairs of an operation and a way to crash

	Ops, States atomic.Int64 // operations that were met, states that were checked
}

// A crashState is a disk as a crash leaves it, and what it may hold.
type crashState struct {
	mem   *vfs.Mem
	fs    vfs.FS // over mem, for the store
	what  string
	seed  uint64 // of the options that it is opened with
	now   int64  // the system's clock then
	claim Claim
	feed  *feedPlace // what a feed had shown
}

// Run lives the life of the program and reports what is wrong: with the life, or with states.
func (c *Crashes) Run(p Program, report func(err error)) {
	states := make(chan crashState, 64)
	var checkers sync.WaitGroup
	for range 2 {
		checkers.Go(func() {
			for s := range states {
				c.States.Add(1)
				if err := s.check(); err != nil {
					report(fmt.Errorf("%s: %w", s.what, err))
				}
			}
		})
	}
	c.OnDisk = func(mem *vfs.Mem) { c.hook(mem, states) }
	if err := RunLife(c.Life, p); err != nil {
		report(fmt.Errorf("%s: %w", c.Name, err))
	}
	c.Mem.OnOp(nil)
	close(states)
	checkers.Wait()
}

// hook crashes the disk at its operations from now on.
func (c *Crashes) hook(mem *vfs.Mem, states chan<- crashState) {
	mem.OnOp(func(op vfs.Op, name string) {
		n := c.Ops.Add(1)
		for j, config := range CrashConfigs(c.Seed + uint64(n)) {
			if !c.Share.Takes(uint64(n)<<8 | uint64(j)) {
				continue
			}
			before, feed := c.Model.Claim(), c.copied.place.Load()
			after := mem.Crash(config)
			claim, seed := before.Between(c.Model.Claim()), c.Seed+uint64(n)<<8+uint64(j)
			// The clock may have gone back, but not behind what is known.
			r := rand.New(rand.NewPCG(seed, 5))
			now := claim.Floor + r.Int64N(max(c.shown.ms.Load()-claim.Floor, 0)+time.Hour.Milliseconds())
			states <- crashState{mem: after, fs: c.encrypted(after), feed: feed, claim: claim, seed: seed, now: now,
				what: fmt.Sprintf("%s: crash at operation %d (%v %s) with %v", c.Name, n, op, name, config)}
		}
	})
}

// after is the key that is written to a state which a crash has left.
const after = "written after the crash"

// check opens the state, compares, uses it and opens it once more, each time with other options.
func (s crashState) check() (err error) {
	var opts shale.Options
	defer func() {
		if err != nil {
			err = fmt.Errorf("%w; opened with %s", err, OptionsText(&opts))
		}
	}()
	var want State
	for round := range 2 {
		opts = DrawSeeded(s.fs, s.seed, uint64(round))
		var unusable atomic.Pointer[error]
		opts.OnEvent = func(e shale.Event) {
			if e.Kind == shale.EventFilterUnusable {
				unusable.Store(&e.Err)
			}
		}
		Standing(&opts, time.UnixMilli(s.now))
		db, err := shale.Open(Dir, &opts)
		if err != nil {
			return fmt.Errorf("Open, round %d: %w", round, err)
		}
		s.now = timeOf(db)
		found, err := Read(db)
		if bad := unusable.Load(); bad != nil && err == nil {
			err = *bad
		}
		switch {
		case err != nil:
		case round == 0:
			if _, err = s.claim.At(s.now).Check(found); err != nil {
				break
			}
			w := Write{Ops: []shale.Op{{Kind: shale.OpPut, Key: []byte(after)}}, Own: true, Durability: shale.Durability(s.seed % 3)}
			want = found.With(w.Ops...)
			if err = db.Write(context.Background(), w.Batch()); err == nil {
				err = s.feed.check(db)
			}
		default:
			err = want.At(s.now).Diff(found)
		}
		if err == nil {
			err = Strays(db, s.mem, Dir)
		}
		s.now += int64(s.seed%3) * 20 * time.Minute.Milliseconds()
		if err == nil {
			err = db.Verify(context.Background())
		}
		if cerr := db.Close(); err == nil {
			err = cerr
		}
		if err != nil {
			return fmt.Errorf("round %d: %w", round, err)
		}
	}
	if n := s.mem.OpenFiles(); n != 0 {
		return fmt.Errorf("%d files are left open", n)
	}
	return s.checkCopies()
}

// checkCopies opens the checkpoints that were durable at the crash.
func (s crashState) checkCopies() error {
	for _, c := range s.claim.Copies {
		opts := DrawSeeded(s.fs, s.seed, 2)
		opts.Exist = shale.MustExist
		Standing(&opts, time.UnixMilli(s.now))
		db, err := shale.Open(c.Dir, &opts)
		if err != nil {
			return fmt.Errorf("open checkpoint %s: %w", c.Dir, err)
		}
		found, err := Read(db)
		if err == nil {
			err = c.State.At(timeOf(db)).Diff(found)
		}
		if cerr := db.Close(); err == nil {
			err = cerr
		}
		if err != nil {
			return fmt.Errorf("checkpoint %s: %w", c.Dir, err)
		}
	}
	return nil
}
