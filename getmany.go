package shale

import (
	"bytes"
	"slices"
	"sync"

	"github.com/shaledb/shale/internal/base"
	"github.com/shaledb/shale/sstable"
)

// GetMany looks up many keys at one state of the store and calls fn once for
// each, in the order of keys. value is nil and found false for an absent key;
// value is valid only during the call. The keys are looked up in key order, so
// that those that lie in one block share its reading, and blocks that are not in
// the cache are read several at a time. fn's first error ends GetMany, which
// returns it.
func (db *DB) GetMany(keys [][]byte, fn func(i int, value []byte, found bool) error) error {
	s, err := db.Snapshot()
	if err != nil {
		return err
	}
	defer s.Close()
	m := manyPool.Get().(*many)
	defer m.free()
	m.prepare(db, keys)
	if err := m.readCached(db, keys, s.seq); err != nil {
		return err
	}
	if err := m.readCold(db); err != nil {
		return err
	}
	for i := range keys {
		a := m.answers[i]
		var value []byte
		if a.found {
			value = m.values[a.buf][a.from:a.to:a.to]
		}
		if err := fn(i, value, a.found); err != nil {
			return err
		}
	}
	return nil
}

const (
	// coldReaders is how many goroutines read at a time: about as many requests
	// as a disk likes to have.
	coldReaders = 16
	// coldShare is for how many keys it pays to start one.
	coldShare = 4
)

// many is the work space of one GetMany.
type many struct {
	answers []answer
	order   []int // the keys, sorted
	cold    []coldKey
	values  [1 + coldReaders][]byte // one for what was in memory, one for each reader
}

type answer struct {
	hash     uint64
	buf      int // of values
	from, to int // in it
	found    bool
}

// A coldKey is a lookup that goes on with a read.
type coldKey struct {
	lookup
	i int
}

var manyPool = sync.Pool{New: func() any { return new(many) }}

func (m *many) free() {
	for i := range m.values {
		if m.values[i] = m.values[i][:0]; cap(m.values[i]) > 1<<20 {
			m.values[i] = nil
		}
	}
	clear(m.cold) // they hold views
	m.answers, m.order, m.cold = m.answers[:0], m.order[:0], m.cold[:0]
	manyPool.Put(m)
}

// prepare hashes the keys and sorts them.
func (m *many) prepare(db *DB, keys [][]byte) {
	m.answers = slices.Grow(m.answers, len(keys))[:len(keys)]
	for i, key := range keys {
		m.answers[i] = answer{hash: db.hasher.Hash(key)}
		m.order = append(m.order, i)
	}
	slices.SortFunc(m.order, func(a, b int) int { return bytes.Compare(keys[a], keys[b]) })
}

// readCached looks the keys up as far as memory goes, and leaves the others in
// m.cold, in key order.
func (m *many) readCached(db *DB, keys [][]byte, seq base.Seq) error {
	near := sstable.Near{CachedOnly: true}
	for _, i := range m.order {
		l := lookup{key: keys[i], hasher: db.hasher, hash: m.answers[i].hash, seq: seq, near: &near}
		err := m.read(db, &l, i, 0)
		if err == sstable.ErrNotCached {
			m.cold = append(m.cold, coldKey{lookup: l, i: i})
		} else if err != nil {
			return err
		}
	}
	return nil
}

// readCold reads what the cold keys need, in several goroutines if they are
// many. Each takes keys that lie side by side.
func (m *many) readCold(db *DB) error {
	readers := min(coldReaders, len(m.cold)/coldShare)
	if readers <= 1 {
		return m.readSome(db, m.cold, 1)
	}
	errs := make([]error, readers)
	var wg sync.WaitGroup
	for r := range readers {
		some := m.cold[len(m.cold)*r/readers : len(m.cold)*(r+1)/readers]
		wg.Go(func() { errs[r] = m.readSome(db, some, 1+r) })
	}
	wg.Wait()
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// readSome reads what some keys need, into a buffer that is this reader's.
func (m *many) readSome(db *DB, some []coldKey, buf int) error {
	var near sstable.Near
	defer near.Release()
	for k := range some {
		l := some[k].lookup
		l.near = &near
		if err := m.read(db, &l, some[k].i, buf); err != nil {
			return err
		}
	}
	return nil
}

// read looks one key up and copies its value.
func (m *many) read(db *DB, l *lookup, i, buf int) error {
	found, err := db.find(l)
	if err != nil || !found {
		return err
	}
	a, values := &m.answers[i], m.values[buf]
	if values == nil {
		values = []byte{} // an empty value must not look absent
	}
	a.found, a.buf, a.from = true, buf, len(values)
	values = append(values, l.value...)
	a.to, m.values[buf] = len(values), values
	l.release()
	return nil
}
