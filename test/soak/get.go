package main

import (
	"errors"
	"fmt"
	"time"

	"github.com/shaledb/shale"
	"github.com/shaledb/shale/test/harness"
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
			err = r.getOne()
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

// getOne asks for a slot in one of the ways that there are.
func (r *role) getOne() error {
	sec, slot := r.pick()
	key := appendKey(nil, r.s.Seed, sec.writer, slot)
	before := sec.at(slot)
	how := harness.Lookups[r.r.IntN(len(harness.Lookups))]
	var found, mayBe bool
	var value []byte
	err := r.s.call(r.name, func() (err error) {
		if r.r.IntN(6) == 0 {
			mayBe = r.s.db.MayContain(key)
			how = "MayContain"
			return nil
		}
		begin := time.Now()
		found, value, err = harness.Lookup(r.store, how, key)
		if how == "Get" {
			r.s.gets.add(time.Since(begin))
		}
		return err
	})
	var got stamp
	switch {
	case err != nil || mayBe:
		return err
	case how == "Has" || how == "MayContain":
		return sec.checkHas(slot, found, before, sec.at(slot))
	case found:
		if got, err = readValue(value, r.s.Seed, sec.writer, slot, &r.buf); err != nil {
			return err
		}
	}
	return sec.checkSlot(slot, got, before, sec.at(slot))
}

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
