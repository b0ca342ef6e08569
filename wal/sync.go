package wal

import (
	"errors"

	"github.com/shaledb/shale/vfs"
)

// writeBackUnit is the size of the pieces in bytes in which the log is written back. It is a
// multiple of the largest pages of the page cache. So a page that is still being written to
// is never among them: it would be written to the disk twice, as a whole.
const writeBackUnit = 2 << 20

// writeBackLag is the number of bytes that are written back at a time. It is large because
// each time costs the writers of the log some page faults.
const writeBackLag = 8 << 20

// WriteBackDue reports whether enough was appended for a call of WriteBack.
func (w *Writer) WriteBackDue() bool {
	return w.length.Load()-w.writtenBack.Load() >= writeBackLag+writeBackUnit/2
}

// WriteBack has the system begin to write the log to the disk, except for the last pages, so
// that the next sync is short. It makes nothing durable. It returns false where that is not
// possible. One goroutine at a time may call it, at the same time as all other methods.
func (w *Writer) WriteBack() bool {
	from, to := w.writtenBack.Load(), w.length.Load()&^(writeBackUnit-1)
	if from >= to {
		return true
	}
	w.mu.Lock()
	file := w.file
	w.mu.Unlock()
	w.writtenBack.Store(to)
	return file != nil && vfs.StartWriteBack(file, from, to-from) == nil // a file that was closed meanwhile returns an error
}

// Sync makes everything durable that was appended before the call.
func (w *Writer) Sync() error {
	if f := w.failed.Load(); f != nil {
		return f.err
	}
	return w.SyncTo(w.length.Load(), nil)
}

// A SyncObserver is told about syncs. The goroutine that syncs calls BeforeSync before each
// sync, and AfterSync after it. Records that are appended before BeforeSync returns are part
// of the sync. So BeforeSync may wait for more of them.
type SyncObserver interface {
	BeforeSync() // may wait for more records
	AfterSync()  // also if the sync has failed
}

// SyncTo makes the log durable up to end, which Append has returned. An error is final.
//
// Callers share their syncs. While a sync is under way, all others wait for it. Then one of
// those that it did not serve syncs for all of them. So any number of callers that come at
// the same time wait for at most two syncs.
//
// A caller whose records are durable gets nil, even if the log failed later. o is called for
// the syncs that this call makes itself; it may be nil.
func (w *Writer) SyncTo(end int64, o SyncObserver) error {
	end = min(end, w.length.Load()) // nothing more was appended
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

// lead syncs everything that was appended so far, for all callers that wait. It releases mu
// during the sync. Requires: mu is held, and syncing is false.
//
// A failed sync is not tried again. The kernel drops the pages that it could not write, and
// reports that only once. So the next sync would return nil although they were lost. A sync that
// does not return, because the file system panics or calls runtime.Goexit, has failed, too: that
// goes on in this goroutine, and the others get errSyncLeft.
func (w *Writer) lead(o SyncObserver) {
	w.syncing = true
	w.mu.Unlock()
	err, end := errSyncLeft, int64(0)
	defer func() {
		w.mu.Lock()
		w.syncing = false
		w.syncs.Add(1)
		if err != nil {
			w.syncFailed.Store(true)
			_ = w.fail("sync", err) // SyncTo returns it
		} else {
			w.synced.Store(end)
			if w.told != nil {
				w.told()
			}
		}
		w.cond.Broadcast()
	}()
	if o != nil {
		o.BeforeSync()
	}
	end = w.length.Load() // before the sync: later records may not be part of it
	synced := w.file.Sync()
	if o != nil {
		o.AfterSync()
	}
	if synced == nil && w.held != nil {
		synced = w.held()
	}
	err = synced
}

// errSyncLeft is the error of a sync that has not returned.
var errSyncLeft = errors.New("the file system panicked or called runtime.Goexit")
