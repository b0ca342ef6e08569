package shale

import (
	"context"
	"sync"

	"github.com/shaledb/shale/internal/base"
)

// An obsoleteFile is one that nothing needs any more.
type obsoleteFile struct {
	name  string
	table *table   // nil for other files
	side  *sidecar // nil for other files
}

// A deleter removes files that nothing needs any more. While the store is open, a
// goroutine does that, so that no reader has to who was the last to need one. A file
// that can't be removed is left to the next Open, and so is one that is back after a
// crash: therefore the directory is not synced.
type deleter struct {
	remove  func(obsoleteFile)
	changed func()        // there may be more room
	wake    chan struct{} // to loop

	mu       sync.Mutex
	files    []obsoleteFile
	loops    bool // loop removes them; else whoever calls run does
	removing int  // calls of removeAll under way
}

// add notes files for removal. The caller calls run afterwards, without a lock.
func (d *deleter) add(files ...obsoleteFile) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.files = append(d.files, files...)
}

// start says that a goroutine is going to call loop.
func (d *deleter) start() {
	d.mu.Lock()
	d.loops = true
	d.mu.Unlock()
	base.Wake(d.wake)
}

// loop removes files until ctx is done.
func (d *deleter) loop(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-d.wake:
			d.removeAll()
		}
	}
}

// stop takes over from loop, which has returned, and does what it has left.
func (d *deleter) stop() {
	d.mu.Lock()
	d.loops = false
	d.mu.Unlock()
	d.removeAll()
}

// run has the files removed: by loop, or at once if that does not run. Requires: the
// caller holds no lock.
func (d *deleter) run() {
	d.mu.Lock()
	loops := d.loops
	d.mu.Unlock()
	if loops {
		base.Wake(d.wake)
	} else {
		d.removeAll()
	}
}

// idle says whether nothing is left to remove, or nobody does it now.
func (d *deleter) idle() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return !d.loops || d.removing == 0 && len(d.files) == 0
}

func (d *deleter) removeAll() {
	d.mu.Lock()
	files := d.files
	d.files = nil
	d.removing++
	d.mu.Unlock()
	for _, f := range files {
		d.remove(f)
	}
	d.mu.Lock()
	d.removing--
	d.mu.Unlock()
	d.changed()
}
