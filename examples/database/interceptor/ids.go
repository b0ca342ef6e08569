package main

import (
	"context"
	"iter"
	"math/rand/v2"
	"sync"
	"sync/atomic"

	"github.com/shaledb/shale/bloom"
)

// An idSource has the ids that an IDs is loaded from.
type idSource interface {
	// count returns about how many ids there are.
	count(ctx context.Context) (int, error)
	// ids yields all ids that were committed before it is called. It may yield later ones too.
	ids(ctx context.Context) iter.Seq2[string, error]
}

// An IDs is a filter of the ids in a table. It is a bloom.Set, and any number of goroutines
// may use it at once. Asking takes no lock.
//
// Every program that inserts into the table has to do so through Insert of the same IDs. An
// id that another program has inserted is denied until the next Reload.
type IDs struct {
	source  idSource
	current atomic.Pointer[bloom.AtomicBlocked]

	reloading sync.Mutex // one Reload at a time

	// inserting is held for reading from before an id enters the filters until its row is
	// committed, and for writing while filters change. So a filter that is being loaded gets
	// each id: from the table if its row was committed before the load began, and from
	// Insert otherwise.
	inserting sync.RWMutex
	coming    *bloom.AtomicBlocked // the filter that Reload is loading; nil: none
}

var _ bloom.Set = (*IDs)(nil)

// NewIDs returns a filter of all ids of the source.
func NewIDs(ctx context.Context, source idSource) (*IDs, error) {
	s := &IDs{source: source}
	s.current.Store(new(bloom.AtomicBlocked)) // answers maybe to all
	if err := s.Reload(ctx); err != nil {
		return nil, err
	}
	return s, nil
}

// Insert adds id to the filter and then calls commit, which must insert the row and return
// when it is committed. In this order nobody finds a row whose id the filter denies. If
// commit fails, the id stays in the filter until the next Reload, and costs queries.
func (s *IDs) Insert(id string, commit func() error) error {
	s.inserting.RLock()
	defer s.inserting.RUnlock()
	if err := s.current.Load().AddString(id); err != nil {
		return err
	}
	if s.coming != nil {
		if err := s.coming.AddString(id); err != nil {
			return err
		}
	}
	return commit()
}

// Reload replaces the filter by a new one, which is large enough for all ids that there are
// now, and does not have the deleted ones. Until then the old one answers. After an error it
// stays. At its beginning and at its end, new calls of Insert wait until those before them have
// committed.
func (s *IDs) Reload(ctx context.Context) error {
	s.reloading.Lock()
	defer s.reloading.Unlock()
	n, err := s.source.count(ctx)
	if err != nil {
		return err
	}
	f, err := newFilter(n)
	if err != nil {
		return err
	}
	s.setComing(f)
	for id, err := range s.source.ids(ctx) {
		if err == nil {
			err = f.AddString(id)
		}
		if err != nil {
			s.setComing(nil)
			return err
		}
	}
	s.inserting.Lock()
	defer s.inserting.Unlock()
	s.current.Store(f)
	s.coming = nil
	return nil
}

func (s *IDs) setComing(f *bloom.AtomicBlocked) {
	s.inserting.Lock()
	defer s.inserting.Unlock()
	s.coming = f
}

// newFilter returns an empty filter with room for n ids and half as many again; then 1 % of
// unknown ids pass. Strangers choose the ids they ask for, so the hash function has a secret:
// otherwise they could find ids that pass.
func newFilter(n int) (*bloom.AtomicBlocked, error) {
	hasher, err := bloom.NewHasher(bloom.HashSipHash, rand.Uint64())
	if err != nil {
		return nil, err
	}
	return bloom.NewAtomicBlocked(bloom.AtomicBlockedOptions{Keys: uint64(n + n/2 + 100), BitsPerKey: 10, Hasher: hasher})
}

// MayContain is MayContainString for bytes.
func (s *IDs) MayContain(id []byte) bool { return s.current.Load().MayContain(id) }

// MayContainString returns false only for ids that no row has.
func (s *IDs) MayContainString(id string) bool { return s.current.Load().MayContainString(id) }

// MayContainKeys sets out[i] to MayContain of ids[i], and the rest of out to true.
func (s *IDs) MayContainKeys(ids [][]byte, out []bool) { s.current.Load().MayContainKeys(ids, out) }

// SizeBytes returns the memory of the filter.
func (s *IDs) SizeBytes() int { return s.current.Load().SizeBytes() }
