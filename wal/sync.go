package wal

import "github.com/shaledb/shale/internal/mutant"

// Sync makes durable all that was appended before the call.
func (w *Writer) Sync() error {
	if f := w.failed.Load(); f != nil {
		return f.err
	}
	return w.SyncTo(w.length.Load())
}

// SyncTo makes the log durable up to end, which Append returned. Callers share
// syncs: while one is under way, all others wait for it, and one of those whom
// it did not serve syncs next for all of them. So n callers at once wait for two
// syncs at most. An error is final.
//
// A caller whose records are durable gets nil, even if the log failed later.
func (w *Writer) SyncTo(end int64) error {
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
		w.lead()
	}
}

// lead syncs what was appended so far, for all who wait. Requires: mu, which it
// lets go of meanwhile, and nobody syncs.
//
// A failed sync is not tried again: the kernel drops the pages that it could
// not write and reports that once; the next sync would return nil for nothing.
func (w *Writer) lead() {
	w.syncing = true
	end := w.length.Load() // what is appended during the sync is not known to be in it
	w.mu.Unlock()
	err := w.file.Sync()
	if mutant.SyncRetried && err != nil {
		err = w.file.Sync()
	}
	w.mu.Lock()
	w.syncing = false
	w.syncs.Add(1)
	if err != nil {
		_ = w.fail("sync", err) // SyncTo returns it
	} else {
		w.synced.Store(end)
	}
	w.cond.Broadcast()
}
