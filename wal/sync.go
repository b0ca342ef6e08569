package wal

import (
	"github.com/shaledb/shale/vfs"
)

// writeBackUnit is in what units the log is written back. The largest pages of
// the page cache divide it, so none that will be written on is among them: it
// would be written twice, as a whole.
const writeBackUnit = 2 << 20

// writeBackLag is how much is written back at a time: each time costs the
// writers of the log some page faults.
const writeBackLag = 8 << 20

// WriteBackDue tells whether WriteBack has something to do.
func (w *Writer) WriteBackDue() bool {
	return w.length.Load()-w.writtenBack.Load() >= writeBackLag+writeBackUnit/2
}

// WriteBack has the system begin to write what was appended, but for the last
// pages, to the disk, so that the next sync is short. It makes nothing durable.
// It returns false where that can't be done. One goroutine at a time may call it,
// beside all others.
func (w *Writer) WriteBack() bool {
	from, to := w.writtenBack.Load(), w.length.Load()&^(writeBackUnit-1)
	if from >= to {
		return true
	}
	w.mu.Lock()
	file := w.file
	w.mu.Unlock()
	w.writtenBack.Store(to)
	return file != nil && vfs.StartWriteBack(file, from, to-from) == nil // a file closed meanwhile says so
}

// Sync makes durable all that was appended before the call.
func (w *Writer) Sync() error {
	if f := w.failed.Load(); f != nil {
		return f.err
	}
	return w.SyncTo(w.length.Load(), nil)
}

// A SyncObserver hears of syncs: BeforeSync and AfterSync are called around each
// one, by the goroutine that syncs. What is appended until BeforeSync returns is
// part of the sync.
type SyncObserver interface {
	BeforeSync()
	AfterSync()
}

// SyncTo makes the log durable up to end, which Append returned. Callers
// share syncs: while one is under way, all others wait for it, and one of those
// whom it did not serve syncs next for all of them. So n callers at once wait for
// two syncs at most. An error is final.
//
// A caller whose records are durable gets nil, even if the log failed later. o hears
// of the syncs that this call makes, and knows when it pays to wait for others; nil:
// nobody does.
func (w *Writer) SyncTo(end int64, o SyncObserver) error {
	end = min(end, w.length.Load()) // there is no more to wait for
	if end <= w.synced.Load() {
		return nil
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for {
		if end <= w.synced.Load() {
			return nil
		}
		if f := w.failed.Load(); f != nil {
			return f.err
		}
		if w.syncing {
			w.cond.Wait()
			continue
		}
		w.lead(o)
	}
}

// lead syncs what was appended so far, for all who wait. Requires: mu, which it
// lets go of meanwhile, and nobody syncs.
//
// A failed sync is not tried again: the kernel drops the pages that it could
// not write and reports that once; the next sync would return nil for nothing.
func (w *Writer) lead(o SyncObserver) {
	w.syncing = true
	w.mu.Unlock()
	if o != nil {
		o.BeforeSync()
	}
	end := w.length.Load() // what is appended during the sync is not known to be in it
	err := w.file.Sync()
	if o != nil {
		o.AfterSync()
	}
	w.mu.Lock()
	w.syncing = false
	w.syncs.Add(1)
	if err != nil {
		w.syncFailed.Store(true)
		_ = w.fail("sync", err) // SyncTo returns it
	} else {
		w.synced.Store(end)
	}
	w.cond.Broadcast()
}
