package sketch

import (
	"math/bits"

	"github.com/shaledb/shale/bloom/internal/form"
)

// lanes describes how four fingerprints lie in a word, the first in the lowest bits.
// Functions on lanes work on all four at once. They ignore the bits above the fourth.
type lanes struct {
	width uint64 // bits of a fingerprint
	most  uint64 // largest fingerprint
	ones  uint64 // lowest bit of each fingerprint
	highs uint64 // highest bit of each fingerprint
}

func lanesOf(width int) lanes {
	w := uint64(width)
	ones := 1 | uint64(1)<<w | 1<<(2*w) | 1<<(3*w)
	return lanes{width: w, most: 1<<w - 1, ones: ones, highs: ones << (w - 1)}
}

// bytes returns the size of a bucket.
func (l *lanes) bytes() uint64 { return l.width / 2 }

// zeros finds fingerprint among places. The lowest bit of the result is the highest bit
// of the first place that has it; the result is 0 if no place has it. The bits above
// the lowest one mean nothing.
func (l *lanes) zeros(places, fingerprint uint64) uint64 {
	x := places ^ fingerprint*l.ones
	return (x - l.ones) &^ x & l.highs
}

// has reports whether one of the four places has this fingerprint.
func (l *lanes) has(places, fingerprint uint64) bool { return l.zeros(places, fingerprint) != 0 }

// find returns the lowest bit of the first place that has this fingerprint.
func (l *lanes) find(places, fingerprint uint64) (at uint64, found bool) {
	z := l.zeros(places, fingerprint)
	return uint64(bits.TrailingZeros64(z)) + 1 - l.width, z != 0
}

// full reports whether all four places have this fingerprint.
func (l *lanes) full(places, fingerprint uint64) bool {
	return (places^fingerprint*l.ones)<<(64-bucketSlots*l.width) == 0
}

// makeRoom adds the fingerprint of p, whose buckets are both full, and reports whether it
// could. It puts the fingerprint in the place of another one. That one goes to its other
// bucket, in the place of a third one, and so on, until a bucket has a free place. The
// key's hash h chooses which fingerprint has to move, so that the same additions make the
// same table on every machine.
//
// If no free place is found after cuckooKicks moves, the last fingerprint goes to the
// stash. If the stash is full, makeRoom undoes all moves and reports false.
func (f *Cuckoo) makeRoom(p cuckooPlace, h uint64) bool {
	if f.lanes.full(f.load(p.first), p.fingerprint) && f.lanes.full(f.load(p.second), p.fingerprint) {
		return false // copies of one key would fill the stash
	}
	moving, bucket := p.fingerprint, p.second
	for i := range uint64(cuckooKicks) {
		moving = f.swap(bucket, h+i, moving)
		bucket = f.other(bucket, moving)
		if f.replace(bucket, 0, moving) {
			return true
		}
	}
	if f.waiting < cuckooStash {
		f.stash[f.waiting] = stashed{bucket, moving}
		f.waiting++
		return true
	}
	for i := uint64(cuckooKicks); i > 0; i-- {
		bucket = f.other(bucket, moving)
		moving = f.swap(bucket, h+i-1, moving)
	}
	return false
}

// swap puts a fingerprint into one of the four places of the bucket, and returns the one
// that was there. chance chooses the place: the same chance always chooses the same.
func (f *Cuckoo) swap(bucket, chance, fingerprint uint64) uint64 {
	at := form.Finish(chance) >> 62 * f.lanes.width
	places := f.load(bucket)
	old := places >> at & f.lanes.most
	f.store(bucket, places^(old^fingerprint)<<at)
	return old
}

// stashIndex returns the index in the stash of a fingerprint of p, or -1. An
// entry stores only one of its buckets. The other one follows from it, so one
// bucket in common means both.
func (f *Cuckoo) stashIndex(p cuckooPlace) int {
	for i, s := range f.stash[:f.waiting] {
		if s.fingerprint == p.fingerprint && (s.bucket == p.first || s.bucket == p.second) {
			return i
		}
	}
	return -1
}

// unstash removes a fingerprint of p from the stash, and reports whether there was one.
func (f *Cuckoo) unstash(p cuckooPlace) bool {
	i := f.stashIndex(p)
	if i >= 0 {
		f.drop(i)
	}
	return i >= 0
}

// fetch moves a fingerprint from the stash to bucket, if the stash has one that belongs
// there. Requires: bucket has a free place.
func (f *Cuckoo) fetch(bucket uint64) {
	for i, s := range f.stash[:f.waiting] {
		if s.bucket == bucket || f.other(s.bucket, s.fingerprint) == bucket {
			f.replace(bucket, 0, s.fingerprint)
			f.drop(i)
			return
		}
	}
}

// drop removes entry i of the stash. The last entry takes its place.
func (f *Cuckoo) drop(i int) {
	f.waiting--
	f.stash[i] = f.stash[f.waiting]
	f.stash[f.waiting] = stashed{}
}
