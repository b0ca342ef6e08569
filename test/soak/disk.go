package main

import (
	"errors"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/shaledb/shale/vfs"
)

// A disk is the operating system's file system, with storms: moments in which
// operations fail.
type disk struct {
	*vfs.FaultFS
	unmapped bool // files can't be mapped
	met      *atomic.Uint64
	clock    *clock

	storm   atomic.Pointer[storm]
	weather atomic.Int64 // counts beginnings and ends of storms: odd during one
	calm    atomic.Int64 // when the last one ended, by the clock
}

// newDisk returns a calm disk that adds the faults that it lets happen to met.
func newDisk(unmapped bool, met *atomic.Uint64, c *clock) *disk {
	d := &disk{unmapped: unmapped, met: met, clock: c}
	d.FaultFS = vfs.NewFault(vfs.Default, d.inject)
	return d
}

// injected is the mark of a fault that is no real one.
type injected struct{ error }

func (i injected) Unwrap() error { return i.error }

func isInjected(err error) bool {
	var i injected
	return errors.As(err, &i)
}

// A storm chooses the operations that fail.
type storm struct {
	seed     uint64
	ops      []vfs.Op
	files    string // a part of the names of files that it meets
	permille uint64 // how many of these operations fail
	err      error
	short    bool // half of each other write gets through
	after    bool // the operations happen, and fail then
}

// needRoom are the operations that a full disk refuses.
var needRoom = []vfs.Op{vfs.OpCreate, vfs.OpLink, vfs.OpMkdirAll, vfs.OpWrite, vfs.OpPreallocate}

func newStorm(r *rand.Rand) *storm {
	st := &storm{seed: r.Uint64(), err: syscall.EIO}
	st.permille = []uint64{1000, 1000, 300, 30, 3}[r.IntN(5)]
	st.files = []string{"", "", "", ".wal", ".sst", "MANIFEST"}[r.IntN(6)]
	switch r.IntN(6) {
	case 0, 1: // a full disk
		st.err, st.short, st.ops = syscall.ENOSPC, true, needRoom
	case 2:
		st.ops = []vfs.Op{vfs.OpRead}
	case 3:
		st.ops = []vfs.Op{vfs.OpSync, vfs.OpSyncDir}
	default:
		for _, op := range vfs.AllOps() {
			if r.IntN(3) == 0 {
				st.ops = append(st.ops, op)
			}
		}
		st.short = r.IntN(2) == 0
		st.after = !st.short && r.IntN(3) == 0
	}
	return st
}

func (d *disk) inject(op vfs.Op, name string, n int64) error {
	if op == vfs.OpMap && d.unmapped {
		return vfs.ErrUnsupported
	}
	st := d.storm.Load()
	if st == nil || !slices.Contains(st.ops, op) || !strings.Contains(filepath.Base(name), st.files) {
		return nil
	}
	if mix(st.seed, uint64(n))%1000 >= st.permille {
		return nil
	}
	d.met.Add(1)
	return &vfs.Fault{Err: injected{st.err}, Short: st.short && n%2 == 0, After: st.after}
}

// begin begins a storm. One goroutine does so at a time.
func (d *disk) begin(st *storm) {
	d.weather.Add(1)
	d.storm.Store(st)
}

// end ends the storm.
func (d *disk) end() {
	d.storm.Store(nil)
	d.calm.Store(int64(d.clock.now()))
	d.weather.Add(1)
}

func (d *disk) stormy() bool { return d.weather.Load()&1 == 1 }

// hadStorm tells whether there was one since the disk was made.
func (d *disk) hadStorm() bool { return d.weather.Load() > 0 }

// excuses tells whether an error of an operation that began at a weather has
// its cause in a storm that met the operation.
func (d *disk) excuses(begun int64, err error) bool {
	return isInjected(err) && (begun&1 == 1 || d.weather.Load() != begun)
}

// aftermath is how long after a storm its errors may still be told of by what
// waits for background work: that is tried again after 5 seconds at most.
const aftermath = 40 * time.Second

// excusesLate is excuses for calls that may report what went wrong before.
func (d *disk) excusesLate(err error) bool {
	return isInjected(err) && (d.stormy() || d.clock.now()-time.Duration(d.calm.Load()) < aftermath)
}
