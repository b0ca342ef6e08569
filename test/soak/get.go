package main

import (
	"errors"
	"fmt"
	"time"

	"github.com/shaledb/shale"
)

// get looks single keys up, and pairs of twins.
func (r *role) get() {
	pace := between(r.r, time.Microsecond, time.Millisecond)
	for r.s.running() {
		var err error
		begun := r.s.disk.weather.Load()
		switch n := r.r.IntN(100); {
		case n < 6:
			err = r.getMany()
		case n < 10:
			err = r.getTwins(r.r.IntN(writers))
		case n < 30:
			err = r.getAbsent()
		default:
			err = r.getOne(n)
		}
		r.answered(begun, err)
		if r.r.IntN(64) == 0 {
			r.s.pause(64 * pace)
		}
	}
}

// answered counts a read that began at a weather, and fails if there is no
// excuse for its error.
func (r *role) answered(begun int64, err error) {
	r.s.ops.Add(1)
	if err != nil && !r.s.disk.excuses(begun, err) {
		r.s.fail(fmt.Errorf("%s: %w", r.name, err))
	}
	if err == nil {
		r.s.checks.Add(1)
	}
}

// pick chooses a section and a slot, rather one that is written just now.
func (r *role) pick() (*section, int) {
	sec := r.s.keys.sections[r.r.IntN(writers)]
	return sec, pickSlot(r.r, sec.begun.Load(), sec.slots)
}

// getOne reads a slot in one of the ways that there are.
func (r *role) getOne(way int) error {
	sec, slot := r.pick()
	key := appendKey(nil, r.s.Seed, sec.writer, slot)
	before := sec.at(slot)
	var got stamp
	var has, hasOnly bool
	err := r.s.call(r.name, func() (err error) {
		var value []byte
		switch way % 6 {
		case 0:
			has, err = r.s.db.Has(key)
			hasOnly = true
			return err
		case 1:
			value, err = r.s.db.AppendValue(r.buf[:0], key)
			r.buf = value
		case 2:
			err = r.s.db.ViewValue(key, func(v []byte) error {
				value = append(r.buf[:0], v...)
				r.buf = value
				return nil
			})
		case 3:
			has = r.s.db.MayContain(key)
			if has {
				return errNoAnswer
			}
			hasOnly = true
			return nil
		default:
			begin := time.Now()
			value, err = r.s.db.Get(key)
			r.s.gets.add(time.Since(begin))
		}
		if err == nil {
			var buf []byte
			got, err = readValue(value, r.s.Seed, sec.writer, slot, &buf)
		}
		return err
	})
	switch {
	case errors.Is(err, errNoAnswer):
		return nil
	case err != nil && !errors.Is(err, shale.ErrNotFound):
		return err
	case hasOnly:
		return sec.checkHas(slot, has, before, sec.at(slot))
	}
	return sec.checkSlot(slot, got, before, sec.at(slot))
}

// errNoAnswer is given in place of an answer that says nothing.
var errNoAnswer = errors.New("maybe")

// checkHas is checkSlot for reads that only tell whether the key is there.
func (s *section) checkHas(slot int, has bool, before, after stamp) error {
	if before == after && before&busy == 0 && has != (before.visible() != 0) {
		return violationf("slot %d of writer %d is there: %v; it was last changed by %v", slot, s.writer, has, before)
	}
	return nil
}

// getAbsent looks up a key that nobody ever writes, between those that somebody
// does.
func (r *role) getAbsent() error {
	sec, slot := r.pick()
	key := appendKey(nil, r.s.Seed, sec.writer, slot)
	if key = append(key, '!'); r.r.IntN(2) == 0 {
		key = key[:slotDigits]
	}
	return r.s.call(r.name, func() error {
		value, err := r.s.db.Get(key)
		if err == nil {
			return violationf("Get(%q) = %q; it was never written", key, value)
		}
		if errors.Is(err, shale.ErrNotFound) {
			return nil
		}
		return err
	})
}

// getMany reads some slots, with keys that are not there among them.
func (r *role) getMany() error {
	type asked struct {
		sec    *section
		slot   int
		before stamp
	}
	var keys [][]byte
	var want []asked
	for range 1 + r.r.IntN(50) {
		sec, slot := r.pick()
		key := appendKey(nil, r.s.Seed, sec.writer, slot)
		if r.r.IntN(4) == 0 {
			key, sec = append(key, '!'), nil
		}
		keys = append(keys, key)
		a := asked{sec, slot, 0}
		if sec != nil {
			a.before = sec.at(slot)
		}
		want = append(want, a)
	}
	got := make([]stamp, len(keys))
	n := 0
	err := r.s.call(r.name, func() error {
		return r.s.db.GetMany(keys, func(i int, value []byte, found bool) (err error) {
			if i != n {
				return violationf("GetMany answers %d after %d", i, n-1)
			}
			n++
			if found && want[i].sec == nil {
				return violationf("GetMany has %q, which was never written", keys[i])
			}
			if found {
				got[i], err = readValue(value, r.s.Seed, want[i].sec.writer, want[i].slot, &r.buf)
			}
			return err
		})
	})
	if err == nil && n != len(keys) {
		return violationf("GetMany of %d keys answers %d", len(keys), n)
	}
	for i, a := range want {
		if err != nil {
			return err
		}
		if a.sec != nil {
			err = a.sec.checkSlot(a.slot, got[i], a.before, a.sec.at(a.slot))
		}
	}
	return err
}

// getTwins reads the twins of a writer at one state of the store.
func (r *role) getTwins(writer int) error {
	sec := r.s.keys.sections[writer]
	slots := [2]int{0, sec.slots - 1}
	keys := [][]byte{appendKey(nil, r.s.Seed, writer, slots[0]), appendKey(nil, r.s.Seed, writer, slots[1])}
	var got [2]stamp
	err := r.s.call(r.name, func() error {
		return r.s.db.GetMany(keys, func(i int, value []byte, found bool) (err error) {
			if found {
				got[i], err = readValue(value, r.s.Seed, writer, slots[i], &r.buf)
			}
			return err
		})
	})
	if err == nil && got[0].commit() != got[1].commit() {
		return violationf("writer %d: half of a batch: the first key is of %v, the last of %v", writer, got[0], got[1])
	}
	return err
}
