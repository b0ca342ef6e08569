package main

import (
	"sync/atomic"
	"time"

	"github.com/shaledb/shale/test/harness"
	"github.com/shaledb/shale/vfs"
	"github.com/shaledb/shale/vfs/faultfs"
)

// A disk is the operating system's file system, with storms: moments in which
// operations fail.
type disk struct {
	*faultfs.FS
	unmapped bool // files can't be mapped
	met      *atomic.Uint64

	weather atomic.Int64 // counts beginnings and ends of storms: odd during one
	calm    atomic.Int64 // when the last one ended, since the disk was made
	made    time.Time
}

// newDisk returns a calm disk that adds the faults that it lets happen to met.
func newDisk(unmapped bool, met *atomic.Uint64) *disk {
	d := &disk{unmapped: unmapped, met: met, made: time.Now()}
	d.FS = faultfs.New(vfs.Default, d.unmap)
	return d
}

// unmap refuses to map files where they can't be mapped.
func (d *disk) unmap(op vfs.Op, _ string, _ int64) error {
	if op == vfs.OpMap && d.unmapped {
		return vfs.ErrUnsupported
	}
	return nil
}

// begin begins a storm. One goroutine does so at a time.
func (d *disk) begin(storm faultfs.InjectFunc) {
	d.weather.Add(1)
	d.Inject(func(op vfs.Op, name string, n int64) error {
		err := d.unmap(op, name, n)
		if err == nil {
			if err = storm(op, name, n); err != nil {
				d.met.Add(1)
			}
		}
		return err
	})
}

// end ends the storm.
func (d *disk) end() {
	d.Inject(d.unmap)
	d.calm.Store(int64(time.Since(d.made)))
	d.weather.Add(1)
}

func (d *disk) stormy() bool { return d.weather.Load()&1 == 1 }

// hadStorm reports whether there was one since the disk was made.
func (d *disk) hadStorm() bool { return d.weather.Load() > 0 }

// aftermath is how long after a storm its errors may still be told of by what
// waits for background work: that is tried again after 5 seconds at most.
const aftermath = 40 * time.Second

// excuses reports whether an error of an operation that began at a weather has
// its cause in a storm: in one that met it, or, if it writes, in one before.
func (d *disk) excuses(begun int64, err error, writes bool) bool {
	return writes && d.excusesLate(err) || harness.IsInjected(err) && (begun&1 == 1 || d.weather.Load() != begun)
}

// excusesLate is excuses for calls that may report what went wrong before.
func (d *disk) excusesLate(err error) bool {
	return harness.IsInjected(err) && (d.stormy() || time.Since(d.made)-time.Duration(d.calm.Load()) < aftermath)
}
