package shale

import (
	"bytes"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/shaledb/shale/internal/base"
	"github.com/shaledb/shale/sstable"
)

// GetMany looks up many keys at one state of the store and calls fn once for
// each, in the order of keys. value is nil and found false for an absent key;
// value is valid only during the call. Some thousand keys at a time are looked up in
// key order, so that those that lie in one block share its reading, and blocks that
// are not in the cache are read several at a time; then fn gets these. GetMany copies
// some megabytes of values at a time, however many keys there are. fn's first error
// ends GetMany, which returns it. If a lookup fails, GetMany returns its error, and fn
// may have been called for earlier keys.
func (db *DB) GetMany(keys [][]byte, fn func(i int, value []byte, found bool) error) error {
	s, err := db.Snapshot()
	if err != nil {
		return err
	}
	defer s.Close()
	m := manyPool.Get().(*many)
	defer m.free()
	for first, n := 0, mostKeys; first < len(keys); {
		some := keys[first:min(first+n, len(keys))]
		if err := m.lookUp(db, some, s.seq); err != nil {
			return err
		}
		handed, err := m.hand(db, some, s.seq, func(i int, value []byte, found bool) error { return fn(first+i, value, found) })
		if err != nil {
			return err
		}
		first += handed
		n = m.nextBatch(handed)
	}
	return nil
}

const (
	// manyBytes limits the bytes of values that a batch copies: when it is reached, the
	// other keys are left for the next batches. Each reader may go beyond it by a value.
	manyBytes = 4 << 20
	// mostKeys is how many keys a batch has. After one with large values the next
	// has as many as are likely to have values of manyBytes.
	mostKeys = 16384

	// coldReaders is how many goroutines read at a time: about as many requests
	// as a disk likes to have.
	coldReaders = 16
	// coldShare is the number of keys for which it pays to start one of them.
	coldShare = 4
)

// many is the work space of one GetMany, which works in batches:
//
//  1. prepare hashes the keys of the batch. screen asks the filters of all of them at once: a key that
//     all filters deny is absent and needs nothing more. The other keys are sorted.
//  2. readCached looks these up in key order, as far as memory goes. A key that needs a
//     block from disk goes into cold, with the place where its lookup goes on.
//  3. readCold looks the cold keys up, in several goroutines if they are many.
//  4. hand calls fn in the order of keys, up to the first key that is late.
//  5. nextBatch keeps what is known of the others and chooses the size of the next batch.
//
// When a batch has copied manyBytes, the keys that remain in it are late: the next batches look
// them up. All batches read at the number of one snapshot, so they see one state.
//
// Only step 3 has several goroutines. Each of them writes to a buffer of its own, and to the
// answers of its own keys.
type many struct {
	answers []answer // one for each key of the batch, in the order of keys
	hashes  []uint64 // of the keys of the batch
	first   []int32  // what screen has found, for each key of the batch
	view    *view    // that screen has asked
	screen  *screen
	order   []int // the indexes of the keys that are looked up, sorted by key
	cold    []coldKey
	values  [1 + coldReaders][]byte // one for what was in memory, one for each reader
	copied  atomic.Int64            // bytes in values
}

// An answer is what a batch knows of one of its keys.
type answer struct {
	buf      int // the value is in values[buf],
	from, to int // between these
	found    bool
	late     bool // not looked up, because the batch had enough
	// What the metrics have counted already, in this batch or in an earlier one that did not
	// hand the key out.
	counted, hit bool
}

// A coldKey is the lookup of key i, which goes on with a read.
type coldKey struct {
	lookup
	i int
}

var manyPool = sync.Pool{New: func() any { return &many{screen: new(screen)} }}

// free gives m back to the pool, without buffers that are large.
func (m *many) free() {
	m.clear()
	m.answers = m.answers[:0]
	for i := range m.values {
		if cap(m.values[i]) > 1<<20 {
			m.values[i] = nil
		}
	}
	manyPool.Put(m)
}

// clear drops what a batch has needed, except its answers, and keeps the memory.
func (m *many) clear() {
	for i := range m.values {
		m.values[i] = m.values[i][:0]
	}
	clear(m.cold) // they hold views
	m.view = nil
	m.order, m.cold = m.order[:0], m.cold[:0]
	m.copied.Store(0)
}

// lookUp finds the answers for a batch of keys. If their values are many bytes, only those that
// come first in key order get one; the others are late. After an error no answer is to be used.
// Answers that the last batch has left say what the metrics have counted already.
func (m *many) lookUp(db *DB, keys [][]byte, seq base.Seq) error {
	if err := m.prepare(db, keys); err != nil {
		return err
	}
	if err := m.readCached(db, keys, seq); err != nil {
		return err
	}
	return m.readCold(db)
}

// hand calls fn for the keys of the batch in their order, up to the first that is late, and
// returns for how many. If the very first key is late, hand looks it up by itself, so that each
// batch gets at least one key further.
func (m *many) hand(db *DB, keys [][]byte, seq base.Seq, fn func(i int, value []byte, found bool) error) (int, error) {
	if m.answers[0].late {
		l := m.newLookup(db, keys[0], 0, seq)
		found := false
		err := db.viewValue(&l, func(value []byte) error {
			found = true
			return fn(0, value, true)
		})
		if err == ErrNotFound && !found { // an error of fn is its own, whichever it is
			err = fn(0, nil, false)
		}
		return 1, err
	}
	for i := range keys {
		a := &m.answers[i]
		var value []byte
		switch {
		case a.late:
			return i, nil
		case a.found:
			value = m.values[a.buf][a.from:a.to:a.to]
		}
		if err := fn(i, value, a.found); err != nil {
			return i, err
		}
	}
	return len(keys), nil
}

// nextBatch forgets the answers that were handed out, and returns how many keys the next batch
// should have: mostKeys, or fewer if these would probably have values of more than manyBytes.
// The answers that remain are those of the first keys of the next batch. It looks these keys up
// again, but the metrics do not count them again.
func (m *many) nextBatch(handed int) int {
	looked := 0
	for i := range m.first { // each of the batch
		a := &m.answers[i]
		if a.counted = true; !a.late {
			looked++
			a.hit = a.found
		}
	}
	m.answers = m.answers[:copy(m.answers, m.answers[handed:])]
	n := int64(mostKeys)
	if copied := m.copied.Load(); copied > 0 {
		n = min(n, max(1, int64(looked)*manyBytes/copied))
	}
	m.clear()
	return int(n)
}

// prepare makes an answer for each key, screens the keys, and sorts those that may be there. It keeps
// the counts of answers that the last batch has left.
func (m *many) prepare(db *DB, keys [][]byte) error {
	had := len(m.answers)
	m.answers = slices.Grow(m.answers, max(0, len(keys)-had))[:max(had, len(keys))]
	m.hashes = slices.Grow(m.hashes[:0], len(keys))[:len(keys)]
	m.first = slices.Grow(m.first[:0], len(keys))[:len(keys)]
	uncounted := 0
	for i, key := range keys {
		a := answer{}
		if i < had {
			a.counted, a.hit = m.answers[i].counted, m.answers[i].hit
		}
		if !a.counted {
			uncounted++
		}
		m.answers[i] = a
		m.hashes[i] = db.hasher.Hash(key)
	}
	// The view comes after the snapshot's number, as in every read: see view.
	v := db.view.Load()
	if v == nil {
		return ErrClosed
	}
	m.view = v
	c := db.counters.lookup()
	m.screen.count(c, c.gets.Add(uint64(uncounted))-uint64(uncounted))
	m.screen.ask(v, db.hasher, keys, m.hashes, m.first)
	for i := range keys {
		if m.first[i] != int32(len(v.Runs)) {
			m.order = append(m.order, i)
		}
	}
	slices.SortFunc(m.order, func(a, b int) int { return bytes.Compare(keys[a], keys[b]) })
	return nil
}

// newLookup returns the lookup of key i of the batch, at the sequence number of the snapshot. If screen
// has found that no memtable and no run before a certain one has the key, the lookup begins there.
func (m *many) newLookup(db *DB, key []byte, i int, seq base.Seq) lookup {
	a := &m.answers[i]
	l := lookup{key: key, hasher: db.hasher, hash: m.hashes[i], seq: seq, counted: true, hit: a.hit,
		sample: sampled(m.screen.lookups + 1 + uint64(i))}
	if first := m.first[i]; first >= 0 {
		l.view, l.from = m.view, int(first)
	}
	return l
}

// readCached looks the keys up in key order, as far as memtables, filters and cached blocks go.
// It leaves the keys that need a read in m.cold, in key order.
func (m *many) readCached(db *DB, keys [][]byte, seq base.Seq) error {
	near := sstable.Near{CachedOnly: true}
	for _, i := range m.order {
		l := m.newLookup(db, keys[i], i, seq)
		l.near = &near
		err := m.read(db, &l, i, 0)
		if err == sstable.ErrNotCached {
			m.cold = append(m.cold, coldKey{lookup: l, i: i})
			m.answers[i].counted = true
		} else if err != nil {
			return err
		}
	}
	return nil
}

// readCold reads what the cold keys need, in several goroutines if they are many. Each takes
// keys that lie next to each other, so that few blocks are read twice. It returns when all of
// them are done, with the first error in key order.
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

// readSome reads what some cold keys need, in key order. Requires: no other goroutine uses buffer
// buf or the answers of these keys.
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

// read looks key i up and copies its value into buffer buf, and notes where it lies. If the batch
// has copied enough already, it does nothing, and the key is late.
func (m *many) read(db *DB, l *lookup, i, buf int) error {
	if m.copied.Load() >= manyBytes {
		m.answers[i].late = true
		return nil
	}
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
	m.copied.Add(int64(len(l.value)))
	l.release()
	return nil
}
