package shale

import (
	"bytes"
	"sort"

	"github.com/shaledb/shale/internal/base"
	"github.com/shaledb/shale/internal/iter"
	"github.com/shaledb/shale/internal/mutant"
	"github.com/shaledb/shale/sstable"
)

// An Iterator is a cursor over the entries of a Range at one state of the
// store, that of its creation. It starts before the first key: Next moves to
// it, Prev stays. It is for one goroutine at a time and must be closed; it
// keeps the files that it reads from being deleted.
//
// A movement returns whether it ended on an entry. If not, Err tells an end
// from a failure. Past the last entry, Prev moves back to it; before the
// first, Next moves to it. Range.Reverse and Range.Limit are for Scan: a
// cursor goes where it is told.
//
// Once the store is closed, the iterator stops and Err is ErrClosed.
type Iterator struct {
	db       *DB
	version  *version // nil once closed
	view     *view    // which version and pinned memtables are of
	src      base.Iterator
	rng      Range
	seq      base.Seq
	err      error
	position position

	// While position is onEntry: the entry. Forward, src stands on it and
	// value is src's; backward, src stands on the entry before all versions
	// of key and value is in valueBuf.
	key      []byte
	value    []byte
	valueBuf []byte
	backward bool
	kv       *base.KV // what src stands on, nil if nothing
}

type position uint8

const (
	beforeFirst position = iota
	onEntry
	afterLast
)

// NewIterator implements Reader.
func (db *DB) NewIterator(r Range) *Iterator { return db.newIterator(r, latestSeq) }

// latestSeq asks newIterator for the newest state.
const latestSeq = base.MaxSeq

func failedIterator(err error) *Iterator { return &Iterator{err: err} }

func (db *DB) newIterator(r Range, seq base.Seq) *Iterator {
	if mutant.StaleView && seq == latestSeq {
		seq = base.Seq(db.visible.Load())
		mutant.Pause()
	}
	v := db.acquireAll()
	if v == nil {
		return failedIterator(ErrClosed)
	}
	if seq == latestSeq {
		seq = base.Seq(db.visible.Load()) // after the view: see view
	}
	db.counters.iterators.Add(1)
	it := &Iterator{db: db, version: v.version, view: v, rng: r.clone(), seq: seq}
	it.src = iter.NewMerging(v.sources(it.rng, &db.counters)...)
	return it
}

// sources returns iterators over all of v that may hold keys of r, newest
// first.
func (v *view) sources(r Range, c *counters) []base.Iterator {
	if r.empty() {
		return nil
	}
	sources := make([]base.Iterator, 0, 1+len(v.imms)+len(v.runs))
	sources = append(sources, v.mem.NewIterator())
	for _, imm := range v.imms {
		sources = append(sources, imm.mem.NewIterator())
	}
	p := prefixProbe{rng: r}
	for _, run := range v.runs {
		if tables := p.keep(run.overlapping(r)); len(tables) > 0 {
			sources = append(sources, iter.NewConcat(len(tables), tableSource{tables: tables, opts: sstable.IterOptions{}}))
		}
	}
	c.prefixNegative.Add(p.negatives)
	return sources
}

// overlapping returns the run's tables that may hold keys of rng.
func (r *run) overlapping(rng Range) []*table {
	from := sort.Search(len(r.tables), func(i int) bool { return bytes.Compare(r.tables[i].meta.Largest, rng.Lower) >= 0 })
	tables := r.tables[from:]
	if rng.Upper == nil {
		return tables
	}
	return tables[:sort.Search(len(tables), func(i int) bool { return bytes.Compare(tables[i].meta.Smallest, rng.Upper) >= 0 })]
}

// ready says whether the iterator may move, and clears an earlier error.
func (it *Iterator) ready() bool {
	if it.version == nil {
		if it.err == nil {
			it.err = ErrClosed
		}
		return false
	}
	it.err = nil
	if it.db.view.Load() == nil {
		it.err = ErrClosed
		it.position = afterLast
		return false
	}
	return true
}

// First moves to the first entry.
func (it *Iterator) First() bool { return it.ready() && it.seekGE(it.rng.Lower) }

// Last moves to the last entry.
func (it *Iterator) Last() bool {
	if !it.ready() {
		return false
	}
	if it.rng.Upper == nil {
		it.kv = it.src.Last()
	} else {
		it.kv = it.src.SeekLT(it.rng.Upper)
	}
	return it.findBackward()
}

// SeekGE moves to the first entry whose key is key or greater.
func (it *Iterator) SeekGE(key []byte) bool {
	if !it.ready() {
		return false
	}
	if bytes.Compare(key, it.rng.Lower) < 0 {
		key = it.rng.Lower
	}
	return it.seekGE(key)
}

func (it *Iterator) seekGE(key []byte) bool {
	it.kv = it.src.SeekGE(key, it.seq)
	return it.findForward(false)
}

// SeekLT moves to the last entry whose key is less than key.
func (it *Iterator) SeekLT(key []byte) bool {
	if !it.ready() {
		return false
	}
	if it.rng.Upper != nil && bytes.Compare(key, it.rng.Upper) > 0 {
		key = it.rng.Upper
	}
	it.kv = it.src.SeekLT(key)
	return it.findBackward()
}

// Next moves one entry forward, from before the first to the first.
func (it *Iterator) Next() bool {
	switch {
	case it.position == beforeFirst:
		return it.First()
	case it.position == afterLast || !it.ready():
		return false
	case it.backward:
		it.kv = it.src.SeekGE(it.key, 0) // behind all versions of key but one of number 0, which is skipped
		return it.findForward(true)
	}
	it.kv = it.src.Next()
	return it.findForward(true)
}

// Prev moves one entry back, from after the last to the last.
func (it *Iterator) Prev() bool {
	switch {
	case it.position == afterLast && it.version != nil:
		return it.Last()
	case it.position != onEntry || !it.ready():
		return false
	case !it.backward:
		it.kv = it.src.SeekLT(it.key)
	}
	return it.findBackward()
}

// maxSteps is how many versions of one key are stepped over before a seek
// takes their place.
const maxSteps = 8

// findForward moves from src's entry on to the next one that is visible: the
// newest version, not above seq, of a key that is not deleted. skip says that
// the versions of it.key have been seen.
func (it *Iterator) findForward(skip bool) bool {
	it.backward = false
	steps := 0
	for it.kv != nil {
		kv := it.kv
		if it.rng.Upper != nil && bytes.Compare(kv.UserKey, it.rng.Upper) >= 0 {
			return it.end(afterLast)
		}
		switch {
		case skip && bytes.Equal(kv.UserKey, it.key):
			if steps++; steps > maxSteps {
				it.kv, steps = it.src.SeekGE(it.successor(), base.MaxSeq), 0
				continue
			}
		case kv.Seq() > it.seq:
			if steps++; steps > maxSteps {
				it.key = append(it.key[:0], kv.UserKey...)
				it.kv, steps, skip = it.src.SeekGE(it.key, it.seq), 0, false
				continue
			}
		case kv.Kind() == base.KindDelete:
			it.key = append(it.key[:0], kv.UserKey...)
			skip, steps = true, 0
		default:
			it.key = append(it.key[:0], kv.UserKey...)
			it.value = kv.Value
			it.position = onEntry
			return true
		}
		it.kv = it.src.Next()
	}
	return it.end(afterLast)
}

// successor returns the least key above it.key, in it.valueBuf.
func (it *Iterator) successor() []byte {
	it.valueBuf = append(append(it.valueBuf[:0], it.key...), 0)
	return it.valueBuf
}

// findBackward moves from src's entry back to the previous visible one. Going
// back, the versions of a key come oldest first, so the last that is not above
// seq counts.
func (it *Iterator) findBackward() bool {
	it.backward = true
	for it.kv != nil {
		if bytes.Compare(it.kv.UserKey, it.rng.Lower) < 0 {
			return it.end(beforeFirst)
		}
		it.key = append(it.key[:0], it.kv.UserKey...)
		live, steps := false, 0
		for it.kv != nil && bytes.Equal(it.kv.UserKey, it.key) {
			if it.kv.Seq() <= it.seq {
				if live = it.kv.Kind() != base.KindDelete; live {
					it.valueBuf = append(it.valueBuf[:0], it.kv.Value...)
				}
			}
			if steps++; it.kv.Seq() > it.seq || steps > maxSteps {
				live = it.newestVersion(live)
				if it.err != nil {
					return it.end(beforeFirst)
				}
				break
			}
			it.kv = it.src.Prev()
		}
		if it.kv == nil && it.src.Err() != nil {
			return it.end(beforeFirst)
		}
		if live {
			it.value = it.valueBuf
			it.position = onEntry
			return true
		}
	}
	return it.end(beforeFirst)
}

// newestVersion finds the visible version of it.key by a seek, and leaves src
// before all of the key's versions. live is what is known so far.
func (it *Iterator) newestVersion(live bool) bool {
	if it.kv.Seq() <= it.seq {
		kv := it.src.SeekGE(it.key, it.seq)
		if kv == nil {
			it.err = it.src.Err()
			return false
		}
		if live = kv.Kind() != base.KindDelete; live {
			it.valueBuf = append(it.valueBuf[:0], kv.Value...)
		}
	}
	it.kv = it.src.SeekLT(it.key)
	return live
}

// end leaves the iterator without an entry, at the end given or where an error
// stopped it.
func (it *Iterator) end(p position) bool {
	it.position = p
	it.value = nil
	if it.err == nil {
		it.err = it.src.Err()
	}
	if it.err != nil {
		it.db.noteCorruption(it.err)
	}
	return false
}

// Valid tells whether the iterator stands on an entry.
func (it *Iterator) Valid() bool { return it.position == onEntry && it.version != nil && it.err == nil }

// Key returns the key of the entry, never nil. It is valid until the next
// movement and must not be changed. Requires: it.Valid().
func (it *Iterator) Key() []byte {
	if it.key == nil {
		return []byte{}
	}
	return it.key
}

// Value returns the value of the entry: nil if the range says KeysOnly, else
// never nil. It is valid until the next movement and must not be changed.
// Requires: it.Valid().
func (it *Iterator) Value() []byte {
	switch {
	case it.rng.KeysOnly:
		return nil
	case it.value == nil:
		return []byte{}
	}
	return it.value
}

// Err returns the error that ended the last movement, or nil.
func (it *Iterator) Err() error { return it.err }

// Close releases what the iterator holds. It may be called twice.
func (it *Iterator) Close() error {
	if it.version == nil {
		return nil
	}
	err := it.src.Close()
	it.db.releaseAll(it.view)
	it.db.counters.iterators.Add(-1)
	it.version, it.view, it.src, it.position = nil, nil, nil, afterLast
	it.key, it.value, it.valueBuf = nil, nil, nil
	return err
}
