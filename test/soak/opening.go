package main

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/shaledb/shale"
	"github.com/shaledb/shale/test/harness"
	"github.com/shaledb/shale/vfs"
	"github.com/shaledb/shale/vfs/faultfs"
)

// open opens the store, in some sessions read-only first and in some under a
// storm, and checks all that is in it.
func (s *session) open() error {
	r := s.rand("open")
	if _, err := os.Stat(filepath.Join(s.store, "CURRENT")); err == nil && r.IntN(4) == 0 {
		if err := s.checkReadOnly(r); err != nil {
			return err
		}
	}
	if !s.Last && r.IntN(5) == 0 {
		if err := s.openInStorm(r); err != nil {
			return err
		}
	}
	if s.db == nil {
		err := s.call("open", func() (err error) {
			s.db, err = shale.Open(s.store, &s.opts)
			return err
		})
		if err != nil {
			return fmt.Errorf("calling Open: %w", err)
		}
	}
	s.opens.Add(1)
	return s.call("check", func() error { return s.checkAll(s.db, r.IntN(2) == 0) })
}

// openInStorm tries to open the store while its disk fails.
func (s *session) openInStorm(r *rand.Rand) error {
	s.disk.begin(harness.DrawStorm(r))
	timer := time.AfterFunc(between(r, time.Millisecond, 300*time.Millisecond), s.disk.end)
	begun := s.disk.weather.Load()
	err := s.call("open in a storm", func() (err error) {
		s.db, err = shale.Open(s.store, &s.opts)
		return err
	})
	if timer.Stop() {
		s.disk.end()
	}
	for s.disk.stormy() {
		time.Sleep(time.Millisecond) // the timer is about to end it
	}
	if err == nil {
		s.calmDown()
		return nil
	}
	s.db = nil
	s.opens.Add(1)
	if !s.disk.excuses(begun, err) {
		return fmt.Errorf("calling Open in a storm: %w", err)
	}
	return s.settleDown("a failed Open")
}

// checkReadOnly opens the store read-only, on a disk that refuses all changes,
// and checks all that is in it.
func (s *session) checkReadOnly(r *rand.Rand) error {
	o := s.options(r, faultfs.New(vfs.Default, func(op vfs.Op, _ string, _ int64) error {
		switch op {
		case vfs.OpOpen, vfs.OpList, vfs.OpStat, vfs.OpRead, vfs.OpClose:
			return nil
		}
		return syscall.EROFS
	}))
	o.ReadOnly = true
	var db *shale.DB
	err := s.call("open read-only", func() (err error) {
		db, err = shale.Open(s.store, &o)
		return err
	})
	if err != nil {
		return fmt.Errorf("read-only: Open: %w", err)
	}
	s.opens.Add(1)
	err = s.call("check", func() error { return s.checkAll(db, r.IntN(2) == 0) })
	if err := errors.Join(err, db.Close()); err != nil {
		return fmt.Errorf("read-only: %w", err)
	}
	return nil
}

// checkAll compares all of a store that nobody writes with the keyspace. Of
// each writer's next commit it finds out whether it is there.
func (c *child) checkAll(r shale.Reader, reverse bool) error {
	var got [writers][]stamp
	for w, s := range c.keys.sections {
		got[w] = make([]stamp, s.slots)
	}
	err := c.keys.scan(r, shale.Range{Reverse: reverse}, func(w, slot int, s stamp) error {
		got[w][slot] = s
		return nil
	})
	if err != nil {
		return err
	}
	for w, s := range c.keys.sections {
		there := s.settleNext(c.Seed, got[w])
		if err := c.journal.add(entry{w, s.settled, there}); err != nil {
			return err
		}
		now := s.copyStamps(0, s.slots)
		if err := s.checkStamps(0, got[w], now, now); err != nil {
			return fmt.Errorf("after commit %d (there: %v): %w", s.settled, there, err)
		}
		c.checks.Add(uint64(s.slots))
	}
	return nil
}

// settleNext finds out whether the next commit is among what was read, and
// applies it if so. Requires: nobody writes.
func (s *section) settleNext(seed uint64, got []stamp) (there bool) {
	c := commitOf(seed, s.writer, s.settled+1, s.slots)
	changes := c.effects(s.at)
	last := make(map[int]stamp) // what each slot would become
	for _, ch := range changes {
		last[ch.slot] = ch.stamp
	}
	for slot, after := range last {
		if got[slot] == after.visible() && got[slot] != s.at(slot).visible() {
			there = true
		}
	}
	s.settled++
	s.begun.Store(s.settled)
	s.settle(changes, there)
	return there
}
