// Package moved has the directory of an open store renamed, removed and replaced, and come back, at
// every operation of a life. The store notices, changes nothing in a directory that is not its own,
// and takes no more writes; whatever is where it was stays whole, and so does what the store had made
// durable, wherever it is.
package moved

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"sync/atomic"
	"testing"
	"time"

	"github.com/shaledb/shale"
	"github.com/shaledb/shale/internal/testenv"
	"github.com/shaledb/shale/test/harness"
	"github.com/shaledb/shale/vfs"
)

// A moveCase is one move, and the life that it is for.
type moveCase struct {
	way  way
	seed uint64 // of the life
	at   int64  // operation before which the directory goes
	back int64  // operation before which it comes back; 0: at the end, or never
}

func (c moveCase) String() string {
	return fmt.Sprintf("%s before operation %d, back before %d, life %d", c.way.name, c.at, c.back, c.seed)
}

// A life is that of a store whose directory moves.
type life struct {
	*harness.Life
	*world
	excused bool // by the step under way
	told    atomic.Int64
	noise   atomic.Pointer[error]
}

// newLife returns a life whose store was closed after some writes, with a backup of before the last of
// them.
func newLife(seed uint64) (*life, error) {
	l := &life{Life: harness.NewLife(seed), world: &world{seed: seed, moves: make(chan struct{}, 1)}}
	l.moves <- struct{}{}
	l.mem = l.Life.Mem
	l.Trusting = true // the store may become read-only for one reason only
	s := harness.NewScript(seed)
	s.Marked = true
	s.Write(12, 0)
	s.Flush()
	s.Write(8, 3)
	before := len(s.Steps)
	s.Write(10, 0)
	s.Flush()
	s.Write(6, 0)
	for i, step := range s.Steps {
		if i == 0 || i == before {
			if err := l.Open(); err != nil {
				return nil, err
			}
		}
		if err := l.Do(step); err != nil {
			return nil, err
		}
		if i == before-1 || i == len(s.Steps)-1 {
			if err := l.Close(); err != nil {
				return nil, err
			}
		}
		if i == before-1 {
			var err error
			if l.backup, err = harness.Files(l.mem, harness.Dir); err != nil {
				return nil, err
			}
			l.state = l.Model.Now()
		}
	}
	l.Excuses = func(err error) bool {
		l.excused = l.explains(err)
		return l.excused
	}
	l.Change = func(o *shale.Options) { o.OnEvent = l.hear }
	return l, nil
}

// explains reports whether the move explains an error. While files are removed, the lock file
// may be the last.
func (l *life) explains(err error) bool {
	return l.going.Load() && (errors.Is(err, shale.ErrMoved) || errors.Is(err, fs.ErrNotExist))
}

// hear counts how often the store says that its directory is lost: once, by EventReadOnly.
func (l *life) hear(e shale.Event) {
	switch moved := errors.Is(e.Err, shale.ErrMoved); {
	case moved && e.Kind == shale.EventReadOnly:
		l.told.Add(1)
	case moved && e.Kind == shale.EventBackgroundError, e.Kind == shale.EventCorruption, e.Kind == shale.EventResumed:
		err := fmt.Errorf("event %v: %w", e.Kind, e.Err)
		l.noise.Store(&err)
	}
}

// script returns a program that makes a store do all that it does to its directory.
func script(seed uint64, l *life) harness.Program {
	s := harness.NewScript(seed + 1)
	s.Marked = true
	s.Serial = 1 << 20 // markers that no earlier write has
	check := func() {
		s.Do("check", func(*harness.Life) error {
			found, err := harness.Read(l.DB)
			if err != nil {
				if l.explains(err) {
					return nil
				}
				return err
			}
			return l.Model.Now().Diff(found)
		})
	}
	s.Write(8, 3)
	s.Flush()
	check()
	s.Write(6, 0)
	s.Sync()
	s.Compact()
	check()
	s.Ingest()
	s.Checkpoint()
	s.Do("rollManifest", func(l *harness.Life) error { harness.TreeOf(l.DB).RenewManifest(); return nil })
	s.Write(6, 2)
	s.Do("rebuild filters", func(harness *harness.Life) error {
		if l.Opts.FilterBits < 0 {
			return nil
		}
		_, err := l.DB.Inspect().RebuildFilters(context.Background())
		if l.explains(err) {
			return nil
		}
		return err
	})
	s.Write(5, 0)
	s.Flush()
	s.Write(4, 0)
	check()
	return s.All()
}

// isAway reports whether the directory is not where it was.
func (l *life) isAway() bool { return l.gone.Load() && !l.returned.Load() }

// run opens the store and does the steps. An error that the move explains is none.
func (l *life) run(p harness.Program) error {
	if err := l.Open(); err != nil {
		if l.explains(err) {
			return nil
		}
		return err
	}
	for i, step := range p.Steps {
		away := l.isAway()
		l.excused = false
		if err := l.Do(step); err != nil {
			return fmt.Errorf("step %d, %.200s: %w", i, step, err)
		}
		_, promised := l.Model.Commits()
		if step.Life == nil && promised && !l.excused && away && l.isAway() {
			return fmt.Errorf("step %d, %.200s: acknowledged as durable after the directory had gone", i, step)
		}
	}
	return nil
}

// end ends the life, and says what is wrong with how the store took its fate.
func (l *life) end(how way) (lost bool, err error) {
	if l.DB == nil {
		return true, nil
	}
	if l.isAway() {
		if err := l.DB.Sync(); !errors.Is(err, shale.ErrMoved) && l.isAway() { // it may come back within the call
			return false, fmt.Errorf("Sync after the directory had gone: %w", err)
		}
		if how.back != nil && l.seed%2 == 0 {
			l.comeBack(how)
		}
	}
	if lost = errors.Is(l.DB.Err(), shale.ErrMoved); lost {
		for what, err := range map[string]error{
			"Resume": l.DB.Resume(),
			"Sync":   l.DB.Sync(),
			"Flush":  l.DB.Flush(context.Background()),
			"Put":    l.DB.Put([]byte("key"), []byte("value")),
			"Err":    l.DB.Err(),
		} {
			if !errors.Is(err, shale.ErrMoved) || !errors.Is(err, shale.ErrReadOnly) {
				return lost, fmt.Errorf("%s of a store whose directory is lost: %w", what, err)
			}
		}
	}
	err = l.DB.Close()
	l.DB = nil
	moved := errors.Is(err, shale.ErrMoved)
	if lost && !moved {
		return lost, fmt.Errorf("Close of a store whose directory is lost: %w", err)
	}
	if moved && l.going.Load() { // perhaps while Close was at work
		return true, nil
	}
	return false, err
}

// try lives a life with the move c. It reports whether the move came, and whether the store noticed.
func try(c moveCase) (met, lost bool, err error) {
	l, err := newLife(c.seed)
	if err != nil {
		return false, false, err
	}
	defer func() {
		if err == nil {
			return
		}
		err = fmt.Errorf("%w; %s", err, harness.OptionsText(&l.Opts))
		l.Abandon()
		if l.heir != nil {
			_ = l.heir.Close() // the failure is reported already
		}
	}()
	l.Inject = l.inject(c.way, c.at, c.back)
	if err := l.run(script(c.seed, l)); err != nil {
		return false, false, err
	}
	met = l.gone.Load()
	if lost, err = l.end(c.way); err != nil {
		return met, lost, err
	}
	if err := errors.Join(l.world.err, l.endHeir(harness.Dir)); err != nil {
		return met, lost, err
	}
	if n := l.mem.OpenFiles(); n != 0 {
		return met, lost, fmt.Errorf("%d files or locks are open", n)
	}
	if noise := l.noise.Load(); noise != nil {
		return met, lost, *noise
	}
	if told := l.told.Load(); lost && told != 1 || !lost && told != 0 {
		return met, lost, fmt.Errorf("%d events say that the directory is lost", told)
	}
	return met, lost, l.checkFiles(c.way, l.Model.Claim().AllSafe())
}

// The directory goes before each operation of a life: before the store looks whether it is there, and
// between that look and what follows. With SHALE_LONG there are as many lives as that time allows.
func TestMoved_AtEveryOperation(t *testing.T) {
	testenv.CheckLeaks(t)
	seed, long := testenv.Seed(t), testenv.Long(t)
	share := testenv.ShareOf(t, seed, 1./60)
	begin, lives := time.Now(), uint64(0)
	var tried, met, lost, checks atomic.Int64
	for ; lives < 3 || time.Since(begin) < long && !t.Failed(); lives++ {
		dry, err := newLife(seed + lives)
		if err != nil {
			t.Fatal(err)
		}
		dry.Inject = dry.inject(way{}, 0, 0)
		if err := dry.run(script(dry.seed, dry)); err != nil {
			t.Fatalf("without a move: %v; %s", err, harness.OptionsText(&dry.Opts))
		}
		if dry.FS.Count(vfs.OpHeld) == 0 {
			t.Fatal("the store does not look whether its directory is there")
		}
		checks.Add(dry.FS.Count(vfs.OpHeld))
		if _, err := dry.end(way{}); err != nil {
			t.Fatalf("without a move: %v", err)
		}
		var cases []moveCase
		for at := int64(1); at <= dry.ops.Load(); at++ {
			for i, how := range ways {
				if !share.Takes(lives<<40 | uint64(at)<<8 | uint64(i)) {
					continue
				}
				c := moveCase{way: how, seed: dry.seed, at: at}
				if how.back != nil && (at+int64(i))%3 == 0 {
					c.back = at + 1 + (at*7919)%40
				}
				cases = append(cases, c)
			}
		}
		testenv.Sweep(t, cases, func(_ int, c moveCase) error {
			m, l, err := try(c)
			tried.Add(1)
			if m {
				met.Add(1)
			}
			if l {
				lost.Add(1)
			}
			return err
		})
	}
	t.Logf("%d moves, in %d lives with options of their own, %d met, %d noticed, %d looks in a life, in %v; %v", tried.Load(), lives,
		met.Load(), lost.Load(), checks.Load()/int64(lives), time.Since(begin).Round(time.Millisecond), share)
	if met.Load() == 0 || 2*lost.Load() < met.Load() {
		t.Error("the moves do not happen, or are not noticed")
	}
}
