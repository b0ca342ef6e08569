package main

import (
	"errors"
	"sort"
	"time"

	"github.com/shaledb/shale"
)

// maxHeld is how many snapshots and iterators are held at a time.
const maxHeld = 4

// A held is a snapshot or an iterator that is read again and again, with what
// it must show of a stretch of slots: the state when it was made.
type held struct {
	until  time.Time
	sec    *section
	lo, hi int
	want   []stamp

	snapshot *shale.Snapshot

	iterator *shale.Iterator
	there    []int // the slots that it must show
	pos      int   // in there; -1: before the first; len(there): past the last
	lost     bool  // a movement has failed: it is nowhere
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

// take makes a snapshot or an iterator while the writer of a section waits.
func (r *role) take() *held {
	sec := r.s.keys.sections[r.r.IntN(writers)]
	h := &held{sec: sec, until: time.Now().Add(between(r.r, 10*time.Millisecond, 15*time.Second)), pos: -1}
	h.lo, h.hi = r.stretch(sec)
	sec.mu.Lock()
	defer sec.mu.Unlock()
	h.want = sec.copyStamps(h.lo, h.hi)
	begun := r.s.disk.weather.Load()
	err := r.s.call(r.name, func() (err error) {
		if r.r.IntN(2) == 0 {
			h.snapshot, err = r.s.db.Snapshot()
			return err
		}
		h.iterator = r.s.db.NewIterator(r.s.keys.rangeOf(sec.writer, h.lo, h.hi))
		return h.iterator.Err()
	})
	r.answered(begun, err)
	if err != nil {
		if h.iterator != nil {
			_ = h.iterator.Close() // its error is err
		}
		return nil
	}
	for i, v := range h.want {
		if v.visible() != 0 {
			h.there = append(h.there, h.lo+i)
		}
	}
	return h
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
		slot := h.lo + r.r.IntN(h.hi-h.lo)
		got, err := r.stampIn(h.snapshot, h.sec, slot)
		if err != nil {
			return err
		}
		if err := h.sec.checkSlot(slot, got, h.want[slot-h.lo], h.want[slot-h.lo]); err != nil {
			return violationf("a snapshot: %v", err)
		}
	}
	if r.r.IntN(4) == 0 {
		got, err := r.s.keys.collect(h.snapshot, h.sec.writer, h.lo, h.hi, r.r.IntN(2) == 0)
		if err != nil {
			return err
		}
		if err := h.sec.checkStamps(h.lo, got, h.want, h.want); err != nil {
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
	it, n := h.iterator, len(h.there)
	way := r.r.IntN(12)
	if h.lost && way >= 4 {
		way = r.r.IntN(4)
	}
	slot := h.lo + r.r.IntN(h.hi-h.lo)
	key := appendKey(nil, r.s.Seed, h.sec.writer, slot)
	var ok bool
	switch {
	case way == 0:
		ok, h.pos = it.First(), 0
	case way == 1:
		ok, h.pos = it.Last(), n-1
	case way == 2:
		ok, h.pos = it.SeekGE(key), sort.SearchInts(h.there, slot)
	case way == 3:
		ok, h.pos = it.SeekLT(key), sort.SearchInts(h.there, slot)-1
	case way < 8:
		ok, h.pos = it.Next(), min(n, h.pos+1)
	default:
		ok, h.pos = it.Prev(), max(-1, h.pos-1)
	}
	if err := it.Err(); err != nil {
		return err
	}
	h.lost = false
	want := h.pos >= 0 && h.pos < n
	if ok != want || it.Valid() != want {
		return violationf("an iterator, moved in way %d to %d of %d keys: %v, Valid %v", way, h.pos, n, ok, it.Valid())
	}
	if !want {
		return nil
	}
	w, at, err := parseKey(it.Key(), r.s.Seed)
	if err != nil {
		return err
	}
	if w != h.sec.writer || at != h.there[h.pos] {
		return violationf("an iterator, moved in way %d, is on %q, not on slot %d of writer %d", way, it.Key(), h.there[h.pos], h.sec.writer)
	}
	got, err := readValue(it.Value(), r.s.Seed, w, at, &r.buf)
	if err != nil {
		return err
	}
	return h.sec.checkSlot(at, got, h.want[at-h.lo], h.want[at-h.lo])
}
