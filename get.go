package shale

import (
	"errors"
	"fmt"
	"sync"
	"time"
	"unsafe"

	"github.com/shaledb/shale/bloom"
	"github.com/shaledb/shale/internal/base"
	"github.com/shaledb/shale/internal/filecache"
	"github.com/shaledb/shale/internal/memqueue"
	"github.com/shaledb/shale/internal/tree"
	"github.com/shaledb/shale/memtable"
	"github.com/shaledb/shale/sstable"
)

// This file has lookups of one key.

// A lookup is the state of one point read. It lives on the stack of the calling goroutine.
//
// All point reads of DB and Snapshot, PutIfAbsent, and GetMany make a lookup and pass it to find,
// which searches the store from the newest data to the oldest:
//
//  1. find loads the current view, and after it the last visible sequence number.
//  2. inMemtables asks the filter of each memtable. Only a memtable whose filter says maybe
//     is pinned and searched.
//  3. findIn asks the runs of tables. In each run at most one table covers the key. It is
//     searched only if its filter says maybe and the key is not a known false positive of it.
//
// The first version that is found decides, because newer data hides older data. If a range delete
// that is newer than it covers the key, the key is deleted: they are looked up in memory, once a filter
// has said maybe (cover). A table without anything newer is not searched then. A lookup holds
// no reference on the view. If a compaction or a flush takes away what it is about to search,
// it gets filecache.ErrGone, and find starts again with the next view.
//
// After find has returned true, value stays valid until release.
type lookup struct {
	// Constant.
	key    []byte
	hasher bloom.Hasher // the store's
	hash   uint64       // of key, by hasher, which is that of all memtables too
	// The hash of key by the last other hasher that a filter needed. foreign is false if no
	// filter has needed one.
	foreign       bool
	foreignHasher bloom.Hasher
	foreignHash   uint64
	// seq is the newest sequence number that the lookup sees. If latest is set, find replaces
	// it with the store's newest in each attempt.
	seq    base.Seq
	latest bool
	asOf   int64          // the reader's time: see clock; 0: now
	at     *memqueue.View // what a snapshot of a read-only handle has pinned, to look in; nil: the current view
	// What the metrics have counted already: that there is this lookup, and that it has found
	// its key. GetMany may look up one key several times.
	counted, hit bool
	sample       bool          // this lookup counts the negatives of each table
	covered      bool          // coveredAt was asked for
	coveredAt    base.Seq      // see cover
	near         *sstable.Near // of GetMany, else nil
	// Where a lookup that met ErrNotCached goes on: at run from of view. If view is nil, the
	// lookup begins with the memtables.
	view *memqueue.View
	from int

	// The result.
	value   []byte
	table   sstable.Value      // the table's answer; pins the block of value if table.Want is WantPinned
	inTable bool               // a table has answered, and value is table.Bytes
	mem     *memtable.Memtable // pinned, if value lies in a memtable
	expiry  int64              // when the value is over; 0: never
}

// release unpins the memtable or the block that value lies in. It does no harm if nothing was
// found, or if it is called again.
func (l *lookup) release() {
	if l.mem != nil {
		l.mem.Unpin()
		l.mem = nil
	}
	l.table.Release()
}

// newLookup returns a lookup of key in the newest state of the store. It hashes the key, once
// for all filters.
func (db *DB) newLookup(key []byte) lookup {
	return lookup{key: key, hasher: db.hasher, hash: db.hasher.Hash(key), latest: true}
}

// hashFor returns the hash to ask f with. It differs from l.hash if f was written under another
// Options.Tuning.FilterHash.
func (l *lookup) hashFor(f *bloom.Static) uint64 { return l.hashOf(f.Hasher()) }

// hashOf returns the hash of the key by h.
func (l *lookup) hashOf(h bloom.Hasher) uint64 {
	if h != l.hasher {
		return l.hashBy(h)
	}
	return l.hash
}

// askFilter asks f, the filter of t that is in memory. If that is nil, it asks the one in the file, where that costs less than a
// block (sstable.Reader.AskStored). If asked is false, it could not ask either, and the key may be there.
func (l *lookup) askFilter(t *tree.Table, f *bloom.Static) (maybe, asked bool) {
	if f == nil {
		return t.Reader.AskStored(l.hashOf)
	}
	return f.MayContainHash(l.hashFor(f)), true
}

// hashBy returns the hash of the key by h, a hasher that is not the store's, and remembers it.
// All filters that were written under one earlier FilterHash need the same hash.
func (l *lookup) hashBy(h bloom.Hasher) uint64 {
	if !l.foreign || h != l.foreignHasher {
		l.foreign, l.foreignHasher, l.foreignHash = true, h, h.Hash(l.key)
	}
	return l.foreignHash
}

// tagHash returns the hash that the tags in data blocks are made of. That is murmur3, whatever
// Options.Tuning.FilterHash says.
func (l *lookup) tagHash() uint64 {
	if l.hasher != (bloom.Hasher{}) {
		return bloom.Hash(l.key)
	}
	return l.hash
}

// find looks the key up. It returns true if the key has a value, which is then in l.value; the
// caller calls release when it is done with it. It returns false if the key is absent or
// deleted, or with an error. After sstable.ErrNotCached, find may be called again and goes on
// where it stopped; only lookups of GetMany get this error.
func (db *DB) find(l *lookup) (bool, error) {
	c := db.counters.lookup()
	if l.view == nil && !l.counted {
		l.sample = sampled(c.gets.Add(1))
	}
	var gone string // see lookAgain
	for {
		v := db.mems.View()
		if v == nil {
			return false, ErrClosed
		}
		if l.view != nil {
			v = l.view
		} else if l.at != nil {
			v = l.at
		}
		// The number comes after the view. If the number were loaded first, a flush or a
		// compaction could drop the version that it asks for before the view is loaded.
		if l.latest {
			l.seq = db.commits.Visible()
		}
		found, err := db.findIn(v, l, c)
		switch {
		case err == nil:
			if found && !l.hit {
				c.hits.Add(1)
			}
			return found, nil
		case errors.Is(err, filecache.ErrGone):
			// A compaction or flush has finished: its output is in the next view. If it was the view
			// of a snapshot, that is closed now, and does not use the answer.
			l.view, l.from, l.at, l.covered = nil, 0, nil, false
		case err == sstable.ErrNotCached:
			return false, err // l knows where to go on
		case l.latest && db.lookAgain(v, err, &gone):
			l.view, l.from, l.covered = nil, 0, false
		default:
			return false, db.readError(l.key, err)
		}
	}
}

// findIn looks the key up in one view. If l.view is set, v is that view, and findIn goes on at
// run l.from. After an error of a table, l.view and l.from say where to go on.
func (db *DB) findIn(v *memqueue.View, l *lookup, c *lookupCounters) (bool, error) {
	if l.view == nil {
		if kind, ok, err := l.inMemtables(v); ok || err != nil {
			return kind == base.KindPut || ok && l.livesInMemtable(db, kind), err
		}
	}
	for from := l.from; from < len(v.Runs); from++ {
		r := v.Runs[from]
		t := r.Find(l.key)
		if t == nil {
			continue
		}
		f, level := t.NeededFilter(), r.Level
		maybe, asked := true, f != nil
		if asked {
			maybe = f.MayContainHash(l.hashFor(f)) // here, without a call
		} else {
			maybe, asked = t.Reader.AskStored(l.hashOf)
		}
		if !maybe {
			c.negative(level)
			// Levels count all negatives, in a stripe of the counters. Tables count only those of
			// sampled lookups, or each miss would write to a cache line of every table.
			if l.sample {
				t.Negatives.Add(uint64(tree.SampleEvery))
			}
			continue
		}
		if l.cover(v) > t.Meta.MaxSeq {
			c.covered.Add(1)
			continue // what the table may have of the key is deleted
		}
		if asked && db.falsePositives.Has(uint64(t.Meta.Num), l.key, l.hash) {
			c.remembered.Add(1)
			continue
		}
		found, err := t.Reader.GetNear(l.near, l.key, l.tagHash(), l.seq, &l.table)
		if err != nil {
			l.view, l.from = v, from
			return false, err
		}
		if !found {
			db.countAbsent(t, l, level, asked, c)
			continue
		}
		if asked {
			c.truePositives.Add(1)
		} else {
			c.noFilter.Add(1)
		}
		l.value, l.inTable = l.table.Bytes, true
		if kind := l.table.Trailer.Kind(); kind != base.KindPut && !l.lives(db, kind, l.table.Expiry) || l.table.Trailer.Seq() < l.cover(v) {
			// A tombstone ends the lookup: what older runs have of the key is deleted.
			l.release()
			return false, nil
		}
		return true, nil
	}
	return false, nil
}

// inMemtables asks the memtables, newest first. It returns the kind of the newest version that
// the lookup sees, and whether there is one. A tombstone counts as a version.
func (l *lookup) inMemtables(v *memqueue.View) (base.Kind, bool, error) {
	if v.Mem.MayContainHash(l.hash) {
		if kind, ok, err := l.inMemtable(v, v.Mem); ok || err != nil {
			return kind, ok, err
		}
	}
	for _, imm := range v.Imms {
		if !imm.Mem.MayContainHash(l.hash) {
			continue
		}
		if kind, ok, err := l.inMemtable(v, imm.Mem); ok || err != nil {
			return kind, ok, err
		}
	}
	return 0, false, nil
}

// cover returns the number of the newest range delete of the key that the lookup sees, or 0. v is the view that it looks
// in. l.seq was loaded before.
func (l *lookup) cover(v *memqueue.View) base.Seq {
	if !l.covered {
		l.covered, l.coveredAt = true, v.Cover(l.key, l.seq)
	}
	return l.coveredAt
}

// inMemtable asks one memtable of v, and keeps it pinned if it has a value. A range delete counts as a tombstone. If the memtable was
// flushed and its memory is gone, the error is filecache.ErrGone.
func (l *lookup) inMemtable(v *memqueue.View, m *memtable.Memtable) (base.Kind, bool, error) {
	if !m.Pin() {
		return 0, false, filecache.ErrGone
	}
	value, kind, found, seq := m.Get(l.key, l.seq)
	if found && seq < l.cover(v) {
		kind = base.KindDelete
	}
	if !found || kind == base.KindDelete {
		m.Unpin()
		return kind, found, nil
	}
	l.value, l.mem = value, m
	return kind, true, nil
}

// lives reports whether a version that find has met, and that is no put, is there for the reader: it
// expires at ms, and that is later. An expired one ends the lookup, as a tombstone does.
func (l *lookup) lives(db *DB, kind base.Kind, ms int64) bool {
	if kind != base.KindExpiring {
		return false
	}
	if db.snapshots.Clock.Over(ms, l.asOf) {
		db.counters.getExpired.Add(1)
		return false
	}
	l.expiry = ms
	return true
}

// livesInMemtable is lives for a version in a memtable, which stays pinned if it is there.
func (l *lookup) livesInMemtable(db *DB, kind base.Kind) bool {
	if kind != base.KindExpiring {
		return false
	}
	var ms int64
	ms, l.value = base.CutExpiry(l.value)
	if l.lives(db, kind, ms) {
		return true
	}
	l.release()
	return false
}

// countAbsent counts that a search of t did not find the key. hadFilter says whether a filter
// had said maybe. A proven false positive is remembered, so that the next lookup of the key
// does not read the table.
func (db *DB) countAbsent(t *tree.Table, l *lookup, level int, hadFilter bool, c *lookupCounters) {
	if !hadFilter {
		c.noFilter.Add(1)
		return
	}
	// The search covers versions up to l.seq only. If the table has newer entries, one of them
	// may be a version of this key, which a later lookup has to find. If it has none, no version
	// of the key is in the table. As tables do not change, that is final, and the filter is wrong.
	if l.seq < t.Meta.MaxSeq {
		c.truePositives.Add(1)
		return
	}
	c.falsePositive(level)
	db.falsePositives.Remember(uint64(t.Meta.Num), l.key, l.hash)
	db.judgeFilter(t, t.FalsePositives.Add(1))
}

// readError gives the error of a lookup its context. It reports damage. If the store was closed
// meanwhile, it returns ErrClosed itself.
func (db *DB) readError(key []byte, err error) error {
	if errors.Is(err, ErrClosed) {
		return ErrClosed
	}
	db.noteCorruption(err)
	return fmt.Errorf("shale: get %q: %w", abbreviate(key), err)
}

// noteCorruption counts err and emits EventCorruption if err is a CorruptionError. It ignores
// any other error. It reports whether it did.
func (db *DB) noteCorruption(err error) bool {
	var damage *CorruptionError
	if !errors.As(err, &damage) {
		return false
	}
	db.counters.corruptions.Add(1)
	db.events.emit(Event{Kind: EventCorruption, Err: err})
	return true
}

// abbreviate returns key as an error message prints it: at most 64 bytes.
func abbreviate(key []byte) []byte {
	if len(key) > 64 {
		return append(append([]byte{}, key[:61]...), "..."...)
	}
	return key
}

// Get returns a copy of the value of key, which the caller owns, or [ErrNotFound].
func (db *DB) Get(key []byte) ([]byte, error) {
	l := db.newLookup(key)
	return db.copyValue(&l)
}

// copyValue runs a lookup and returns a copy of the value. An empty value is not nil.
func (db *DB) copyValue(l *lookup) ([]byte, error) {
	value, err := db.appendValue(nil, l)
	if err == nil && value == nil {
		value = []byte{}
	}
	return value, err
}

// AppendValue appends the value of key to dst and returns the longer slice, or dst as it was and [ErrNotFound].
func (db *DB) AppendValue(dst, key []byte) ([]byte, error) {
	l := db.newLookup(key)
	return db.appendValue(dst, &l)
}

// appendValue runs a lookup and appends the value to dst. A table's reader does it itself: no block has to be pinned.
func (db *DB) appendValue(dst []byte, l *lookup) ([]byte, error) {
	// A block may be evicted while the reader copies from it. Then the reader searches for the
	// key again, so the copy must not have overwritten the key.
	if !overlap(dst[:cap(dst)], l.key) {
		l.table.Want, l.table.Bytes = sstable.WantCopy, dst
	}
	found, err := db.find(l)
	if err != nil {
		return dst, err
	}
	if !found {
		return dst, ErrNotFound
	}
	if l.inTable && l.table.Want == sstable.WantCopy {
		return l.table.Bytes, nil
	}
	dst = append(dst, l.value...)
	l.release()
	return dst, nil
}

// overlap reports whether a and b share memory.
func overlap(a, b []byte) bool {
	p, q := uintptr(unsafe.Pointer(unsafe.SliceData(a))), uintptr(unsafe.Pointer(unsafe.SliceData(b)))
	return p < q+uintptr(len(b)) && q < p+uintptr(len(a))
}

// ViewValue calls fn with the value of key, uncopied: it is valid until fn returns and must not be changed. It returns
// fn's error, or [ErrNotFound] without a call.
func (db *DB) ViewValue(key []byte, fn func(value []byte) error) error {
	l := db.newLookup(key)
	return db.viewValue(&l, fn)
}

// viewValue runs a lookup and calls fn with the value, which stays pinned until fn returns.
func (db *DB) viewValue(l *lookup, fn func(value []byte) error) error {
	found, err := db.find(l)
	if err != nil {
		return err
	}
	if !found {
		return ErrNotFound
	}
	defer l.release() // also when fn panics
	return fn(l.value)
}

// Has reports whether key is there, without reading its value.
func (db *DB) Has(key []byte) (bool, error) {
	l := db.newLookup(key)
	return db.has(&l)
}

// has runs a lookup that needs no value: nothing is copied, and nothing stays pinned.
func (db *DB) has(l *lookup) (bool, error) {
	l.table.Want = sstable.WantNone
	found, err := db.find(l)
	if found {
		l.release()
	}
	return found, err
}

// ExpiresAt returns when the value of key expires, the zero time if never, or [ErrNotFound].
func (db *DB) ExpiresAt(key []byte) (time.Time, error) {
	l := db.newLookup(key)
	return db.expiresAt(&l)
}

// expiresAt runs a lookup that needs the time to expire, and no value.
func (db *DB) expiresAt(l *lookup) (time.Time, error) {
	found, err := db.has(l)
	if err == nil && !found {
		err = ErrNotFound
	}
	if err != nil {
		return time.Time{}, err
	}
	return expiryTime(l.expiry), nil
}

// expiryTime returns ms as a time; 0: never. An entry that expires at 0 is never seen.
func expiryTime(ms int64) time.Time {
	if ms == 0 {
		return time.Time{}
	}
	return time.UnixMilli(ms)
}

// MayContain looks at memtables and resident filters only: no I/O, no error,
// no allocation. False: key is certainly absent. True: only a read can tell.
// On a closed store it returns true: nothing is certain there. While [Metrics.Loading],
// it loads the filters that it needs and Open has left.
func (db *DB) MayContain(key []byte) bool {
	v := db.mems.View()
	if v == nil {
		return true
	}
	l := db.newLookup(key)
	if v.Mem.MayContainHash(l.hash) && l.mayBeIn(db, v, v.Mem) {
		return true
	}
	for _, imm := range v.Imms {
		if imm.Mem.MayContainHash(l.hash) && l.mayBeIn(db, v, imm.Mem) {
			return true
		}
	}
	for _, r := range v.Runs {
		if t := r.Find(key); t != nil {
			if f := t.NeededFilter(); (f == nil || f.MayContainHash(l.hashFor(f))) && l.latestCover(db, v) <= t.Meta.MaxSeq {
				return true
			}
		}
	}
	return false
}

// latestCover is cover for a lookup that has no number yet. A range delete whose write is under way or has failed does not
// count: Get finds the key.
func (l *lookup) latestCover(db *DB, v *memqueue.View) base.Seq {
	l.seq = db.commits.Visible()
	return l.cover(v)
}

// mayBeIn reports whether a memtable whose filter says maybe may have the key, for all that range deletes say.
func (l *lookup) mayBeIn(db *DB, v *memqueue.View, m *memtable.Memtable) bool {
	cover := l.latestCover(db, v)
	if cover == 0 || !m.Pin() {
		return true
	}
	defer m.Unpin()
	_, _, found, seq := m.Get(l.key, base.MaxSeq)
	return found && seq > cover
}

// MayContainMany sets out[i] to MayContain(keys[i]), for each i below len(out). If out is longer than
// keys, the rest of out becomes true. Like MayContain it does no I/O, has no error and allocates
// nothing for a key; keys are not kept. With a few dozen keys or more it takes a third to a half of
// the time of MayContain a key, because it asks each filter about many of them at once.
func (db *DB) MayContainMany(keys [][]byte, out []bool) {
	n := min(len(keys), len(out))
	v := db.mems.View()
	if v == nil {
		n = 0 // nothing is certain
	}
	for i := range out[n:] {
		out[n+i] = true
	}
	if n == 0 {
		return
	}
	s := screenPool.Get().(*screen)
	defer screenPool.Put(s)
	for begin := 0; begin < n; begin += tree.ScreenSize {
		end := min(begin+tree.ScreenSize, n)
		s.ask(v, db.hasher, keys[begin:end])
		for i, first := range s.tables.First[:end-begin] {
			out[begin+i] = first != int32(len(v.Runs))
			if out[begin+i] && v.HasSpans() {
				out[begin+i] = db.MayContain(keys[begin+i])
			}
		}
	}
}

// A screen asks all filters of a view about up to tree.ScreenSize keys. One goroutine at a time uses it.
type screen struct {
	tables tree.Screen
	maybe  [tree.ScreenSize]bool
	hashes [tree.ScreenSize]uint64 // of the keys
}

var screenPool = sync.Pool{New: func() any { return new(screen) }}

// ask sets hashes for the keys, and tables.First: to -1 if a memtable may have the key; else to the index
// of the first run that may have it, or to the number of runs if the key is certainly absent.
func (s *screen) ask(v *memqueue.View, hasher bloom.Hasher, keys [][]byte) {
	n := len(keys)
	for i, key := range keys {
		s.hashes[i] = hasher.Hash(key)
	}
	clear(s.tables.First[:n])
	s.askMemtable(v.Mem, n)
	for _, imm := range v.Imms {
		s.askMemtable(imm.Mem, n)
	}
	s.tables.Hasher = hasher
	s.tables.FirstMaybe(v.Version, keys, s.hashes[:n])
}

func (s *screen) askMemtable(m *memtable.Memtable, n int) {
	if m.Empty() {
		return
	}
	m.MayContainMany(s.hashes[:n], s.maybe[:n])
	for i, maybe := range s.maybe[:n] {
		if maybe {
			s.tables.First[i] = -1
		}
	}
}
