package shale

import (
	"errors"
	"fmt"
	"iter"
	"slices"
	"sync"
)

// This file has Sub, the part of a store whose keys begin with a prefix.

// A Sub is the part of a store whose keys begin with a prefix, under keys without it: a Reader and a Writer. Nothing is
// stored for it, and no bound reaches beyond it. So several kinds of data share one store, one log and one memory, and a
// batch or a transaction over several of them is atomic. A Sub of a DB, a Snapshot or a Txn shows what that shows, and as
// many goroutines may use it. The Sub of "user" has all keys of that of "users": end prefixes with a byte such as '/'.
type Sub struct {
	prefix []byte
	reader Reader
	writer Writer // nil: a snapshot, which takes no writes
}

// Sub returns the part of the store whose keys begin with prefix.
func (db *DB) Sub(prefix string) *Sub { return &Sub{[]byte(prefix), db, db} }

// Sub returns the part of the snapshot whose keys begin with prefix. Its writes give [ErrReadOnly].
func (s *Snapshot) Sub(prefix string) *Sub { return &Sub{[]byte(prefix), s, nil} }

// Sub returns the part of the transaction's state whose keys begin with prefix.
func (tx *Txn) Sub(prefix string) *Sub { return &Sub{[]byte(prefix), tx, tx} }

// Sub returns the part of s whose keys begin with prefix: in the store, they begin with the prefix of s and then prefix.
func (s *Sub) Sub(prefix string) *Sub {
	return &Sub{slices.Concat(s.prefix, []byte(prefix)), s.reader, s.writer}
}

// Sub returns a Writer that adds changes to the batch, of keys that begin with prefix.
func (b *Batch) Sub(prefix string) Writer { return subWriter{&Sub{[]byte(prefix), nil, b}} }

// A subWriter is a Sub that can't be read.
type subWriter struct{ sub *Sub }

func (w subWriter) Put(key, value []byte) error { return w.sub.Put(key, value) }
func (w subWriter) Delete(key []byte) error     { return w.sub.Delete(key) }

func (w subWriter) DeleteRange(lower, upper []byte) error { return w.sub.DeleteRange(lower, upper) }

// InTxn reports whether s is a part of a transaction: then what it reads and what it writes belong together.
func (s *Sub) InTxn() bool {
	_, is := s.reader.(*Txn)
	return is
}

// keyBuffers has memory for keys with their prefix, since keys can't lie on the stack.
var keyBuffers = sync.Pool{New: func() any { return new([]byte) }}

// maxKeyBuffer is the largest buffer that is kept.
const maxKeyBuffer = 4 << 10

// join returns the key as the store has it, in a buffer that the caller gives back with free.
func (s *Sub) join(key []byte) (buffer *[]byte) {
	buffer = keyBuffers.Get().(*[]byte)
	*buffer = append(append((*buffer)[:0], s.prefix...), key...)
	return buffer
}

func freeKey(buffer *[]byte) {
	if cap(*buffer) <= maxKeyBuffer {
		keyBuffers.Put(buffer)
	}
}

// within returns r in the keys of the store. Iterators over it strip the prefix from keys.
func (s *Sub) within(r Range) Range {
	r.Lower = slices.Concat(s.prefix, r.Lower)
	if r.Upper != nil {
		r.Upper = append(append([]byte{}, s.prefix...), r.Upper...) // never nil, which is no bound
	} else {
		r.Upper = prefixEnd(s.prefix)
	}
	r.strip = uint32(len(s.prefix))
	return r
}

// Get returns a copy of the value of key, which the caller owns, or [ErrNotFound].
func (s *Sub) Get(key []byte) ([]byte, error) {
	k := s.join(key)
	defer freeKey(k)
	return s.reader.Get(*k)
}

// AppendValue appends the value of key to dst and returns the longer slice, or dst as it was and [ErrNotFound].
func (s *Sub) AppendValue(dst, key []byte) ([]byte, error) {
	k := s.join(key)
	defer freeKey(k)
	return s.reader.AppendValue(dst, *k)
}

// ViewValue calls fn with the value of key, uncopied: it is valid until fn returns and must not be changed. It returns
// fn's error, or [ErrNotFound] without a call.
func (s *Sub) ViewValue(key []byte, fn func(value []byte) error) error {
	k := s.join(key)
	defer freeKey(k)
	return s.reader.ViewValue(*k, fn)
}

// Has reports whether key is there, without reading its value.
func (s *Sub) Has(key []byte) (bool, error) {
	k := s.join(key)
	defer freeKey(k)
	return s.reader.Has(*k)
}

// Scan walks the entries of r in order. An [Entry] is valid until the next step. An error ends the loop and is yielded
// once, with a zero Entry. Leaving the loop early releases everything.
func (s *Sub) Scan(r Range) iter.Seq2[Entry, error] { return s.reader.Scan(s.within(r)) }

// NewIterator returns a cursor over the entries of r, which must be closed.
func (s *Sub) NewIterator(r Range) *Iterator { return s.reader.NewIterator(s.within(r)) }

// GetMany is [DB.GetMany], or [Txn.GetMany]. In a snapshot it looks up one key after the other.
func (s *Sub) GetMany(keys [][]byte, fn func(i int, value []byte, found bool) error) error {
	many, ok := s.reader.(interface {
		GetMany(keys [][]byte, fn func(i int, value []byte, found bool) error) error
	})
	if !ok {
		for i, key := range keys {
			value, err := s.Get(key)
			if err == nil || errors.Is(err, ErrNotFound) {
				err = fn(i, value, err == nil)
			}
			if err != nil {
				return err
			}
		}
		return nil
	}
	size := len(keys) * len(s.prefix)
	for _, key := range keys {
		size += len(key)
	}
	joined, in := make([]byte, 0, size), make([][]byte, len(keys))
	for i, key := range keys {
		at := len(joined)
		joined = append(append(joined, s.prefix...), key...)
		in[i] = joined[at:]
	}
	return many.GetMany(in, fn)
}

// PutIfAbsent is [DB.PutIfAbsent]. In a transaction it is Has and then Put.
func (s *Sub) PutIfAbsent(key, value []byte) (inserted bool, err error) {
	if db, ok := s.writer.(*DB); ok {
		k := s.join(key)
		defer freeKey(k)
		return db.PutIfAbsent(*k, value)
	}
	return s.putIfAbsent(key, func() error { return s.Put(key, value) })
}

// putIfAbsent calls put if key is not there.
func (s *Sub) putIfAbsent(key []byte, put func() error) (inserted bool, err error) {
	has, err := s.Has(key)
	if err != nil || has && s.writer != nil {
		return false, err
	}
	if err := put(); err != nil {
		return false, err
	}
	return true, nil
}

// Put sets the value of key.
func (s *Sub) Put(key, value []byte) error {
	if s.writer == nil {
		return errSubReadOnly
	}
	k := s.join(key)
	defer freeKey(k)
	return s.writer.Put(*k, value)
}

// Delete removes key. Deleting an absent key is no error.
func (s *Sub) Delete(key []byte) error {
	if s.writer == nil {
		return errSubReadOnly
	}
	k := s.join(key)
	defer freeKey(k)
	return s.writer.Delete(*k)
}

// DeleteRange removes the keys from lower to upper, which is exclusive. nil: there is no bound but that of the part.
func (s *Sub) DeleteRange(lower, upper []byte) error {
	if s.writer == nil {
		return errSubReadOnly
	}
	r := s.within(Range{Lower: lower, Upper: upper})
	return s.writer.DeleteRange(r.Lower, r.Upper)
}

var errSubReadOnly = fmt.Errorf("%w: it is a part of a snapshot", ErrReadOnly)
