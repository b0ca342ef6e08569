package tree

import (
	"context"
	"sync"

	"github.com/shaledb/shale/internal/base"
)

// An Obsolete is a file that nothing needs any more.
type Obsolete struct {
	Name    string
	Table   *Table   // nil for other files
	Sidecar *Sidecar // nil for other files
}

// A Deleter removes files that nothing needs any more. While the store is open, a
// goroutine does that, so that no reader has to who was the last to need one. A file
// that can't be removed is left to the next Open, and so is one that is back after a
// crash: therefore the directory is not synced.
type Deleter struct {
	remove  func(Obsolete)
	changed func()
	wake    chan struct{} // to Loop

	mu       sync.Mutex
	files    []Obsolete
	loops    bool // Loop removes them; else whoever calls Run does
	removing int  // calls of removeAll under way
}

// NewDeleter returns a Deleter that calls remove for each file, and changed after some are
// removed: there may be more room.
func NewDeleter(remove func(Obsolete), changed func()) *Deleter {
	return &Deleter{remove: remove, changed: changed, wake: make(chan struct{}, 1)}
}

// Add notes files for removal. The caller calls Run afterwards, without a lock.
func (d *Deleter) Add(files ...Obsolete) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.files = append(d.files, files...)
}

// Start says that a goroutine is going to call Loop.
func (d *Deleter) Start() {
	d.mu.Lock()
	d.loops = true
	d.mu.Unlock()
	base.Wake(d.wake)
}

// Loop removes files until ctx is done.
func (d *Deleter) Loop(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-d.wake:
			d.removeAll()
		}
	}
}

// Stop takes over from Loop, which has returned, and does what it has left.
func (d *Deleter) Stop() {
	d.mu.Lock()
	d.loops = false
	d.mu.Unlock()
	d.removeAll()
}

// Run has the files removed: by Loop, or at once if that does not run. Requires: the
// caller holds no lock that remove and changed take.
func (d *Deleter) Run() {
	d.mu.Lock()
	loops := d.loops
	d.mu.Unlock()
	if loops {
		base.Wake(d.wake)
	} else {
		d.removeAll()
	}
}

// Idle says whether nothing is left to remove, or nobody does it now.
func (d *Deleter) Idle() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return !d.loops || d.removing == 0 && len(d.files) == 0
}

func (d *Deleter) removeAll() {
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
