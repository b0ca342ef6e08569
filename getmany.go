package shale

import (
	"bytes"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/shaledb/shale/internal/base"
	"github.com/shaledb/shale/internal/memqueue"
	"github.com/shaledb/shale/internal/tree"
	"github.com/shaledb/shale/sstable"
)

// This file has GetMany, which looks up many keys at once.

// GetMany looks up many keys at one state of the store and calls fn once for
// each, in the order of keys. value is nil and found false for an absent key;
// value is valid only during the call. Some thousand keys are looked up at a time, and
// then fn gets these. With a few dozen keys or more, an absent one takes at most half of the
// time of Get, because each filter is asked about many of them at once. The lookups of the
// others wait together for memory; keys that lie in one block which is not in the cache share
// its reading, and such blocks are read several at a time. GetMany copies
// some megabytes of values at a time, however many keys there are. fn's first error
// ends GetMany, which returns it. If a lookup fails, GetMany returns its error, and fn
// may have been called for earlier keys.
func (db *DB) GetMany(keys [][]byte, fn func(i int, value []byte, found bool) error) error {
	for gone := ""; ; {
		s, err := db.Snapshot()
		if err != nil {
			return err
		}
		again, err := db.getMany(keys, fn, s, &gone)
		_ = s.Close() // it is open
		if !again {
			return err
		}
	}
}

// getMany is GetMany at snapshot s. With an error it reports whether a later snapshot may do: fn was
// not called then. gone is that of lookAgain.
func (db *DB) getMany(keys [][]byte, fn func(i int, value []byte, found bool) error, s *Snapshot, gone *string) (again bool, err error) {
	m := manyPool.Get().(*many)
	defer m.free()
	m.at, m.asOf = s.view, s.held.AsOf
	for first, n := 0, mostKeys; first < len(keys); {
		m.keys = keys[first:min(first+n, len(keys))]
		if err := m.lookUp(db, s.held.Seq); err != nil {
			return first == 0 && db.lookAgain(s.view, err, gone), err
		}
		handed, err := m.hand(db, s.held.Seq, first, fn)
		if err != nil {
			return false, err
		}
		n = m.nextBatch(handed)
		first += handed
	}
	return false, nil
}

const (
	// manyBytes limits the bytes of values that a batch copies: when it is reached, the
	// other keys are left for the next batches. Each reader may go beyond it by a value.
	manyBytes = 4 << 20
	// mostKeys is how many keys a batch has. After one with large values the next
	// has as many as are likely to have values of manyBytes.
	mostKeys = 16384

	// manyAhead is how many keys loadAhead takes at a time. Their memory fits into the nearest cache.
	manyAhead = 16
	// coldReaders is how many goroutines read at a time: about as many requests
	// as a disk likes to have.
	coldReaders = 16
	// coldShare is the number of keys for which it pays to start one of them.
	coldShare = 4
)

// many is the work space of one GetMany, which works in batches:
//
//  1. ask hashes the keys of the batch and asks the filters about them, many keys at once. A key that
//     all filters deny is absent and needs nothing more. The others are the possible keys.
//  2. readCached looks these up, as far as memory goes. A key that needs a block from disk goes into
//     cold, with the place where its lookup goes on.
//  3. readCold looks the cold keys up in key order, in several goroutines if they are many.
//  4. hand calls fn in the order of keys, up to the first key that is late.
//  5. nextBatch keeps what is known of the others and chooses the size of the next batch.
//
// When a batch has copied manyBytes, the keys that remain in it are late: the next batches look
// them up. All batches read at the number of one snapshot, so they see one state.
//
// Only step 3 has several goroutines. Each of them writes to a buffer of its own, and to the
// answers of its own keys.
type many struct {
	keys     [][]byte       // of the batch
	view     *memqueue.View // that ask has used
	at       *memqueue.View // see lookup
	asOf     int64          // likewise
	screen   screen
	possible []possibleKey // in the order of keys
	near     sstable.Near  // of readCached
	cold     []coldKey
	values   [1 + coldReaders][]byte // one for what was in memory, one for each reader
	copied   atomic.Int64            // bytes in values
	lookups  uint64                  // the number of the lookup of the first key, for sampled
	// hits are the first keys, of this batch or of the next, that an earlier batch did not hand out.
	// The metrics have counted their lookups, and, where it is true, that they are hits.
	hits []bool
}

// A possibleKey is a key of the batch that no filter denies, and what the batch knows of it.
type possibleKey struct {
	i    int // the index of the key in the batch
	hash uint64
	from int // the first run that may have it; -1: a memtable may have it

	buf        int // the value is in values[buf],
	begin, end int // between these
	found      bool
	late       bool // not looked up, because the batch had enough
}

// A coldKey is a possible key whose lookup goes on with a read, at run from of view.
type coldKey struct {
	*possibleKey
	view *memqueue.View
	from int
}

var manyPool = sync.Pool{New: func() any { return new(many) }}

// free gives m back to the pool, without buffers that are large.
func (m *many) free() {
	m.clear()
	m.at = nil
	m.hits = m.hits[:0]
	for i := range m.values {
		if cap(m.values[i]) > 1<<20 {
			m.values[i] = nil
		}
	}
	manyPool.Put(m)
}

// clear drops what a batch has needed, except its hits, and keeps the memory.
func (m *many) clear() {
	for i := range m.values {
		m.values[i] = m.values[i][:0]
	}
	clear(m.cold) // they hold views
	m.keys, m.view, m.near = nil, nil, sstable.Near{}
	m.possible, m.cold = m.possible[:0], m.cold[:0]
	m.copied.Store(0)
}

// lookUp finds the answers for a batch of keys. If their values are many bytes, only some keys get
// one; the others are late. After an error no answer is to be used.
func (m *many) lookUp(db *DB, seq base.Seq) error {
	if err := m.ask(db); err != nil {
		return err
	}
	if err := m.readCached(db, seq); err != nil {
		return err
	}
	return m.readCold(db, seq)
}

// hand calls fn for the keys of the batch in their order, up to the first that is late, and
// returns for how many. The first of them is key number first of GetMany. If it is late itself,
// hand looks it up, so that each batch gets at least one key further.
func (m *many) hand(db *DB, seq base.Seq, first int, fn func(i int, value []byte, found bool) error) (int, error) {
	next := 0
	for k := range m.possible {
		p := &m.possible[k]
		if err := handAbsent(first+next, first+p.i, fn); err != nil {
			return p.i, err
		}
		if p.late {
			if p.i > 0 {
				return p.i, nil
			}
			return 1, m.handLate(db, p, seq, first, fn)
		}
		var value []byte
		if p.found {
			value = m.values[p.buf][p.begin:p.end:p.end]
		}
		if err := fn(first+p.i, value, p.found); err != nil {
			return p.i, err
		}
		next = p.i + 1
	}
	return len(m.keys), handAbsent(first+next, first+len(m.keys), fn)
}

// handAbsent calls fn for absent keys, from number begin to number end of GetMany.
func handAbsent(begin, end int, fn func(i int, value []byte, found bool) error) error {
	for i := begin; i < end; i++ {
		if err := fn(i, nil, false); err != nil {
			return err
		}
	}
	return nil
}

// handLate looks up the first key of a batch, and calls fn.
func (m *many) handLate(db *DB, p *possibleKey, seq base.Seq, first int, fn func(i int, value []byte, found bool) error) error {
	l := m.newLookup(db, p, seq)
	found := false
	err := db.viewValue(&l, func(value []byte) error {
		found = true
		return fn(first, value, true)
	})
	if err == ErrNotFound && !found { // an error of fn is its own, whichever it is
		err = fn(first, nil, false)
	}
	return err
}

// nextBatch forgets the keys that were handed out, and returns how many keys the next batch
// should have: mostKeys, or fewer if these would probably have values of more than manyBytes.
// The next batch begins with the keys that remain. It looks them up again, but the metrics do not
// count them again.
func (m *many) nextBatch(handed int) int {
	looked := len(m.keys)
	if remain := len(m.keys) - handed; remain > 0 {
		m.hits = append(m.hits, make([]bool, max(0, len(m.keys)-len(m.hits)))...)
	}
	for k := range m.possible {
		switch p := &m.possible[k]; {
		case p.late:
			looked--
		case p.found && p.i < len(m.hits):
			m.hits[p.i] = true
		}
	}
	m.hits = m.hits[:copy(m.hits, m.hits[min(handed, len(m.hits)):])]
	n := int64(mostKeys)
	if copied := m.copied.Load(); copied > 0 {
		n = min(n, max(1, int64(looked)*manyBytes/copied))
	}
	m.clear()
	return int(n)
}

// ask asks the filters about the keys, and puts those into possible that they do not deny.
func (m *many) ask(db *DB) error {
	// The view comes after the snapshot's number, as in every read: see view.
	v := db.mems.View()
	if v == nil {
		return ErrClosed
	}
	if m.at != nil {
		v = m.at
	}
	m.view = v
	c := db.counters.lookup()
	uncounted := uint64(max(0, len(m.keys)-len(m.hits)))
	m.lookups = c.gets.Add(uncounted) - uncounted
	s := &m.screen
	for begin := 0; begin < len(m.keys); begin += tree.ScreenSize {
		some := m.keys[begin:min(begin+tree.ScreenSize, len(m.keys))]
		s.tables.Sampling, s.tables.Sampled = true, scatter(m.lookups+uint64(begin))
		s.ask(v, db.hasher, some)
		for i, from := range s.tables.First[:len(some)] {
			if from != int32(len(v.Runs)) {
				m.possible = append(m.possible, possibleKey{i: begin + i, hash: s.hashes[i], from: int(from)})
			}
		}
	}
	for level := range s.tables.Denied {
		if n := &s.tables.Denied[level]; *n > 0 {
			c.negatives[level].Add(*n)
			*n = 0
		}
	}
	return nil
}

// newLookup returns the lookup of a possible key, at the sequence number of the snapshot. If no
// memtable and no run before a certain one has the key, the lookup begins there.
func (m *many) newLookup(db *DB, p *possibleKey, seq base.Seq) lookup {
	l := lookup{key: m.keys[p.i], hasher: db.hasher, hash: p.hash, seq: seq, asOf: m.asOf, at: m.at, counted: true,
		hit:    p.i < len(m.hits) && m.hits[p.i],
		sample: sampled(m.lookups + 1 + uint64(p.i))}
	if p.from >= 0 {
		l.view, l.from = m.view, p.from
	}
	return l
}

// readCached looks the possible keys up, as far as memtables, filters and cached blocks go. It
// leaves the keys that need a read in m.cold.
func (m *many) readCached(db *DB, seq base.Seq) error {
	m.near.CachedOnly = true
	var ahead [manyAhead]sstable.Ahead
	for k := range m.possible {
		if k%manyAhead == 0 {
			m.loadAhead(m.possible[k:min(k+manyAhead, len(m.possible))], seq, &ahead)
		}
		p := &m.possible[k]
		l := m.newLookup(db, p, seq)
		l.near, m.near.Ahead = &m.near, ahead[k%manyAhead]
		err := m.read(db, &l, p, 0)
		if err == sstable.ErrNotCached {
			m.cold = append(m.cold, coldKey{p, l.view, l.from})
		} else if err != nil {
			return err
		}
	}
	return nil
}

// loadAhead begins to load the memory that the lookups of some keys in the cache will look at.
func (m *many) loadAhead(some []possibleKey, seq base.Seq, ahead *[manyAhead]sstable.Ahead) {
	clear(ahead[:])
	for k, p := range some {
		if p.from >= 0 {
			key := m.keys[p.i]
			ahead[k] = m.view.Runs[p.from].Find(key).Reader.Ahead(key, seq)
		}
	}
	for k := range some {
		ahead[k].Block()
	}
}

// readCold reads what the cold keys need, in key order, so that few blocks are read twice. If they are
// many it uses several goroutines, each for keys that lie next to each other. It returns when all of
// them are done, with the first error in key order.
func (m *many) readCold(db *DB, seq base.Seq) error {
	if len(m.cold) == 0 {
		return nil
	}
	slices.SortFunc(m.cold, func(a, b coldKey) int { return bytes.Compare(m.keys[a.i], m.keys[b.i]) })
	readers := min(coldReaders, len(m.cold)/coldShare)
	if readers <= 1 {
		return m.readSome(db, seq, m.cold, 1)
	}
	errs := make([]error, readers)
	var wg sync.WaitGroup
	for r := range readers {
		some := m.cold[len(m.cold)*r/readers : len(m.cold)*(r+1)/readers]
		wg.Go(func() {
			errs[r] = base.Survive(func() error { return m.readSome(db, seq, some, 1+r) })
		})
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
func (m *many) readSome(db *DB, seq base.Seq, some []coldKey, buf int) error {
	var near sstable.Near
	defer near.Release()
	for _, c := range some {
		l := m.newLookup(db, c.possibleKey, seq)
		l.near, l.view, l.from = &near, c.view, c.from
		if err := m.read(db, &l, c.possibleKey, buf); err != nil {
			return err
		}
	}
	return nil
}

// read looks a possible key up and copies its value into buffer buf, and notes where it lies. If the batch
// has copied enough already, it does nothing, and the key is late.
func (m *many) read(db *DB, l *lookup, p *possibleKey, buf int) error {
	if m.copied.Load() >= manyBytes {
		p.late = true
		return nil
	}
	values := m.values[buf]
	if values == nil {
		values = []byte{} // an empty value must not look absent
	}
	p.buf, p.begin = buf, len(values)
	values, err := db.appendValue(values, l)
	switch err {
	case nil:
		p.found, p.end, m.values[buf] = true, len(values), values
		m.copied.Add(int64(len(values) - p.begin))
		return nil
	case ErrNotFound:
		return nil
	}
	return err
}
