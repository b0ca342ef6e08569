package bbolt

import (
	stderrors "errors"
	"fmt"
	"slices"
	"time"
)

// This file has Batch.

// A batch is calls of Batch that share a transaction.
type batch struct {
	calls   []call
	timer   *time.Timer
	started bool // guarded by DB.batchMu, as calls until then
}

type call struct {
	fn   func(*Tx) error
	done chan error
}

// errAlone makes a call of Batch run its function by itself.
var errAlone = stderrors.New("bolt: a function of a batch failed")

// Batch is Update for many goroutines: calls at the same time share a transaction, and its sync. So fn may be called several
// times. If it fails or panics, it is called once more, in a transaction of its own, and that outcome counts.
func (db *DB) Batch(fn func(*Tx) error) error {
	done := make(chan error, 1)
	db.batchMu.Lock()
	b := db.batch
	if b == nil {
		b = new(batch)
		b.timer = time.AfterFunc(db.MaxBatchDelay, func() { db.run(b) })
		db.batch = b
	}
	b.calls = append(b.calls, call{fn, done})
	if len(b.calls) >= db.MaxBatchSize {
		db.batch = nil
		go db.run(b)
	}
	db.batchMu.Unlock()
	err := <-done
	if err == errAlone {
		err = db.Update(fn)
	}
	return err
}

// run runs the calls of b, unless somebody does already.
func (db *DB) run(b *batch) {
	db.batchMu.Lock()
	started := b.started
	b.started = true
	b.timer.Stop()
	if db.batch == b {
		db.batch = nil
	}
	db.batchMu.Unlock()
	if started {
		return
	}
	for calls := b.calls; len(calls) > 0; {
		failed := -1
		err := db.Update(func(tx *Tx) error {
			for i, c := range calls {
				if err := c.safely(tx); err != nil {
					failed = i
					return err
				}
			}
			return nil
		})
		if failed < 0 {
			for _, c := range calls {
				c.done <- err
			}
			return
		}
		calls[failed].done <- errAlone
		calls = slices.Delete(calls, failed, failed+1)
	}
}

// safely calls the function, and makes an error of a panic.
func (c call) safely(tx *Tx) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("bolt: panic in a batch: %v", p)
		}
	}()
	return c.fn(tx)
}
