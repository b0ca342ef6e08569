package main

import (
	"bytes"
	"errors"
	"slices"
	"time"

	"github.com/shaledb/shale"
	"github.com/shaledb/shale/test/harness"
)

// maxHeld is how many snapshots and iterators are held at a time.
const maxHeld = 4

// A held is a snapshot or an iterator that is read again and again, with what
// it must show of a stretch of slots: the state when it was made.
type held struct {
	until  time.Time
	sec    *section
	lo, hi int
	state  harness.State

	snapshot *shale.Snapshot

	iterator *shale.Iterator
	model    harness.Iterator // moves as iterator does, in state
	lost     bool             // a movement has failed: iterator is nowhere
}

// hold takes snapshots and iterators and holds them for a while.
func (r *role) hold() {
	var all []*held
	for r.s.running() {
		if len(all) < maxHeld && r.r.IntN(3) == 0 {
			if h := r.take(); h != nil {
				all = append(all, h)
			}
		}
		for i := 0; i < len(all); i++ {
			begun := r.s.disk.weather.Load()
			err := r.s.call(r.name, func() error { return r.reread(all[i]) })
			all[i].lost = err != nil
			r.answered(begun, err)
			if time.Now().After(all[i].until) {
				r.drop(all[i])
				all = append(all[:i], all[i+1:]...)
			}
		}
		r.s.pause(between(r.r, 100*time.Microsecond, 100*time.Millisecond))
	}
	for _, h := range all {
		r.drop(h)
	}
}

// take makes a snapshot or an iterator while the writer of a section waits. It
// returns nil if it can't.
func (r *role) take() *held {
	sec := r.s.keys.sections[r.r.IntN(writers)]
	h := &held{sec: sec, until: time.Now().Add(between(r.r, 10*time.Millisecond, 15*time.Second))}
	h.lo, h.hi = r.stretch(sec)
	sec.mu.Lock()
	defer sec.mu.Unlock()
	if sec.begun.Load() > sec.settled {
		return nil // what became of its last commit is known after the next Open
	}
	h.state = r.s.keys.state(sec, h.lo, h.hi)
	begun := r.s.disk.weather.Load()
	err := r.s.call(r.name, func() (err error) {
		if r.r.IntN(2) == 0 {
			h.snapshot, err = r.s.db.Snapshot()
			return err
		}
		h.iterator = r.s.db.NewIterator(r.s.keys.rangeOf(sec.writer, h.lo, h.hi))
		h.model = harness.NewModelAt(h.state, 0).Iterator(shale.Range{})
		return h.iterator.Err()
	})
	r.answered(begun, err)
	if err != nil {
		if h.iterator != nil {
			_ = h.iterator.Close() // its error is err
		}
		return nil
	}
	return h
}

// key returns the key of one of the slots.
func (r *role) key(h *held) []byte {
	return appendKey(nil, r.s.Seed, h.sec.writer, h.lo+r.r.IntN(h.hi-h.lo))
}

func (r *role) drop(h *held) {
	var err error
	if h.snapshot != nil {
		err = h.snapshot.Close()
	} else {
		err = h.iterator.Close()
	}
	if err != nil && !h.lost {
		r.s.fail(err)
	}
}

// reread reads what is held once more.
func (r *role) reread(h *held) error {
	if h.iterator != nil {
		for range 1 + r.r.IntN(20) {
			if err := r.move(h); err != nil {
				return err
			}
		}
		return nil
	}
	for range 1 + r.r.IntN(20) {
		key := r.key(h)
		got, err := h.snapshot.Get(key)
		if err != nil && !errors.Is(err, shale.ErrNotFound) {
			return err
		}
		if want, there := h.state.Get(string(key)); there != (err == nil) || want != string(got) {
			return violationf("a snapshot has %q = %.60q, %v; want %.60q, there: %v", key, got, err, want, there)
		}
	}
	if r.r.IntN(4) == 0 {
		rg := r.s.keys.rangeOf(h.sec.writer, h.lo, h.hi)
		rg.Reverse = r.r.IntN(2) == 0
		got, err := harness.ReadRange(h.snapshot, rg)
		if err != nil {
			return err
		}
		if err := h.state.Diff(got); err != nil {
			return violationf("a scan of a snapshot: %v", err)
		}
	}
	return r.twinsIn(h.snapshot, r.r.IntN(writers))
}

// stampIn returns the stamp that a slot has in a snapshot.
func (r *role) stampIn(from shale.Reader, sec *section, slot int) (stamp, error) {
	value, err := from.Get(appendKey(nil, r.s.Seed, sec.writer, slot))
	if errors.Is(err, shale.ErrNotFound) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	return readValue(value, r.s.Seed, sec.writer, slot, &r.buf)
}

// twinsIn compares the twins of a writer in a snapshot.
func (r *role) twinsIn(from shale.Reader, writer int) error {
	sec := r.s.keys.sections[writer]
	first, err := r.stampIn(from, sec, 0)
	if err != nil {
		return err
	}
	last, err := r.stampIn(from, sec, sec.slots-1)
	if err == nil && first.commit() != last.commit() {
		return violationf("writer %d: half of a batch: the first key is of %v, the last of %v", writer, first, last)
	}
	return err
}

// move moves a held iterator and checks where it is then.
func (r *role) move(h *held) error {
	it, how, key := h.iterator, harness.Movements[r.r.IntN(len(harness.Movements))], r.key(h)
	if h.lost && slices.Contains([]string{"Next", "Prev", "NearGE", "NearLT"}, how) {
		how = "First"
	}
	ok := harness.Move(it, how, key)
	if err := it.Err(); err != nil {
		return err
	}
	h.lost = false
	if want := harness.Move(h.model, how, key); ok != want || it.Valid() != want {
		return violationf("an iterator moves by %s %q: %v, Valid %v; want %v", how, key, ok, it.Valid(), want)
	}
	if ok && (!bytes.Equal(it.Key(), h.model.Key()) || !bytes.Equal(it.Value(), h.model.Value())) {
		return violationf("an iterator moves by %s %q to %q = %.60q, want %q = %.60q", how, key, it.Key(), it.Value(), h.model.Key(), h.model.Value())
	}
	return nil
}
