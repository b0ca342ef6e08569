package main

import (
	"context"
	"math/rand/v2"
	"sync"
	"sync/atomic"

	"github.com/shaledb/shale/bloom"
)

// An IDs is a filter of the ids in a table. Any number of goroutines may use it at once, and
// asking takes no lock.
//
// Every program that inserts into the table has to do so through Insert of the same IDs. An
// id that another program has inserted is denied until the next Reload.
type IDs struct {
	each    func(ctx context.Context, fn func(id string) error) error // of the table
	current atomic.Pointer[bloom.AtomicBlocked]

	reloading sync.Mutex // one Reload at a time

	// inserting is held for reading from before an id enters the filters until its row is
	// committed, and for writing while filters change. So a filter that is being loaded gets
	// each id: from the table if its row was committed before the load began, and from
	// Insert otherwise.
	inserting sync.RWMutex
	coming    *bloom.AtomicBlocked // the filter that Reload is loading; nil: none
}

// NewIDs returns a filter of the ids of a table. each must call its argument for all ids that were
// committed before, and may call it for later ones too.
func NewIDs(ctx context.Context, each func(ctx context.Context, fn func(id string) error) error) (*IDs, error) {
	s := &IDs{each: each}
	s.current.Store(new(bloom.AtomicBlocked)) // answers maybe to all
	return s, s.Reload(ctx)
}

// MayContain returns false only for ids that no row has.
func (s *IDs) MayContain(id string) bool { return s.current.Load().MayContainString(id) }

// Insert adds id to the filter and then calls commit, which must insert the row and return
// when it is committed. In this order nobody finds a row whose id the filter denies. If
// commit fails, the id stays in the filter until the next Reload, and costs queries.
func (s *IDs) Insert(id string, commit func() error) error {
	s.inserting.RLock()
	defer s.inserting.RUnlock()
	err := s.current.Load().AddString(id)
	if err == nil && s.coming != nil {
		err = s.coming.AddString(id)
	}
	if err != nil {
		return err
	}
	return commit()
}

// Reload replaces the filter by a new one, which is large enough for all ids that there are
// now, and does not have the deleted ones. Until then the old one answers. After an error it
// stays.
func (s *IDs) Reload(ctx context.Context) error {
	s.reloading.Lock()
	defer s.reloading.Unlock()
	n := 0
	if err := s.each(ctx, func(string) error { n++; return nil }); err != nil {
		return err
	}
	// There is room for half as many again; then 1 % of unknown ids pass. Strangers choose the
	// ids they ask for, so the hash function has a secret.
	f, err := bloom.NewAtomicBlocked(bloom.AtomicBlockedOptions{
		Keys: uint64(n + n/2 + 100), BitsPerKey: 10, Hasher: bloom.Must(bloom.NewHasher(bloom.HashSipHash, rand.Uint64())),
	})
	if err != nil {
		return err
	}
	s.change(s.current.Load(), f)
	if err := s.each(ctx, f.AddString); err != nil {
		s.change(s.current.Load(), nil)
		return err
	}
	s.change(f, nil)
	return nil
}

// change waits for the rows that are being inserted, and then changes the filters.
func (s *IDs) change(current, coming *bloom.AtomicBlocked) {
	s.inserting.Lock()
	defer s.inserting.Unlock()
	s.current.Store(current)
	s.coming = coming
}
