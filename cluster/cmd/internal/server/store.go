package server

import (
	"context"
	"time"

	"github.com/shaledb/shale"
)

// A Store is what commands are done on: a store of this process alone, or a member of a replicated group. Its errors
// come through Config.Explain.
//
// The server knows nothing of raft, members or disks.
type Store interface {
	// Read calls fn with the newest state. Each call of the reader sees the state of its own moment, which may move on
	// between two calls.
	Read(ctx context.Context, fn func(shale.Reader) error) error
	// Local returns a reader that answers without others, and may be behind.
	Local() shale.Reader
	// View calls fn with the store itself, for what tools ask it. fn must not write, nor keep it.
	View(fn func(*shale.DB) error) error
	// Update runs fn in a serializable transaction, again and again until nobody else has changed what it read.
	Update(ctx context.Context, fn func(Txn) error) error

	// These decide alone what is there, so they cost one write, and no read before it.
	Write(ctx context.Context, b *shale.Batch) error
	PutIfAbsent(ctx context.Context, key, value []byte) (inserted bool, err error)
	PutIfAbsentTTL(ctx context.Context, key, value []byte, ttl time.Duration) (inserted bool, err error)
	DeletePresent(ctx context.Context, keys ...[]byte) (present []bool, err error)

	// Settle returns when all writes that have returned are as safe as the store promises. It is called before
	// replies that depend on them are sent.
	Settle() error
}

// A Txn is a transaction of a Store. It sees one state, and its own writes.
type Txn interface {
	shale.Reader
	shale.Writer
	Untracked() shale.Reader // reads the same, and can't conflict by it
}

// Alone returns the Store of a process that has db alone. settle makes what was written durable; nil: nothing has to
// be done for that, as a Write of db does it, or because nobody wants it.
func Alone(db *shale.DB, settle func() error) Store { return alone{db, settle} }

type alone struct {
	db     *shale.DB
	settle func() error
}

func (a alone) Read(_ context.Context, fn func(shale.Reader) error) error { return fn(a.db) }

func (a alone) Local() shale.Reader { return a.db }

func (a alone) View(fn func(*shale.DB) error) error { return fn(a.db) }

func (a alone) Update(ctx context.Context, fn func(Txn) error) error {
	return a.db.Update(ctx, func(tx *shale.Txn) error { return fn(tx) })
}

func (a alone) Write(ctx context.Context, b *shale.Batch) error { return a.db.Write(ctx, b) }

func (a alone) PutIfAbsent(_ context.Context, key, value []byte) (bool, error) {
	return a.db.PutIfAbsent(key, value)
}

func (a alone) PutIfAbsentTTL(_ context.Context, key, value []byte, ttl time.Duration) (bool, error) {
	return a.db.PutIfAbsentTTL(key, value, ttl)
}

// DeletePresent deletes keys in a transaction, which says which of them were there. A key that is named twice was there
// once.
func (a alone) DeletePresent(ctx context.Context, keys ...[]byte) (present []bool, err error) {
	err = a.db.Update(ctx, func(tx *shale.Txn) error {
		present = present[:0]
		for _, key := range keys {
			has, err := tx.Has(key)
			if err == nil && has {
				err = tx.Delete(key)
			}
			if err != nil {
				return err
			}
			present = append(present, has)
		}
		return nil
	})
	return present, err
}

func (a alone) Settle() error {
	if a.settle == nil {
		return nil
	}
	return a.settle()
}
