package main

import (
	"maps"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/shaledb/shale"
)

const (
	writers    = 4
	minSlots   = 64  // a writer
	maxChanges = 256 // a commit
)

// A stamp says which operation has written a slot last: the number of the
// commit, that of the operation in it, and two flags. Zero: none has.
type stamp uint64

const (
	busy    stamp = 1 << iota // a commit is under way that changes the slot
	deleted                   // the operation was a deletion

	opShift     = 2
	commitShift = opShift + 8
)

func newStamp(commit uint64, op int) stamp { return stamp(commit<<commitShift | uint64(op)<<opShift) }

func (s stamp) commit() uint64 { return uint64(s >> commitShift) }

// visible returns the stamp that the value of the slot bears: 0 if there is
// none.
func (s stamp) visible() stamp {
	if s&deleted != 0 {
		return 0
	}
	return s &^ busy
}

// A change is what a commit does to a slot, that is, to a key of its writer.
type change struct {
	slot  int
	stamp stamp
}

type commitKind int

const (
	commitPut commitKind = iota
	commitDelete
	commitPutIfAbsent
	commitBatch
	commitIngest
)

// A commit is one call that writes.
type commit struct {
	number     uint64
	kind       commitKind
	changes    []change
	durability shale.Durability // of a batch with a choice of its own
	ownChoice  bool
	patience   time.Duration // of its context; 0: endless
}

// commitOf returns a writer's commit with the given number. The same arguments
// give the same commit.
func commitOf(seed uint64, writer int, number uint64, slots int) commit {
	r := rand.New(rand.NewPCG(mix(seed, uint64(writer)), number))
	c := commit{number: number}
	// In each fourth stretch of 2048 commits half of the changes are deletions.
	deletions := 6
	if number>>11%4 == 3 {
		deletions = 2
	}
	switch n := r.IntN(100); {
	case n < 40:
		c.kind = commitPut
		c.add(pickSlot(r, number, slots), false)
	case n < 40+80/deletions:
		c.kind = commitDelete
		c.add(pickSlot(r, number, slots), true)
	case n < 92:
		if c.kind = commitPutIfAbsent; r.IntN(3) > 0 {
			c.kind = commitBatch
		}
		if c.kind == commitPutIfAbsent {
			c.add(pickSlot(r, number, slots), false)
		} else {
			c.batch(r, slots, 1+r.IntN(16), deletions)
		}
	case n == 99 && r.IntN(4) == 0:
		c.kind = commitIngest
		c.ingest(r, slots, r.IntN(maxChanges-2))
	default:
		c.kind = commitBatch
		c.batch(r, slots, 1+r.IntN(maxChanges-2), deletions)
	}
	if r.IntN(50) == 0 && c.kind == commitBatch {
		c.patience = time.Duration(r.IntN(2_000_000)) // nanoseconds: it may be over before it begins
	}
	return c
}

// batch fills the commit with n changes between the twins: the first and the
// last slot of the writer, which all batches change and nothing else does. Who
// sees one of the twins changed and the other not has seen half of a batch.
func (c *commit) batch(r *rand.Rand, slots, n, deletions int) {
	if c.ownChoice = r.IntN(10) == 0; c.ownChoice {
		c.durability = shale.Durability(r.IntN(3))
	}
	c.add(0, false)
	start, sweep := pickSlot(r, c.number, slots), r.IntN(4) == 0
	for i := range n {
		slot := pickSlot(r, c.number, slots)
		if sweep { // neighbours, all put or all deleted
			slot = 1 + (start+i)%(slots-2)
			c.add(slot, start%2 == 0)
			continue
		}
		c.add(slot, r.IntN(deletions) == 0)
	}
	c.add(slots-1, false)
}

// ingest fills the commit with up to n puts, in ascending order, between the
// twins.
func (c *commit) ingest(r *rand.Rand, slots, n int) {
	between := make(map[int]bool)
	for range n {
		between[pickSlot(r, c.number, slots)] = true
	}
	c.add(0, false)
	for _, slot := range slices.Sorted(maps.Keys(between)) {
		c.add(slot, false)
	}
	c.add(slots-1, false)
}

func (c *commit) add(slot int, del bool) {
	s := newStamp(c.number, len(c.changes))
	if del {
		s |= deleted
	}
	c.changes = append(c.changes, change{slot, s})
}

// pickSlot chooses a slot other than the twins: any, one of a small window that
// wanders, or the next in turn.
func pickSlot(r *rand.Rand, number uint64, slots int) int {
	free := uint64(slots - 2)
	switch n := r.IntN(10); {
	case n < 5:
		return 1 + r.IntN(slots-2)
	case n < 8:
		return 1 + int((mix(number>>12)+uint64(r.IntN(256)))%free)
	default:
		return 1 + int(number*7%free)
	}
}

// effects returns what the commit changes given what was there before.
func (c *commit) effects(before func(slot int) stamp) []change {
	if c.kind == commitPutIfAbsent && before(c.changes[0].slot).visible() != 0 {
		return nil
	}
	return c.changes
}

// mix makes a hash of numbers (splitmix64, folded).
func mix(parts ...uint64) uint64 {
	h := uint64(0x9e3779b97f4a7c15)
	for _, p := range parts {
		h += p + 0x9e3779b97f4a7c15
		h = (h ^ h>>30) * 0xbf58476d1ce4e5b9
		h = (h ^ h>>27) * 0x94d049bb133111eb
		h ^= h >> 31
	}
	return h
}
