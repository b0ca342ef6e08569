package shale

import (
	"context"
	"encoding/binary"
	"fmt"
	"time"

	"github.com/shaledb/shale/internal/base"
	"github.com/shaledb/shale/internal/commit"
)

// This file has values that expire, as programs see them.

// PutTTL adds the change that sets key to value until ttl has passed; both are copied. The time
// is taken from the system's clock now, and not by Write. A ttl of 0 or less is a Delete.
func (b *Batch) PutTTL(key, value []byte, ttl time.Duration) error {
	return b.putTTL(&commit.Clock{System: time.Now}, key, value, ttl)
}

func (b *Batch) putTTL(c *commit.Clock, key, value []byte, ttl time.Duration) error {
	if ttl <= 0 {
		if err := checkExpiringValue(value); err != nil {
			return err
		}
		return b.Delete(key)
	}
	return b.putUntil(key, value, c.After(ttl))
}

func checkExpiringValue(value []byte) error {
	if len(value) > MaxValueSize-base.ExpirySize {
		return fmt.Errorf("%w: %d bytes, limit %d of a value that expires", ErrValueTooLarge, len(value), MaxValueSize-base.ExpirySize)
	}
	return nil
}

// putUntil adds the change that sets key to value until ms.
func (b *Batch) putUntil(key, value []byte, ms int64) error {
	if err := checkExpiringValue(value); err != nil {
		return err
	}
	n := base.ExpirySize + len(value)
	if err := b.grow(key, n); err != nil {
		return err
	}
	b.data = append(b.data, byte(base.KindExpiring))
	b.data = append(binary.AppendUvarint(b.data, uint64(len(key))), key...)
	b.data = binary.AppendUvarint(b.data, uint64(n))
	b.data = base.AppendExpiring(b.data, ms, value)
	b.added(len(key) + n)
	b.expiring = true
	return nil
}

// PutTTL sets the value of key until ttl has passed, to the millisecond. From then on it is as if key had been deleted;
// with a ttl of 0 or less it is deleted at once. It is durable as [Options.Durability] says, and waits while
// flushes or compactions are behind.
func (db *DB) PutTTL(key, value []byte, ttl time.Duration) error {
	b := batchPool.Get().(*Batch)
	defer freeBatch(b)
	if err := b.putTTL(&db.snapshots.Clock, key, value, ttl); err != nil {
		return err
	}
	db.snapshots.Clock.Note(b.expiring)
	return db.write(context.Background(), b)
}

// putUntil is PutTTL with the time at which the value expires.
func (db *DB) putUntil(key, value []byte, ms int64) error {
	b := batchPool.Get().(*Batch)
	defer freeBatch(b)
	if err := b.putUntil(key, value, ms); err != nil {
		return err
	}
	db.snapshots.Clock.Note(b.expiring)
	return db.write(context.Background(), b)
}

// PutIfAbsentTTL is PutIfAbsent with a value that is gone once ttl has passed. A key whose value
// is over is absent. With a ttl of 0 or less, what was inserted is gone at once.
func (db *DB) PutIfAbsentTTL(key, value []byte, ttl time.Duration) (inserted bool, err error) {
	b := batchPool.Get().(*Batch)
	defer freeBatch(b)
	return db.putIfAbsent(b, key, func() error { return b.putTTL(&db.snapshots.Clock, key, value, ttl) })
}

// PutTTL sets the value of key when the transaction commits, until ttl has passed, to the millisecond. The time begins
// now, and not with Commit. From then on it is as if key had been deleted; with a ttl of 0 or less it is deleted at once.
func (tx *Txn) PutTTL(key, value []byte, ttl time.Duration) error {
	return tx.writeExpiring(key, func() error { return tx.batch.putTTL(&tx.db.snapshots.Clock, key, value, ttl) })
}

func (tx *Txn) putUntil(key, value []byte, ms int64) error {
	return tx.writeExpiring(key, func() error { return tx.batch.putUntil(key, value, ms) })
}

func (tx *Txn) writeExpiring(key []byte, add func() error) error {
	return tx.write(key, func() error {
		if at := &tx.snapshot.held.AsOf; *at == 0 {
			*at = tx.db.snapshots.Clock.Now() // for what it writes itself: nothing that it sees in the store expires
		}
		return add()
	})
}

// ExpiresAt returns when the value of key expires, the zero time if never, or [ErrNotFound].
func (tx *Txn) ExpiresAt(key []byte) (time.Time, error) { return tx.tracked().ExpiresAt(key) }

func (r txnReader) ExpiresAt(key []byte) (time.Time, error) {
	w, own, err := r.tx.find(key, r.track)
	switch {
	case err != nil:
		return time.Time{}, err
	case !own:
		return r.tx.snapshot.ExpiresAt(key)
	case !w.live:
		return time.Time{}, ErrNotFound
	}
	return expiryTime(w.expiry), nil
}

// PutTTL sets the value of key until ttl has passed, to the millisecond. From then on it is as if key had been deleted;
// with a ttl of 0 or less it is deleted at once.
func (s *Sub) PutTTL(key, value []byte, ttl time.Duration) error {
	if s.writer == nil {
		return errSubReadOnly
	}
	k := s.join(key)
	defer freeKey(k)
	return s.writer.PutTTL(*k, value, ttl)
}

func (s *Sub) putUntil(key, value []byte, ms int64) error {
	if s.writer == nil {
		return errSubReadOnly
	}
	k := s.join(key)
	defer freeKey(k)
	return Op{Kind: OpPut, Key: *k, Value: value, ExpiresAt: time.UnixMilli(ms)}.Apply(s.writer)
}

// PutIfAbsentTTL is [DB.PutIfAbsentTTL]. In a transaction it is Has and then PutTTL.
func (s *Sub) PutIfAbsentTTL(key, value []byte, ttl time.Duration) (inserted bool, err error) {
	if db, ok := s.writer.(*DB); ok {
		k := s.join(key)
		defer freeKey(k)
		return db.PutIfAbsentTTL(*k, value, ttl)
	}
	return s.putIfAbsent(key, func() error { return s.PutTTL(key, value, ttl) })
}

// ExpiresAt returns when the value of key expires, the zero time if never, or [ErrNotFound].
func (s *Sub) ExpiresAt(key []byte) (time.Time, error) {
	k := s.join(key)
	defer freeKey(k)
	return s.reader.ExpiresAt(*k)
}

func (w subWriter) PutTTL(key, value []byte, ttl time.Duration) error {
	return w.sub.PutTTL(key, value, ttl)
}

func (w subWriter) putUntil(key, value []byte, ms int64) error { return w.sub.putUntil(key, value, ms) }
