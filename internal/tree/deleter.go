package tree

import (
	"context"
	"sync/atomic"

	"github.com/shaledb/shale/internal/base"
	"github.com/shaledb/shale/internal/lockorder"
)

// An Obsolete is a file that nothing needs any more, or
// a version that nobody uses any more: see Tree.Retire.
type Obsolete struct {
	Name    string
	Table   *Table   // the table of that file; nil for other files
	Sidecar *Sidecar // the sidecar of that file; nil for other files

	version *Version // nil for files
}

// A Deleter removes files that nothing needs any more. While the store is open, a
// goroutine in Loop does it, so that a reader that is the last to need a file does
// not wait for its removal. Before and after that, the caller of Run does it.
//
// If a file can't be removed, the next Open removes it. It does the same with a
// file that a crash has brought back, so a Deleter does not sync the directory.
type Deleter struct {
	remove  func(Obsolete)
	changed func()
	wake    chan struct{} // to Loop

	freed atomic.Uint64 // see Freed

	mu       lockorder.Mutex[lockorder.Leaf] // protects the following fields
	files    []Obsolete                      // to be removed
	loops    bool                            // Loop removes the files; otherwise the caller of Run does
	removing int                             // calls of removeAll in progress
}

// NewDeleter returns a Deleter that calls remove for each file. After some
// files it calls changed, because there may be more room on the disk.
func NewDeleter(remove func(Obsolete), changed func()) *Deleter {
	return &Deleter{remove: remove, changed: changed, wake: make(chan struct{}, 1)}
}

// Add adds files to those that will be removed. The
// caller calls Run afterwards, when it holds no lock.
func (d *Deleter) Add(files ...Obsolete) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.files = append(d.files, files...)
}

// Start leaves the removals to Loop, which a goroutine is about to call.
func (d *Deleter) Start() {
	d.mu.Lock()
	d.loops = true
	d.mu.Unlock()
	base.Wake(d.wake)
}

// Loop removes files until ctx is done. Requires: Start was called.
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

// Stop takes the removals back from Loop and removes
// the files that are left. Requires: Loop has returned.
func (d *Deleter) Stop() {
	d.mu.Lock()
	d.loops = false
	d.mu.Unlock()
	d.removeAll()
}

// Run has the files removed: by Loop if it runs, otherwise before Run
// returns. Requires: the caller holds no lock that remove and changed take.
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

// Idle reports whether there is nothing left for Loop to remove,
// not even files that only a version needs whose last user has gone.
// It is also true when Loop does not run.
func (d *Deleter) Idle() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return !d.loops || d.removing == 0 && len(d.files) == 0
}

// Freed returns a number that grows when there may be more room on the disk: after
// files were removed, and before Idle says so; and after NoteFreed. A caller for which
// there was no room compares it with what it was before its attempt.
func (d *Deleter) Freed() uint64 { return d.freed.Load() }

// NoteFreed notes that there may be more room on the disk, since something else than
// a removal of this Deleter has given it back.
func (d *Deleter) NoteFreed() { d.freed.Add(1) }

// removeAll removes the files that are noted, and those that remove
// adds. It holds no lock while it calls remove and changed.
func (d *Deleter) removeAll() {
	removed := false
	for files := d.take(1); len(files) > 0; files = d.take(0) {
		for _, f := range files {
			d.remove(f)
			removed = removed || f.version == nil
		}
	}
	if removed {
		d.NoteFreed()
	}
	d.mu.Lock()
	d.removing--
	d.mu.Unlock()
	d.changed()
}

// take returns the files that are noted and forgets them. begin is
// 1 at the beginning of removeAll, so that no caller of Idle finds
// that there are no files before it finds that they are removed.
func (d *Deleter) take(begin int) []Obsolete {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.removing += begin
	files := d.files
	d.files = nil
	return files
}
