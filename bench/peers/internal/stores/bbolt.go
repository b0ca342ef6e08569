package stores

import (
	"path/filepath"
	"runtime"
	"strconv"

	"go.etcd.io/bbolt"

	"github.com/shaledb/shale/bench/peers/internal/results"
)

// bboltStore is a copy-on-write B+ tree in one mapped file. Every write is a
// transaction.
type bboltStore struct {
	db      *bbolt.DB
	batches bool // transactions of several clients are committed together
}

var bucketName = []byte("entries")

func (s *bboltStore) Open(dir string, o Options) (err error) {
	opts := *bbolt.DefaultOptions
	opts.FreelistType, opts.NoFreelistSync = bbolt.FreelistMapType, true // as etcd does
	opts.NoSync = !o.Sync
	opts.InitialMmapSize = mmapSize()
	if s.db, err = bbolt.Open(filepath.Join(dir, "bolt.db"), 0o644, &opts); err != nil {
		return err
	}
	if s.batches = o.Sync && o.Clients > 1; s.batches {
		s.db.MaxBatchSize = o.Clients // else each batch would wait for more
	}
	return s.db.Update(func(tx *bbolt.Tx) error {
		_, err := tx.CreateBucketIfNotExists(bucketName)
		return err
	})
}

// mmapSize is as etcd sets it, so that the file is not mapped again as it grows,
// for which writers wait until there is no reader. On Windows the file would be
// that large.
func mmapSize() int {
	size := int64(10 << 30)
	if runtime.GOOS == "windows" || strconv.IntSize < 64 {
		size = 0
	}
	return int(size)
}

func (s *bboltStore) Writer() (Writer, error) { return bboltWriter{s.db}, nil }

func (s *bboltStore) Reader(w Way) (Reader, error) {
	r := &bboltReader{db: s.db, fresh: w == Fresh}
	if r.fresh {
		return r, nil
	}
	return r, r.Refresh()
}

func (s *bboltStore) Iterator() (Iterator, error) {
	tx, err := s.db.Begin(false)
	if err != nil {
		return nil, err
	}
	return &bboltIterator{tx: tx, c: tx.Bucket(bucketName).Cursor()}, nil
}

func (s *bboltStore) Flush() error { return nil }

// Settle writes what was not synced: there is nothing else to be done later.
func (s *bboltStore) Settle() error { return s.db.Sync() }

func (s *bboltStore) Counts() Counts                   { return unknownCounts }
func (s *bboltStore) Levels() ([]results.Level, error) { return nil, nil }

func (s *bboltStore) Close() error {
	if err := s.db.Sync(); err != nil {
		return err
	}
	return s.db.Close()
}

type bboltWriter struct{ db *bbolt.DB }

func (w bboltWriter) Put(key, value []byte) error {
	return w.db.Update(func(tx *bbolt.Tx) error { return tx.Bucket(bucketName).Put(key, value) })
}

func (w bboltWriter) Delete(key []byte) error {
	return w.db.Update(func(tx *bbolt.Tx) error { return tx.Bucket(bucketName).Delete(key) })
}

// Batch copies keys and values: bbolt keeps values until the transaction
// commits, and copies keys only.
func (w bboltWriter) Batch(n int, entry func() (key, value []byte)) error {
	return w.db.Update(func(tx *bbolt.Tx) error {
		b := tx.Bucket(bucketName)
		var room []byte
		for i := range n {
			key, value := entry()
			if i == 0 {
				room = make([]byte, 0, n*len(value))
			}
			at := len(room)
			room = append(room, value...)
			if err := b.Put(key, room[at:]); err != nil {
				return err
			}
		}
		return nil
	})
}

func (w bboltWriter) Close() error { return nil }

type bboltReader struct {
	db    *bbolt.DB
	fresh bool
	tx    *bbolt.Tx // if not fresh
	b     *bbolt.Bucket
}

func (r *bboltReader) Get(key []byte) (size int, tag uint64, err error) {
	if !r.fresh {
		return answer(r.b.Get(key))
	}
	err = r.db.View(func(tx *bbolt.Tx) error {
		size, tag, _ = answer(tx.Bucket(bucketName).Get(key))
		return nil
	})
	return size, tag, err
}

func answer(value []byte) (int, uint64, error) {
	if value == nil {
		return Absent, 0, nil
	}
	return found(value)
}

func (r *bboltReader) Refresh() (err error) {
	if r.fresh {
		return nil
	}
	if err = r.Close(); err != nil {
		return err
	}
	if r.tx, err = r.db.Begin(false); err == nil {
		r.b = r.tx.Bucket(bucketName)
	}
	return err
}

func (r *bboltReader) Close() error {
	if r.tx == nil {
		return nil
	}
	tx := r.tx
	r.tx = nil
	return tx.Rollback()
}

type bboltIterator struct {
	tx         *bbolt.Tx
	c          *bbolt.Cursor
	key, value []byte
}

func (it *bboltIterator) at(key, value []byte) bool {
	it.key, it.value = key, value
	return key != nil
}

func (it *bboltIterator) First() bool            { return it.at(it.c.First()) }
func (it *bboltIterator) Last() bool             { return it.at(it.c.Last()) }
func (it *bboltIterator) SeekGE(key []byte) bool { return it.at(it.c.Seek(key)) }
func (it *bboltIterator) Next() bool             { return it.at(it.c.Next()) }
func (it *bboltIterator) Prev() bool             { return it.at(it.c.Prev()) }
func (it *bboltIterator) Key() []byte            { return it.key }
func (it *bboltIterator) Value() ([]byte, error) { return it.value, nil }
func (it *bboltIterator) Close() error           { return it.tx.Rollback() }
