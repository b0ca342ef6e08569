package main

import (
	"errors"
	"time"

	"github.com/shaledb/shale"
)

// scan reads stretches of keys while they are written.
func (r *role) scan() {
	pace := between(r.r, 10*time.Microsecond, 10*time.Millisecond)
	for r.s.running() {
		sec := r.s.keys.sections[r.r.IntN(writers)]
		lo, hi := r.stretch(sec)
		begun := r.s.disk.weather.Load()
		err := r.s.call(r.name, func() error {
			if r.r.IntN(4) == 0 {
				return r.scanKeys(sec, lo, hi)
			}
			return r.scanEntries(r.s.db, sec, lo, hi)
		})
		r.answered(begun, err)
		r.s.pause(pace)
	}
}

// stretch chooses some neighbouring slots, seldom all.
func (r *role) stretch(sec *section) (lo, hi int) {
	if r.r.IntN(100) == 0 {
		return 0, sec.slots
	}
	lo = r.r.IntN(sec.slots)
	return lo, min(sec.slots, lo+1+r.r.IntN(1<<r.r.IntN(12)))
}

// scanEntries scans a stretch, in either direction.
func (r *role) scanEntries(from shale.Reader, sec *section, lo, hi int) error {
	before := sec.copyStamps(lo, hi)
	got, err := r.s.keys.collect(from, sec.writer, lo, hi, r.r.IntN(2) == 0)
	if err != nil {
		return err
	}
	return sec.checkStamps(lo, got, before, sec.copyStamps(lo, hi))
}

// errEnough ends a scan.
var errEnough = errors.New("enough")

// scanKeys scans only the keys of a stretch, and perhaps not to its end.
func (r *role) scanKeys(sec *section, lo, hi int) error {
	before := sec.copyStamps(lo, hi)
	rg := r.s.keys.rangeOf(sec.writer, lo, hi)
	rg.KeysOnly = true
	limit, enough := r.r.IntN(100), r.r.IntN(1000)
	rg.Limit = limit
	there := make(map[int]bool)
	end := hi
	err := r.s.keys.scan(r.s.db, rg, func(_, slot int, _ stamp) error {
		there[slot] = true
		if len(there) >= limit && limit > 0 || len(there) > enough {
			end = slot + 1
		}
		if len(there) > enough {
			return errEnough
		}
		return nil
	})
	if err != nil && !errors.Is(err, errEnough) {
		return err
	}
	if limit > 0 && len(there) > limit {
		return violationf("a scan limited to %d keys has %d", limit, len(there))
	}
	for slot := lo; slot < end; slot++ {
		if err := sec.checkHas(slot, there[slot], before[slot-lo], sec.at(slot)); err != nil {
			return err
		}
	}
	return nil
}
