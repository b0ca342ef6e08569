package stores

import (
	"context"
	"errors"

	"github.com/dgraph-io/badger/v4"
	"go.etcd.io/bbolt"

	"github.com/shaledb/shale"
	"github.com/shaledb/shale/bench/peers/internal/data"
)

// This file has the transactions of those engines that have them, each as its users write them.

func (s *shaleStore) Client() Client {
	c := data.Apart[shaleClient]()
	c.db = s.db
	return c
}

type shaleClient struct {
	db  *shale.DB
	tx  *shale.Txn
	buf number
}

func (c *shaleClient) View(fn func(Tx) error) error {
	return c.db.View(func(tx *shale.Txn) error { c.tx = tx; return fn(c) })
}

func (c *shaleClient) Update(fn func(Tx) error) error {
	return c.db.Update(context.Background(), func(tx *shale.Txn) error { c.tx = tx; return fn(c) })
}

func (c *shaleClient) Number(key []byte) (uint64, error) {
	value, err := c.tx.AppendValue(c.buf[:0], key)
	if err != nil {
		return 0, err
	}
	return numberOf(value)
}

func (c *shaleClient) SetNumber(key []byte, n uint64) error {
	var one numbers
	return c.tx.Put(key, one.next(n))
}

func (s *badgerStore) Client() Client {
	c := data.Apart[badgerClient]()
	c.db = s.db
	return c
}

type badgerClient struct {
	db  *badger.DB
	tx  *badger.Txn
	set numbers
}

func (c *badgerClient) begin(tx *badger.Txn) { c.tx, c.set.n = tx, 0 }

func (c *badgerClient) View(fn func(Tx) error) error {
	return c.db.View(func(tx *badger.Txn) error { c.begin(tx); return fn(c) })
}

func (c *badgerClient) Update(fn func(Tx) error) error {
	for {
		err := c.db.Update(func(tx *badger.Txn) error { c.begin(tx); return fn(c) })
		if !errors.Is(err, badger.ErrConflict) {
			return err
		}
	}
}

func (c *badgerClient) Number(key []byte) (n uint64, err error) {
	item, err := c.tx.Get(key)
	if err != nil {
		return 0, err
	}
	err = item.Value(func(value []byte) (err error) {
		n, err = numberOf(value)
		return err
	})
	return n, err
}

func (c *badgerClient) SetNumber(key []byte, n uint64) error { return c.tx.Set(key, c.set.next(n)) }

func (s *bboltStore) Client() Client {
	c := data.Apart[bboltClient]()
	c.db, c.batches = s.db, s.batches
	return c
}

type bboltClient struct {
	db      *bbolt.DB
	b       *bbolt.Bucket
	set     numbers
	batches bool
}

func (c *bboltClient) begin(tx *bbolt.Tx) { c.b, c.set.n = tx.Bucket(bucketName), 0 }

func (c *bboltClient) View(fn func(Tx) error) error {
	return c.db.View(func(tx *bbolt.Tx) error { c.begin(tx); return fn(c) })
}

func (c *bboltClient) Update(fn func(Tx) error) error {
	call := func(tx *bbolt.Tx) error { c.begin(tx); return fn(c) }
	if c.batches {
		return c.db.Batch(call)
	}
	return c.db.Update(call)
}

func (c *bboltClient) Number(key []byte) (uint64, error)    { return numberOf(c.b.Get(key)) }
func (c *bboltClient) SetNumber(key []byte, n uint64) error { return c.b.Put(key, c.set.next(n)) }

func (*nullStore) Client() Client { return nullStore{} }

func (s nullStore) View(fn func(Tx) error) error   { return fn(s) }
func (s nullStore) Update(fn func(Tx) error) error { return fn(s) }
func (nullStore) Number([]byte) (uint64, error)    { return 0, nil }
func (nullStore) SetNumber([]byte, uint64) error   { return nil }
