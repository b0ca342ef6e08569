package main

import (
	"time"

	"github.com/shaledb/shale/test/harness"
)

// storms makes the disk fail now and then, if that is the session's lot, and
// the store writable again afterwards.
func (r *role) storms() {
	s := r.s
	begins := !s.Last && r.r.IntN(3) > 0
	apart := between(r.r, 30*time.Millisecond, 5*time.Second)
	for {
		// While it is calm what the last storm has left may come to light.
		for until := time.Now().Add(between(r.r, apart/10, apart)); !begins || time.Now().Before(until); {
			if !s.pause(5 * time.Millisecond) {
				return
			}
			s.calmDown()
		}
		s.disk.begin(harness.DrawStorm(r.r))
		s.storms.Add(1)
		s.pause(between(r.r, time.Millisecond, 300*time.Millisecond))
		if s.db.Err() != nil && r.r.IntN(4) == 0 {
			_ = s.call(r.name, s.db.Resume) // it may fail, as all does
		}
		s.disk.end()
		if s.db.Err() != nil && r.r.IntN(3) == 0 {
			s.stop() // the store is closed and opened as it is
			return
		}
	}
}
