package bloom

import (
	"sync"
	"sync/atomic"
)

// atomicShared is what the copies of an AtomicBlocked share next to the lines.
type atomicShared struct {
	stripes []atomicStripe // a power of two of them
	bytes   []byte         // of OpenAtomicBlocked; nil: the lines are memory of the filter's own
	sealing sync.Mutex     // held by Seal
}

// An atomicStripe is what the keys of every 64th line share. It fills a cache line, so that
// goroutines with different stripes do not disturb each other.
type atomicStripe struct {
	checking sync.Mutex    // held by the CheckAndAddHash that adds
	added    atomic.Uint64 // keys
	_        [48]byte
}

const maxStripes = 64

// newAtomicShared returns the shared part of a filter that has lines lines and count keys.
func newAtomicShared(lines int, count uint64) *atomicShared {
	stripes := 1
	for stripes < maxStripes && 2*stripes <= lines {
		stripes *= 2
	}
	s := &atomicShared{stripes: make([]atomicStripe, stripes)}
	s.stripes[0].added.Store(count)
	return s
}

// stripe returns the stripe of the line with index i.
func (s *atomicShared) stripe(i uint64) *atomicStripe {
	return &s.stripes[i&uint64(len(s.stripes)-1)]
}

// note counts n additions, to the line with index i and others, and makes a sealed filter live
// before the lines change.
func (s *atomicShared) note(i, n uint64) {
	if s.bytes != nil && s.state().Load()&liveBit() == 0 {
		s.state().Or(liveBit())
	}
	s.stripe(i).added.Add(n)
}

// CheckAndAddHash adds the key with this hash, and reports whether it may have been there
// before. If several goroutines call it with the same key at the same time, at most one of
// them gets false. It is exactly one, unless the bits of other keys make the filter say maybe.
//
// A goroutine that calls AddHash for the key at the same time is not told anything, and does
// not count as one of them: before its AddHash has returned, CheckAndAddHash may answer false.
//
// Most calls take no lock: none that answers true at the first look, and no AddHash ever. The
// others hold one of 64 locks for some 20 ns.
//
// It can't be done with the bits alone. Of two callers with one key, one may set the missing
// bits of the first word, and the other one those of the second. The first caller finds the
// second word complete, and the other caller finds the first word complete. Each of them would
// see the same if it were alone and other keys had set those bits. Then it would have to answer
// false. So both would.
func (f *AtomicBlocked) CheckAndAddHash(h uint64) bool {
	if f.MayContainHash(h) {
		return true
	}
	i, _, _, _ := f.place(h)
	stripe := f.shared.stripe(i)
	stripe.checking.Lock()
	there := f.MayContainHash(h)
	if !there {
		f.AddHash(h)
	}
	stripe.checking.Unlock()
	return there
}

// CheckAndAdd adds key, and reports whether it may have been there before. What
// CheckAndAddHash says of several goroutines holds here too.
func (f *AtomicBlocked) CheckAndAdd(key []byte) bool { return f.CheckAndAddHash(f.hasher.Hash(key)) }

// Count returns how many keys were added. A key that was added twice counts twice. A
// CheckAndAdd counts if it answers false. Union adds the count of the other filter. While keys
// are added, the result is a number between the count at the begin and the one at the end. It is 0 for a filter with the option
// Uncounted.
func (f *AtomicBlocked) Count() uint64 {
	if f.shared == nil {
		return 0
	}
	n := uint64(0)
	for i := range f.shared.stripes {
		n += f.shared.stripes[i].added.Load()
	}
	return n
}
