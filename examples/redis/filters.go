package main

import (
	"encoding/binary"
	"errors"
	"maps"
	"slices"
	"sync"

	"github.com/shaledb/shale"
	"github.com/shaledb/shale/bloom/compat/redisbloom"
)

// filters are all filters of the server by name. A name is added or removed with its stripe
// held.
type filters struct {
	mu   sync.RWMutex
	byID map[uint64]bool
	by   map[string]*filter
	next uint64 // id of the next filter
}

func (r *filters) get(name []byte) *filter {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return r.by[string(name)]
}

func (r *filters) count() int {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return len(r.by)
}

func (r *filters) put(f *filter) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.by[f.name], r.byID[f.id] = f, true
	r.next = max(r.next, f.id+1)
}

func (r *filters) remove(f *filter) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.by, f.name)
	delete(r.byID, f.id)
}

func (r *filters) newID() uint64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.next++
	return r.next - 1
}

func (r *filters) has(id uint64) bool {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return r.byID[id]
}

// loadFilters reads all filters of the store, and lets garbage be deleted.
func (s *server) loadFilters() error {
	s.filters.by, s.filters.byID, s.filters.next = make(map[string]*filter), make(map[uint64]bool), 1
	for e, err := range s.db.Scan(shale.Prefix([]byte{filterMeta})) {
		if err != nil {
			return err
		}
		r, err := decodeRecord(e.Value)
		if err != nil {
			return err
		}
		f := &filter{id: binary.BigEndian.Uint64(e.Key[1:]), name: r.name}
		s.loadFilter(f)
		s.filters.put(f)
	}
	for _, space := range []byte{pieceSpace, logSpace, loadSpace} {
		if err := s.sweepSpace(space); err != nil {
			return err
		}
	}
	return nil
}

// sweepSpace deletes what deleted filters have left in a space. No other filter
// gets their ids meanwhile.
func (s *server) sweepSpace(space byte) error {
	var ids []uint64
	it := s.db.NewIterator(shale.Range{Lower: []byte{space}, Upper: []byte{space + 1}, KeysOnly: true})
	for ok := it.First(); ok; {
		id := binary.BigEndian.Uint64(it.Key()[1:])
		if !s.filters.has(id) {
			ids = append(ids, id)
		}
		s.filters.next = max(s.filters.next, id+1)
		ok = it.SeekGE(idKey(space, id+1))
	}
	err := errors.Join(it.Err(), it.Close())
	for _, id := range ids {
		s.sweep(id)
	}
	return err
}

// sweep deletes in the background what a deleted filter has left.
func (s *server) sweep(id uint64) {
	s.background.Go(func() {
		for _, space := range []byte{pieceSpace, logSpace, loadSpace} {
			err := s.deleteRange(shale.Prefix(idKey(space, id)))
			if err != nil && !errors.Is(err, shale.ErrClosed) {
				s.logf("what filter %d has left: %v; the next start deletes it", id, err)
			}
		}
	})
}

// Errors of names that stand for something else, or for nothing.
const (
	errWrongType = replyError("WRONGTYPE Operation against a key holding the wrong kind of value")
	errNotFound  = replyError("ERR not found")
	errExists    = replyError("ERR item exists")
)

// missing says why there is no filter of this name: nothing there, or a string.
func (s *server) missing(name []byte) error {
	has, err := s.db.Has(appendNameKey(nil, name))
	switch {
	case err != nil:
		return err
	case has && s.filters.get(name) == nil: // it may have come in between
		return errWrongType
	}
	return errNotFound
}

// find returns the filter of this name for questions, or errNotFound or errWrongType.
func (s *server) find(name []byte) (*filter, error) {
	if f := s.filters.get(name); f != nil {
		if err := s.refresh(f); err != nil {
			return nil, err
		}
		return f, nil
	}
	return nil, s.missing(name)
}

// refresh reads a filter again of which memory and store may differ.
func (s *server) refresh(f *filter) error {
	f.mu.RLock()
	err := f.err
	f.mu.RUnlock()
	if err == nil {
		return nil
	}
	f.changing.Lock()
	defer f.changing.Unlock()
	s.refreshHeld(f)
	return f.err
}

// refreshHeld is refresh. Requires: changing is held.
func (s *server) refreshHeld(f *filter) {
	if f.stale && !f.gone {
		f.mu.Lock()
		defer f.mu.Unlock()
		s.loadFilter(f)
	}
}

// change returns the filter of this name with changing held. If there is none, it makes one
// with these options, or returns an error if they are nil.
func (s *server) change(name []byte, o *redisbloom.Options) (*filter, error) {
	if f := s.filters.get(name); f != nil {
		f.changing.Lock()
		if !f.gone {
			s.refreshHeld(f)
			return f, nil
		}
		f.changing.Unlock()
	}
	h := s.stripes.lock(name)
	defer s.stripes.unlock(h)
	if f := s.filters.get(name); f != nil {
		f.changing.Lock() // nobody deletes it while the stripe is held
		s.refreshHeld(f)
		return f, nil
	}
	if err := s.missing(name); o == nil || !errors.Is(err, errNotFound) {
		return nil, err
	}
	f, err := s.create(name, *o)
	if err == nil {
		f.changing.Lock()
	}
	return f, err
}

// reserve makes a filter. It returns errExists if there is one, errWrongType if there is a
// string.
func (s *server) reserve(name []byte, o redisbloom.Options) error {
	h := s.stripes.lock(name)
	defer s.stripes.unlock(h)
	if s.filters.get(name) != nil {
		return errExists
	}
	if err := s.missing(name); !errors.Is(err, errNotFound) {
		return err
	}
	_, err := s.create(name, o)
	return err
}

// create makes an empty filter in memory and in the store. Requires: the stripe of name is
// held, and the name stands for nothing.
func (s *server) create(name []byte, o redisbloom.Options) (*filter, error) {
	rate := min(o.ErrorRate, 0.25)
	if !o.NonScaling {
		rate /= 2
	}
	if filterBytes(float64(o.Capacity), rate) > float64(s.config.maxFilter) {
		return nil, errTooLarge
	}
	bf, err := redisbloom.NewFilter(o)
	if err != nil {
		return nil, replyError("ERR could not create filter")
	}
	f := &filter{id: s.filters.newID(), name: string(name), bf: bf}
	f.reshape()
	b := new(shale.Batch)
	if err := b.Put(appendNameKey(nil, name), idKey(filterValue, f.id)); err != nil {
		return nil, err
	}
	if err := s.saveFilter(f, b); err != nil {
		return nil, err
	}
	s.filters.put(f)
	return f, nil
}

// insert adds items to a filter, and returns for each whether it was new. It stops at the
// first error, which belongs to the item after those. What was added is in the store.
// Requires: changing is held.
func (s *server) insert(f *filter, items [][]byte) (added []bool, itemErr, err error) {
	f.mu.Lock()
	if err := f.usable(); err != nil {
		f.mu.Unlock()
		return nil, nil, err
	}
	var fresh [][]byte
	for _, item := range items {
		isNew, err := f.add(item, s.config.maxFilter)
		if err != nil {
			itemErr = err
			break
		}
		added = append(added, isNew)
		if isNew {
			fresh = append(fresh, item)
		}
	}
	if len(fresh) > 0 {
		b := new(shale.Batch)
		err = errors.Join(f.appendLog(b, fresh), s.write(b))
	}
	if err != nil { // memory knows more than the store: read that again
		f.stale, f.err = true, err
	}
	f.mu.Unlock()
	if err == nil && f.logged >= f.saveAt {
		s.saveLater(f)
	}
	return added, itemErr, err
}

// saveLater saves a filter whose log is long. Its questions go on, its changes wait. If that
// fails, the log is still complete, and it is tried again later. Requires: changing is held.
func (s *server) saveLater(f *filter) {
	if err := s.saveFilter(f, nil); err != nil {
		s.logf("filter %q: save: %v", f.name, err)
		f.saveAt = 2 * f.logged
	}
}

// dropFilters ends filters whose names were deleted or stand for strings now. Requires: their
// stripes and their changing are held.
func (s *server) dropFilters(dropped []*filter) {
	for _, f := range dropped {
		f.gone = true
		s.filters.remove(f)
		s.sweep(f.id)
	}
}

// bytes returns the memory of the bits of all filters.
func (r *filters) bytes() (n uint64) {
	r.mu.RLock()
	all := slices.Collect(maps.Values(r.by))
	r.mu.RUnlock()
	for _, f := range all {
		f.mu.RLock()
		n += f.shape.bytes
		f.mu.RUnlock()
	}
	return n
}
