package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"sync"
	"time"

	"github.com/shaledb/shale"
	"github.com/shaledb/shale/test/harness"
	"github.com/shaledb/shale/vfs"
)

// A session is the use of a store between Open and Close.
type session struct {
	*child
	n     int
	opts  shale.Options
	disk  *disk
	store string
	db    *shale.DB

	ctx  context.Context // ends when the session is to end
	stop context.CancelFunc
	wg   sync.WaitGroup
}

// A role is one goroutine of a session: what it does is chosen by r.
type role struct {
	s     *session
	name  string
	r     *rand.Rand
	store *harness.Real
	buf   []byte // for values
}

func (c *child) newSession(n int) *session {
	s := &session{child: c, n: n, store: filepath.Join(c.Dir, "store")}
	r := s.rand("options")
	s.disk = newDisk(r.IntN(2) == 0, &c.faults, &c.clock)
	s.opts = s.options(r, s.disk)
	s.ctx, s.stop = context.WithCancel(context.Background())
	return s
}

// options draws the options of an opening on fs.
func (s *session) options(r *rand.Rand, fs vfs.FS) shale.Options {
	o := harness.DrawScaled(r, fs)
	o.LockTimeout = 10 * time.Second // a child that is killed lets go of its lock a moment later
	o.OnEvent = s.event
	o.HoldLogs = 0 // the session bounds the bytes of all files
	return o
}

// rand returns the random numbers of one part of the session.
func (s *session) rand(name string) *rand.Rand {
	h := mix(s.Seed, uint64(s.Life), uint64(s.n))
	for _, b := range []byte(name) {
		h = mix(h, uint64(b))
	}
	return rand.New(rand.NewPCG(h, 's'))
}

// event hears what the store does in the background.
func (s *session) event(e shale.Event) {
	switch {
	case e.Kind == shale.EventCorruption, e.Kind == shale.EventFilterUnusable && !harness.IsInjected(e.Err):
		s.fail(fmt.Errorf("event %v: %w", e.Kind, e.Err))
	case e.Err != nil && !harness.IsInjected(e.Err) && !errors.Is(e.Err, context.Canceled) && !errors.Is(e.Err, shale.ErrClosed):
		s.fail(fmt.Errorf("event %v: %w", e.Kind, e.Err))
	}
}

// run uses the store for a time, or until the life is to end.
func (s *session) run(d time.Duration) error {
	if err := s.open(); err != nil {
		return err
	}
	timer := time.AfterFunc(d, s.stop)
	defer timer.Stop()
	defer context.AfterFunc(s.life, s.stop)()
	for w := range writers {
		s.start(fmt.Sprint("writer ", w), func(r *role) { r.write(w) })
	}
	s.start("getter 1", (*role).get)
	s.start("getter 2", (*role).get)
	s.start("scanner", (*role).scan)
	s.start("holder", (*role).hold)
	s.start("upkeep", (*role).upkeep)
	s.start("storms", (*role).storms)
	s.wg.Wait()
	return s.close()
}

// start starts a goroutine of the session.
func (s *session) start(name string, run func(*role)) {
	s.wg.Go(func() { run(&role{s: s, name: name, r: s.rand(name), store: harness.NewReal(s.db)}) })
}

func (s *session) running() bool { return s.ctx.Err() == nil }

// pause waits, and tells whether the session goes on.
func (s *session) pause(d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-s.ctx.Done():
		return false
	}
}
