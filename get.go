package shale

import (
	"errors"
	"fmt"
	"unsafe"

	"github.com/shaledb/shale/bloom"
	"github.com/shaledb/shale/internal/base"
	"github.com/shaledb/shale/internal/filecache"
	"github.com/shaledb/shale/internal/tree"
	"github.com/shaledb/shale/memtable"
	"github.com/shaledb/shale/sstable"
)

// A lookup is the state of one point read. It lives on the caller's stack.
// Its value stays valid until release.
type lookup struct {
	key    []byte
	hasher bloom.Hasher // the store's
	hash   uint64       // of key, by hasher, which is that of all memtables too
	// The hash of key by the last other hasher that a filter needed, if one did.
	foreign       bool
	foreignHasher bloom.Hasher
	foreignHash   uint64
	// seq is the newest sequence number that is seen; latest says to take the
	// store's, anew for every attempt.
	seq    base.Seq
	latest bool
	// What the metrics have of it already: that there is such a lookup, and that it found its key.
	counted, hit bool
	sample       bool          // count the negatives of single tables
	near         *sstable.Near // of GetMany, else nil
	// Where a lookup that met ErrNotCached goes on; a nil view: from the start.
	view *view
	from int // run

	value   []byte
	table   sstable.Value      // what a table said: pins the block that value lies in, unless something else was wanted
	inTable bool               // that is it
	mem     *memtable.Memtable // pinned, if value is one of a memtable's
}

func (l *lookup) release() {
	if l.mem != nil {
		l.mem.Unpin()
		l.mem = nil
	}
	l.table.Release()
}

// newLookup begins a lookup of key in the newest state.
func (db *DB) newLookup(key []byte) lookup {
	return lookup{key: key, hasher: db.hasher, hash: db.hasher.Hash(key), latest: true}
}

// hashFor returns the hash to ask f with. A filter that was written under
// another Options.FilterHash has one of its own.
func (l *lookup) hashFor(f *bloom.Static) uint64 {
	if h := f.Hasher(); h != l.hasher {
		return l.hashBy(h)
	}
	return l.hash
}

// hashBy returns the hash by a hasher that is not the store's, and remembers it: the
// filters of one earlier life of the store all have the same.
func (l *lookup) hashBy(h bloom.Hasher) uint64 {
	if !l.foreign || h != l.foreignHasher {
		l.foreign, l.foreignHasher, l.foreignHash = true, h, h.Hash(l.key)
	}
	return l.foreignHash
}

// tagHash returns the hash that data blocks know the key by.
func (l *lookup) tagHash() uint64 {
	if l.hasher != (bloom.Hasher{}) {
		return bloom.Hash(l.key)
	}
	return l.hash
}

// find looks the key up. It returns true and l.value set, for release, or
// false if the key is absent or deleted.
func (db *DB) find(l *lookup) (bool, error) {
	c := db.counters.lookup()
	if l.view == nil && !l.counted {
		l.sample = sampled(c.gets.Add(1))
	}
	for {
		v := db.view.Load()
		if v == nil {
			return false, ErrClosed
		}
		if l.view != nil {
			v = l.view
		}
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
			l.view, l.from = nil, 0 // a compaction finished meanwhile: its output is in the next view
		case err == sstable.ErrNotCached:
			return false, err // l knows where to go on
		default:
			return false, db.readError(l.key, err)
		}
	}
}

// findIn looks the key up in one view.
func (db *DB) findIn(v *view, l *lookup, c *lookupCounters) (bool, error) {
	if l.view == nil {
		if kind, ok, err := l.inMemtables(v); ok || err != nil {
			return kind == base.KindPut, err
		}
	}
	for from := l.from; from < len(v.Runs); from++ {
		r := v.Runs[from]
		t := r.Find(l.key)
		if t == nil {
			continue
		}
		f, level := t.Filter(), r.Level
		if f != nil && !f.MayContain(l.hashFor(f)) {
			c.negative(level)
			if l.sample {
				t.Negatives.Add(sampleEvery)
			}
			continue
		}
		if f != nil && db.falsePositives.Has(uint64(t.Meta.Num), l.key, l.hash) {
			c.remembered.Add(1)
			continue
		}
		found, err := t.Reader.GetNear(l.near, l.key, l.tagHash(), l.seq, &l.table)
		if err != nil {
			l.view, l.from = v, from
			return false, err
		}
		if !found {
			db.countAbsent(t, l, level, f != nil, c)
			continue
		}
		if f != nil {
			c.truePositives.Add(1)
		} else {
			c.noFilter.Add(1)
		}
		l.value, l.inTable = l.table.Bytes, true
		if l.table.Trailer.Kind() != base.KindPut {
			l.release()
			return false, nil
		}
		return true, nil
	}
	return false, nil
}

// inMemtables asks the memtables, newest first.
func (l *lookup) inMemtables(v *view) (base.Kind, bool, error) {
	if v.mem.MayContainHash(l.hash) {
		if kind, ok, err := l.inMemtable(v.mem); ok || err != nil {
			return kind, ok, err
		}
	}
	for _, imm := range v.imms {
		if !imm.mem.MayContainHash(l.hash) {
			continue
		}
		if kind, ok, err := l.inMemtable(imm.mem); ok || err != nil {
			return kind, ok, err
		}
	}
	return 0, false, nil
}

// inMemtable asks one memtable, and keeps it pinned if it has a value.
func (l *lookup) inMemtable(m *memtable.Memtable) (base.Kind, bool, error) {
	if !m.Pin() {
		return 0, false, filecache.ErrGone
	}
	value, kind, found, _ := m.Get(l.key, l.seq)
	if !found || kind != base.KindPut {
		m.Unpin()
		return kind, found, nil
	}
	l.value, l.mem = value, m
	return kind, true, nil
}

// countAbsent counts, and remembers, that a table did not hold the key although
// its filter said maybe (or it has none).
func (db *DB) countAbsent(t *tree.Table, l *lookup, level int, hadFilter bool, c *lookupCounters) {
	if !hadFilter {
		c.noFilter.Add(1)
		return
	}
	// Get answers for versions up to l.seq. Only if the table has none at all
	// of this key, which its sequence numbers tell, is the absence permanent,
	// and the filter wrong.
	if l.seq < t.Meta.MaxSeq {
		c.truePositives.Add(1)
		return
	}
	c.falsePositive(level)
	db.falsePositives.Remember(uint64(t.Meta.Num), l.key, l.hash)
	db.judgeFilter(t, t.FalsePositives.Add(1))
}

// readError counts damage met by a read and gives the error its context.
func (db *DB) readError(key []byte, err error) error {
	if errors.Is(err, ErrClosed) {
		return ErrClosed
	}
	db.noteCorruption(err)
	return fmt.Errorf("shale: get %q: %w", abbreviate(key), err)
}

// noteCorruption reports damage: counted, logged, and told to OnEvent.
func (db *DB) noteCorruption(err error) {
	var damage *CorruptionError
	if errors.As(err, &damage) {
		db.counters.corruptions.Add(1)
		db.events.emit(Event{Kind: EventCorruption, Err: err})
	}
}

// abbreviate returns key as an error message prints it: at most 64 bytes.
func abbreviate(key []byte) []byte {
	if len(key) > 64 {
		return append(append([]byte{}, key[:61]...), "..."...)
	}
	return key
}

// Get implements Reader.
func (db *DB) Get(key []byte) ([]byte, error) {
	l := db.newLookup(key)
	return db.copyValue(&l)
}

// copyValue runs a lookup whose value the caller is to own.
func (db *DB) copyValue(l *lookup) ([]byte, error) {
	value, err := db.appendValue(nil, l)
	if err == nil && value == nil {
		value = []byte{}
	}
	return value, err
}

// AppendValue implements Reader.
func (db *DB) AppendValue(dst, key []byte) ([]byte, error) {
	l := db.newLookup(key)
	return db.appendValue(dst, &l)
}

func (db *DB) appendValue(dst []byte, l *lookup) ([]byte, error) {
	// The copy may have to be made again, and the key must be the same then.
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

// overlap tells whether a and b share memory.
func overlap(a, b []byte) bool {
	p, q := uintptr(unsafe.Pointer(unsafe.SliceData(a))), uintptr(unsafe.Pointer(unsafe.SliceData(b)))
	return p < q+uintptr(len(b)) && q < p+uintptr(len(a))
}

// ViewValue implements Reader.
func (db *DB) ViewValue(key []byte, fn func(value []byte) error) error {
	l := db.newLookup(key)
	return db.viewValue(&l, fn)
}

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

// Has implements Reader.
func (db *DB) Has(key []byte) (bool, error) {
	l := db.newLookup(key)
	return db.has(&l)
}

func (db *DB) has(l *lookup) (bool, error) {
	l.table.Want = sstable.WantNone
	found, err := db.find(l)
	if found {
		l.release()
	}
	return found, err
}

// MayContain looks at memtables and resident filters only: no I/O, no error,
// no allocation. False: key is certainly absent. True: only a read can tell.
// On a closed store it returns true: nothing is certain there.
func (db *DB) MayContain(key []byte) bool {
	v := db.view.Load()
	if v == nil {
		return true
	}
	l := db.newLookup(key)
	if v.mem.MayContainHash(l.hash) {
		return true
	}
	for _, imm := range v.imms {
		if imm.mem.MayContainHash(l.hash) {
			return true
		}
	}
	for _, r := range v.Runs {
		if t := r.Find(key); t != nil {
			if f := t.Filter(); f == nil || f.MayContain(l.hashFor(f)) {
				return true
			}
		}
	}
	return false
}
