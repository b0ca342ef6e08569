package bbolt

import (
	stderrors "errors"
	"fmt"
	"io/fs"
	"os"
	"sync"
	"time"

	"go.etcd.io/bbolt/errors"

	"github.com/shaledb/shale"
)

// This file has DB: how it is opened and closed, and how transactions begin.

// A DB is a collection of buckets in a store. All methods may be called concurrently.
type DB struct {
	// StrictMode checks the store at each commit, and panics if it is wrong. It takes long.
	StrictMode bool

	// NoSync makes commits return before they are on disk. They survive a crash of the process, but not one of the machine.
	NoSync bool

	// MaxBatchSize is how many functions Batch runs in one transaction at most. 0: each in one of its own.
	MaxBatchSize int

	// MaxBatchDelay is how long Batch waits for more functions.
	MaxBatchDelay time.Duration

	// These have no effect.
	NoFreelistSync, NoGrowSync, PreLoadFreelist, Mlock bool
	FreelistType                                       FreelistType
	MmapFlags, AllocSize, MaxSize                      int

	store    *shale.DB
	path     string
	readOnly bool
	stats    *Stats // nil: nobody wants them

	writing sync.Mutex // held by the transaction that writes
	state   state      // guarded by writing

	mu      sync.Mutex // guards the following
	opened  bool
	readers int // transactions that read and have not ended
	idle    sync.Cond

	batchMu sync.Mutex
	batch   *batch // takes calls of Batch; nil: none does
}

// Open opens the database in the directory path, and creates it if it is not there. mode says who may read and write a new
// directory. nil options are DefaultOptions.
func Open(path string, mode os.FileMode, options *Options) (*DB, error) {
	if options == nil {
		options = DefaultOptions
	}
	if err := options.refused(); err != nil {
		return nil, err
	}
	store, err := openStore(path, mode, options.store())
	if err != nil {
		if options.Logger != nil {
			options.Logger.Errorf("%v", err)
		}
		if stderrors.Is(err, shale.ErrLocked) {
			return nil, errors.ErrTimeout // as it is: programs compare it
		}
		return nil, err
	}
	db := &DB{
		NoSync: options.NoSync, MaxBatchSize: DefaultMaxBatchSize, MaxBatchDelay: DefaultMaxBatchDelay, AllocSize: DefaultAllocSize,
		store: store, path: path, readOnly: options.ReadOnly, opened: true,
	}
	db.idle.L = &db.mu
	if !options.NoStatistics {
		db.stats = new(Stats)
	}
	if db.state, err = loadState(store, options.ReadOnly); err != nil {
		return nil, stderrors.Join(fmt.Errorf("%s: %w", path, err), store.Close())
	}
	return db, nil
}

// openStore opens a store. It makes its directory, but not those above, as bbolt does with its file.
func openStore(path string, mode os.FileMode, options *shale.Options) (*shale.DB, error) {
	made := false
	if options.FS == nil {
		switch info, err := os.Stat(path); {
		case err != nil || !info.Mode().IsRegular():
		case info.Size() == 0 && !options.ReadOnly: // os.CreateTemp has made it: bbolt takes that for a new database
			if err := os.Remove(path); err != nil {
				return nil, err
			}
		default:
			return nil, fmt.Errorf("bolt: open %s: it is a file, where a store is a directory; "+
				"if it is one of bbolt, bolt-import brings its data: %w", path, errors.ErrInvalid)
		}
		if !options.ReadOnly {
			err := os.Mkdir(path, mode|mode>>2&0o111|0o100) // who may read may search
			if made = err == nil; !made && !stderrors.Is(err, fs.ErrExist) {
				return nil, err
			}
		}
	}
	store, err := shale.Open(path, options)
	if err != nil {
		if made {
			_ = os.Remove(path) // it is empty
		}
		return nil, fmt.Errorf("bolt: %w", err)
	}
	return store, nil
}

// loadState returns the state of a store, and makes that of a new one.
func loadState(store *shale.DB, readOnly bool) (state, error) {
	s := noState
	value, err := store.Get(stateKey)
	if err == nil {
		return decodeState(value)
	}
	if !stderrors.Is(err, shale.ErrNotFound) {
		return s, err
	}
	for _, err := range store.Scan(shale.Range{Limit: 1}) {
		if err == nil {
			err = fmt.Errorf("bolt: the store is none of this package: %w", errors.ErrInvalid)
		}
		return s, err
	}
	if readOnly {
		return s, nil
	}
	return s, store.Put(stateKey, s.encode())
}

// Close waits for the transactions that are open, and closes the store. A second Close does nothing.
func (db *DB) Close() error {
	db.writing.Lock()
	defer db.writing.Unlock()
	db.mu.Lock()
	defer db.mu.Unlock()
	if !db.opened {
		return nil
	}
	db.opened = false
	for db.readers > 0 {
		db.idle.Wait()
	}
	db.path = ""
	return db.store.Close()
}

// Begin begins a transaction, which must be ended by Commit or Rollback. One that writes waits for the one before.
func (db *DB) Begin(writable bool) (*Tx, error) {
	if writable {
		return db.beginWrite()
	}
	db.mu.Lock()
	defer db.mu.Unlock()
	if !db.opened {
		return nil, errors.ErrDatabaseNotOpen
	}
	snapshot, err := db.store.Snapshot()
	if err != nil {
		return nil, fmt.Errorf("bolt: begin: %w", err)
	}
	db.readers++
	if db.stats != nil {
		db.stats.TxN++
		db.stats.OpenTxN++
	}
	return newTx(db, snapshot, nil), nil
}

func (db *DB) beginWrite() (*Tx, error) {
	if db.readOnly {
		return nil, errors.ErrDatabaseReadOnly
	}
	db.writing.Lock()
	if !db.isOpen() {
		db.writing.Unlock()
		return nil, errors.ErrDatabaseNotOpen
	}
	txn, err := db.store.Begin(true)
	if err != nil {
		db.writing.Unlock()
		return nil, fmt.Errorf("bolt: begin: %w", err)
	}
	return newTx(db, txn.Untracked(), txn), nil // nobody else writes, so there are no conflicts to look for
}

func (db *DB) isOpen() bool {
	db.mu.Lock()
	defer db.mu.Unlock()
	return db.opened
}

// ended takes note that tx has ended.
func (db *DB) ended(tx *Tx) {
	db.mu.Lock()
	defer db.mu.Unlock()
	if db.stats != nil {
		db.stats.TxStats.add(&tx.stats)
	}
	if tx.writable {
		db.writing.Unlock()
		return
	}
	db.readers--
	if db.stats != nil {
		db.stats.OpenTxN--
	}
	db.idle.Broadcast()
}

// Update runs fn in a transaction that writes. It commits if fn returns nil, and otherwise undoes all of it and returns the
// error of fn.
func (db *DB) Update(fn func(*Tx) error) error { return db.managed(true, fn) }

// View runs fn in a transaction that reads, and returns its error.
func (db *DB) View(fn func(*Tx) error) error { return db.managed(false, fn) }

// managed runs fn in a transaction that fn must not end.
func (db *DB) managed(writable bool, fn func(*Tx) error) (err error) {
	tx, err := db.Begin(writable)
	if err != nil {
		return err
	}
	tx.managed = true
	defer func() { // also if fn panics
		tx.managed = false
		if failure := tx.failure(); failure != nil {
			_ = recover() // the panic of Tx.fail, unless fn has recovered from it
			err = failure
		}
		tx.end()
	}()
	if err := fn(tx); err != nil || !writable {
		return err
	}
	tx.managed = false
	return tx.Commit()
}

// Sync makes all commits durable. It is for NoSync: other commits are.
func (db *DB) Sync() error {
	if !db.isOpen() {
		return errors.ErrDatabaseNotOpen
	}
	return db.store.Sync()
}

// Store returns the store, for instance for its Metrics, or for a Checkpoint. It must neither be written nor closed.
func (db *DB) Store() *shale.DB { return db.store }

// Path returns the path of the directory, as Open got it. It is empty after Close.
func (db *DB) Path() string { return db.path }

// IsReadOnly reports whether the database was opened with ReadOnly.
func (db *DB) IsReadOnly() bool { return db.readOnly }

// GoString returns the DB as Go would write it.
func (db *DB) GoString() string { return fmt.Sprintf("bolt.DB{path:%q}", db.path) }

// String returns the path in words.
func (db *DB) String() string { return fmt.Sprintf("DB<%q>", db.path) }
