package shale

import (
	"bytes"
	"slices"
	"sync"

	"github.com/shaledb/shale/internal/base"
)

// GetMany looks up many keys at one state of the store and calls fn once for
// each, in the order of keys. value is nil and found false for an absent key;
// value is valid only during the call. The keys are looked up in key order, so
// that those that lie in one block share its reading. fn's first error ends
// GetMany, which returns it.
func (db *DB) GetMany(keys [][]byte, fn func(i int, value []byte, found bool) error) error {
	s, err := db.Snapshot()
	if err != nil {
		return err
	}
	defer s.Close()
	m := manyPool.Get().(*many)
	defer m.free()
	m.prepare(db, keys)
	if err := m.read(db, keys, s.seq); err != nil {
		return err
	}
	for i := range keys {
		a := m.answers[i]
		var value []byte
		if a.found {
			value = m.values[a.from:a.to:a.to]
		}
		if err := fn(i, value, a.found); err != nil {
			return err
		}
	}
	return nil
}

// many is the work space of one GetMany.
type many struct {
	answers []answer
	order   []int // the keys, sorted
	values  []byte
}

type answer struct {
	hash     uint64
	from, to int // of values
	found    bool
}

var manyPool = sync.Pool{New: func() any { return new(many) }}

func (m *many) free() {
	if cap(m.values) > 1<<20 {
		m.values = nil
	}
	m.answers, m.order, m.values = m.answers[:0], m.order[:0], m.values[:0]
	manyPool.Put(m)
}

// prepare hashes the keys and sorts them.
func (m *many) prepare(db *DB, keys [][]byte) {
	if m.values == nil {
		m.values = []byte{} // an empty value must not look absent
	}
	m.answers = slices.Grow(m.answers, len(keys))[:len(keys)]
	for i, key := range keys {
		m.answers[i] = answer{hash: db.hasher.Hash(key)}
		m.order = append(m.order, i)
	}
	slices.SortFunc(m.order, func(a, b int) int { return bytes.Compare(keys[a], keys[b]) })
}

// read looks the keys up and copies their values.
func (m *many) read(db *DB, keys [][]byte, seq base.Seq) error {
	for _, i := range m.order {
		a := &m.answers[i]
		l := lookup{key: keys[i], hasher: db.hasher, hash: a.hash, seq: seq}
		found, err := db.find(&l)
		if err != nil {
			return err
		}
		if found {
			a.found, a.from = true, len(m.values)
			m.values = append(m.values, l.value...)
			a.to = len(m.values)
			l.release()
		}
	}
	return nil
}
