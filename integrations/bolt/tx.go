package bbolt

import (
	"context"
	stderrors "errors"
	"fmt"
	"io"
	"os"
	"slices"
	"sync"
	"time"

	"go.etcd.io/bbolt/errors"

	"github.com/shaledb/shale"
)

// This file has Tx: how a transaction ends, and what it has of the root.

// A Tx is a transaction. One that reads, its buckets and its cursors may be used by several goroutines, each cursor by one at a
// time. One that writes, and all of it, is for one goroutine at a time.
type Tx struct {
	// WriteFlag has no effect.
	WriteFlag int

	db       *DB // nil: the transaction has ended
	writable bool
	managed  bool // Update or View ends it
	root     Bucket
	onCommit []func()
	stats    TxStats

	read  shale.Reader // the snapshot, or txn
	close func()       // gives read up

	// Of a transaction that writes.
	txn    *shale.Txn
	writes int                  // how many there were: a cursor sees those before it was positioned
	key    []byte               // of the call under way
	dirty  map[*Bucket]struct{} // buckets whose header is to be written

	loaded sync.Once // state, if the transaction only reads
	state  state

	mu     sync.Mutex // guards the following
	open   []*Cursor  // cursors with iterators, in the order in which they got them
	failed error      // of the first read that failed
}

// newTx returns a transaction. txn is nil if it only reads.
func newTx(db *DB, read shale.Reader, txn *shale.Txn) *Tx {
	tx := &Tx{db: db, read: read, txn: txn, writable: txn != nil}
	tx.root = Bucket{tx: tx, header: header{parent: true}, FillPercent: DefaultFillPercent}
	if txn == nil {
		snapshot := read.(*shale.Snapshot)
		tx.close = func() { _ = snapshot.Close() } // it is open
		return tx
	}
	tx.close = txn.Discard
	tx.state, tx.dirty = db.state, make(map[*Bucket]struct{})
	return tx
}

// Commit ends a transaction that writes, and returns once its writes are on disk. After an error none of them is visible.
func (tx *Tx) Commit() error {
	if tx.managed {
		panic("bolt: Commit of a transaction that Update or View ends")
	}
	if tx.db == nil {
		return errors.ErrTxClosed
	}
	if !tx.writable {
		return errors.ErrTxNotWritable
	}
	if err := tx.commit(); err != nil {
		tx.end()
		return err
	}
	tx.end()
	for _, fn := range tx.onCommit {
		fn()
	}
	return nil
}

// commit writes what the transaction has to write.
func (tx *Tx) commit() error {
	if err := tx.failure(); err != nil {
		return err
	}
	if err := tx.flush(); err != nil || tx.writes == 0 {
		return err
	}
	if tx.db.StrictMode {
		for err := range tx.Check() {
			panic(err)
		}
	}
	tx.state.tx++
	if err := tx.put(stateKey, tx.state.encode()); err != nil {
		return err
	}
	durability := shale.SyncEach
	if tx.db.NoSync {
		durability = shale.SyncManual
	}
	tx.txn.SetDurability(durability)
	tx.stats.IncWrite(1)
	began := time.Now()
	err := tx.txn.Commit(context.Background())
	tx.stats.IncWriteTime(time.Since(began))
	if err != nil {
		return fmt.Errorf("bolt: commit: %w", err)
	}
	tx.db.state = tx.state
	return nil
}

// flush writes the headers of buckets that have changed.
func (tx *Tx) flush() error {
	for b := range tx.dirty {
		delete(tx.dirty, b)
		if b.deleted || b.in == nil { // bbolt does not store the sequence of the root either
			continue
		}
		if err := tx.put(b.in.key(partBuckets, b.name), b.encode()); err != nil {
			return err
		}
	}
	return nil
}

// Rollback ends the transaction without a trace.
func (tx *Tx) Rollback() error {
	if tx.managed {
		panic("bolt: Rollback of a transaction that Update or View ends")
	}
	if tx.db == nil {
		return errors.ErrTxClosed
	}
	tx.end()
	return nil
}

// end ends the transaction, if it has not ended.
func (tx *Tx) end() {
	if tx.db == nil {
		return
	}
	tx.mu.Lock()
	open := tx.open
	tx.open = nil
	tx.mu.Unlock()
	for _, c := range open {
		c.mu.Lock()
		c.release()
		c.mu.Unlock()
	}
	tx.close()
	db := tx.db
	tx.db = nil
	db.ended(tx)
}

// OnCommit has fn called when the transaction has been committed.
func (tx *Tx) OnCommit(fn func()) { tx.onCommit = append(tx.onCommit, fn) }

// fail reports that a read has failed, for a call that returns no error.
func (tx *Tx) fail(call string, err error) {
	err = fmt.Errorf("bolt: %s: %w", call, err)
	tx.mu.Lock()
	if tx.failed == nil {
		tx.failed = err
	}
	tx.mu.Unlock()
	panic(err)
}

// failure returns the error of the first read that failed.
func (tx *Tx) failure() error {
	tx.mu.Lock()
	defer tx.mu.Unlock()
	return tx.failed
}

// mustBeOpen panics if the transaction has ended: a read has no other way to say so.
func (tx *Tx) mustBeOpen() {
	if tx.db == nil {
		panic("bolt: tx closed")
	}
}

// mayWrite returns why the transaction takes no writes, or nil.
func (tx *Tx) mayWrite() error {
	switch {
	case tx.db == nil:
		return errors.ErrTxClosed
	case !tx.writable:
		return errors.ErrTxNotWritable
	}
	return tx.failure()
}

func (tx *Tx) put(key, value []byte) error {
	tx.writes++
	return limited(tx.txn.Put(key, value))
}

func (tx *Tx) delete(key []byte) error {
	tx.writes++
	return limited(tx.txn.Delete(key))
}

// limited says what to do about a transaction that has become too large.
func limited(err error) error {
	if stderrors.Is(err, shale.ErrValueTooLarge) {
		return fmt.Errorf("bolt: a transaction has at most %d MiB of writes; commit, and go on in another: %w", shale.MaxBatchSize>>20, err)
	}
	return err
}

// get returns the value of a key of the store, or nil.
func (tx *Tx) get(call string, key []byte) []byte {
	value, err := tx.read.Get(key)
	if err == nil {
		return slices.Clip(value)
	}
	if !stderrors.Is(err, shale.ErrNotFound) {
		tx.fail(call, err)
	}
	return nil
}

// has reports whether the store has a key.
func (tx *Tx) has(call string, key []byte) bool {
	has, err := tx.read.Has(key)
	if err != nil {
		tx.fail(call, err)
	}
	return has
}

// current returns the state that the transaction sees.
func (tx *Tx) current() state {
	if !tx.writable {
		tx.loaded.Do(func() {
			var err error
			if value := tx.get("Tx.ID", stateKey); value == nil {
				tx.state = noState // read-only, and nothing was ever written
			} else if tx.state, err = decodeState(value); err != nil {
				tx.fail("Tx.ID", err)
			}
		})
	}
	return tx.state
}

// ID returns the number of the transaction: of one that reads, that of the last one that it sees. It is -1 after the end.
func (tx *Tx) ID() int {
	if tx == nil || tx.db == nil {
		return -1
	}
	id := tx.current().tx
	if tx.writable {
		id++
	}
	return int(id)
}

// DB returns the database, and nil after the end.
func (tx *Tx) DB() *DB { return tx.db }

// Size returns how many bytes the store has on disk and in memory now.
func (tx *Tx) Size() int64 {
	tx.mustBeOpen()
	m := tx.db.store.Metrics()
	size := m.MemtableBytes
	for _, l := range m.Levels {
		size += l.Bytes
	}
	return size
}

// Writable reports whether the transaction may write.
func (tx *Tx) Writable() bool { return tx.writable }

// Stats returns what the transaction has counted.
func (tx *Tx) Stats() TxStats {
	var s TxStats
	s.add(&tx.stats)
	return s
}

// Cursor returns a cursor over the buckets of the root.
func (tx *Tx) Cursor() *Cursor { return tx.root.Cursor() }

// Inspect returns the structure of the database.
func (tx *Tx) Inspect() BucketStructure { return tx.root.Inspect() }

// Bucket returns a bucket of the root, or nil if it is not there.
func (tx *Tx) Bucket(name []byte) *Bucket { return tx.root.Bucket(name) }

// CreateBucket creates a bucket in the root.
func (tx *Tx) CreateBucket(name []byte) (*Bucket, error) { return tx.root.CreateBucket(name) }

// CreateBucketIfNotExists returns a bucket of the root, and creates it if it is not there.
func (tx *Tx) CreateBucketIfNotExists(name []byte) (*Bucket, error) {
	return tx.root.CreateBucketIfNotExists(name)
}

// DeleteBucket deletes a bucket of the root with all that is in it.
func (tx *Tx) DeleteBucket(name []byte) error { return tx.root.DeleteBucket(name) }

// MoveBucket moves a bucket from src to dst. nil stands for the root.
func (tx *Tx) MoveBucket(child []byte, src *Bucket, dst *Bucket) error {
	if src == nil {
		src = &tx.root
	}
	if dst == nil {
		dst = &tx.root
	}
	return src.MoveBucket(child, dst)
}

// ForEach calls fn for each bucket of the root.
func (tx *Tx) ForEach(fn func(name []byte, b *Bucket) error) error {
	return tx.root.ForEach(func(k, _ []byte) error { return fn(k, tx.root.Bucket(k)) })
}

// CopyFile makes a database in the new directory path that has what the transaction sees. It is as durable as a commit.
func (tx *Tx) CopyFile(path string, mode os.FileMode) error {
	if tx.db == nil {
		return errors.ErrTxClosed
	}
	return Import(path, mode, &tx.root)
}

// WriteTo returns an error: a store is no single file.
func (tx *Tx) WriteTo(io.Writer) (int64, error) {
	return 0, notSupported("Tx.WriteTo", "a store is a directory; Tx.CopyFile copies it into another one")
}

// Copy returns an error, as WriteTo does.
//
// Deprecated: as in bbolt.
func (tx *Tx) Copy(io.Writer) error {
	return notSupported("Tx.Copy", "a store is a directory; Tx.CopyFile copies it into another one")
}
