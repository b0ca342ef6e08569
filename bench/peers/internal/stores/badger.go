package stores

import (
	"errors"
	"math"
	"slices"
	"time"

	"github.com/dgraph-io/badger/v4"
	"github.com/dgraph-io/badger/v4/options"

	"github.com/shaledb/shale/bench/peers/internal/data"
	"github.com/shaledb/shale/bench/peers/internal/results"
)

// badgerStore is Badger with one version of each key, and with detection of
// conflicts only where something is read before it is written.
type badgerStore struct {
	db      *badger.DB
	dir     string
	options Options
}

func (s *badgerStore) Open(dir string, o Options) (err error) {
	s.dir, s.options = dir, o
	opts := badger.DefaultOptions(dir).
		WithLogger(nil).
		WithMetricsEnabled(false).
		WithSyncWrites(o.Sync).
		WithNumVersionsToKeep(1).
		WithDetectConflicts(o.Clients > 0).
		WithCompression(options.Snappy).
		WithMemTableSize(o.Memtable).
		WithBlockCacheSize(o.Cache)
	opts.ValueThreshold = min(opts.ValueThreshold, o.Memtable/10) // values stay in the tree; Badger asks for such a relation to the memtable
	if !o.Compactions {
		opts.NumCompactors = 0
		opts.NumLevelZeroTables, opts.NumLevelZeroTablesStall = math.MaxInt32-1, math.MaxInt32
	}
	s.db, err = badger.Open(opts)
	return err
}

func (s *badgerStore) Writer() (Writer, error) { return &badgerWriter{s: s}, nil }

func (s *badgerStore) Reader(w Way) (Reader, error) {
	r := data.Apart[badgerReader]()
	r.db, r.fresh = s.db, w == Fresh
	return r, r.Refresh()
}

func (s *badgerStore) Iterator() (Iterator, error) {
	return &badgerIterator{txn: s.db.NewTransaction(false)}, nil
}

// Flush closes the store and opens it again: Badger has no other way.
func (s *badgerStore) Flush() error {
	if err := s.db.Close(); err != nil {
		return err
	}
	return s.Open(s.dir, s.options)
}

// badgerPatience is how long a compaction that looks due may take to start. Not
// every level above its limit is compacted.
const badgerPatience = 5

// Settle waits until no level is above its limit and no table has come or gone
// for a while: Badger does not tell of running compactions.
func (s *badgerStore) Settle() error {
	if err := s.Flush(); err != nil {
		return err
	}
	var before []results.Level
	unchanged := time.Duration(0)
	for {
		now, err := s.Levels()
		if err != nil {
			return err
		}
		unchanged += settleInterval
		if !slices.Equal(now, before) {
			unchanged = 0
		}
		due := slices.ContainsFunc(s.db.Levels(), func(l badger.LevelInfo) bool { return l.Score >= 1 })
		if unchanged >= s.options.Quiet && (!due || unchanged >= badgerPatience*s.options.Quiet) {
			return nil
		}
		before = now
		time.Sleep(settleInterval)
	}
}

func (s *badgerStore) Counts() Counts { return unknownCounts }

func (s *badgerStore) Levels() ([]results.Level, error) {
	var levels []results.Level
	for _, l := range s.db.Levels() {
		if l.NumTables == 0 {
			continue
		}
		runs := 1
		if l.Level == 0 {
			runs = l.NumTables
		}
		levels = append(levels, results.Level{Level: l.Level, Runs: runs, Tables: l.NumTables, Bytes: l.Size})
	}
	return levels, nil
}

func (s *badgerStore) Close() error { return s.db.Close() }

type badgerWriter struct {
	s    *badgerStore // whose db changes in a flush
	room []byte       // of a batch
}

func (w *badgerWriter) Put(key, value []byte) error {
	return w.s.db.Update(func(txn *badger.Txn) error { return txn.Set(key, value) })
}

func (w *badgerWriter) Delete(key []byte) error {
	return w.s.db.Update(func(txn *badger.Txn) error { return txn.Delete(key) })
}

func (w *badgerWriter) PutTTL(key, value []byte, ttl time.Duration) error {
	return w.s.db.Update(func(txn *badger.Txn) error { return txn.SetEntry(badger.NewEntry(key, value).WithTTL(ttl)) })
}

// Batch copies keys and values, which a transaction keeps until it commits. One
// that is too large for Badger is committed in parts.
func (w *badgerWriter) Batch(n int, entry func() (key, value []byte)) error {
	w.room = w.room[:0]
	txn := w.s.db.NewTransaction(true)
	defer func() { txn.Discard() }()
	for range n {
		key, value := entry()
		at := len(w.room)
		w.room = append(append(w.room, key...), value...)
		key, value = w.room[at:at+len(key):at+len(key)], w.room[at+len(key):]
		err := txn.Set(key, value)
		if errors.Is(err, badger.ErrTxnTooBig) {
			if err := txn.Commit(); err != nil {
				return err
			}
			txn = w.s.db.NewTransaction(true)
			err = txn.Set(key, value)
		}
		if err != nil {
			return err
		}
	}
	return txn.Commit()
}

func (w *badgerWriter) Close() error { return nil }

type badgerReader struct {
	db    *badger.DB
	fresh bool
	txn   *badger.Txn
}

func (r *badgerReader) Get(key []byte) (size int, tag uint64, err error) {
	if r.fresh {
		r.txn = r.db.NewTransaction(false)
		defer r.txn.Discard()
	}
	item, err := r.txn.Get(key)
	if err != nil {
		if errors.Is(err, badger.ErrKeyNotFound) {
			return Absent, 0, nil
		}
		return 0, 0, err
	}
	err = item.Value(func(value []byte) error {
		size, tag, _ = found(value)
		return nil
	})
	return size, tag, err
}

func (r *badgerReader) Refresh() error {
	if r.fresh {
		return nil
	}
	_ = r.Close() // without an error
	r.txn = r.db.NewTransaction(false)
	return nil
}

func (r *badgerReader) Close() error {
	if !r.fresh && r.txn != nil {
		r.txn.Discard()
	}
	return nil
}

// badgerIterator has the direction of its first movement: one of Badger has no
// other.
type badgerIterator struct {
	txn   *badger.Txn
	it    *badger.Iterator
	value []byte
}

func (it *badgerIterator) need(reverse bool) {
	if it.it == nil {
		// Values lie next to their keys, so that there is nothing to prefetch.
		it.it = it.txn.NewIterator(badger.IteratorOptions{Reverse: reverse})
	}
}

func (it *badgerIterator) First() bool {
	it.need(false)
	it.it.Rewind()
	return it.it.Valid()
}

func (it *badgerIterator) Last() bool {
	it.need(true)
	it.it.Rewind()
	return it.it.Valid()
}

func (it *badgerIterator) SeekGE(key []byte) bool {
	it.need(false)
	it.it.Seek(key)
	return it.it.Valid()
}

func (it *badgerIterator) Next() bool {
	it.it.Next()
	return it.it.Valid()
}

func (it *badgerIterator) Prev() bool  { return it.Next() }
func (it *badgerIterator) Key() []byte { return it.it.Item().Key() }

func (it *badgerIterator) Value() (_ []byte, err error) {
	it.value, err = it.it.Item().ValueCopy(it.value[:0])
	return it.value, err
}

func (it *badgerIterator) Close() error {
	if it.it != nil {
		it.it.Close()
	}
	it.txn.Discard()
	return nil
}
