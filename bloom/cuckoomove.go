package bloom

import "math/bits"

// lanes are four fingerprints side by side in a word, the first lowest, and what
// may be above them.
type lanes struct {
	width uint64 // bits of a fingerprint
	most  uint64 // the largest fingerprint
	ones  uint64 // the lowest bit of each
	highs uint64 // the highest bit of each
}

func lanesOf(width int) lanes {
	w := uint64(width)
	ones := 1 | uint64(1)<<w | 1<<(2*w) | 1<<(3*w)
	return lanes{width: w, most: 1<<w - 1, ones: ones, highs: ones << (w - 1)}
}

// bytes is the size of a bucket.
func (l *lanes) bytes() uint64 { return l.width / 2 }

// zeros has a bit for the lowest fingerprint of places that is equal to this one,
// its highest, and none if there is none. Bits above that one mean nothing.
func (l *lanes) zeros(places, fingerprint uint64) uint64 {
	x := places ^ fingerprint*l.ones
	return (x - l.ones) &^ x & l.highs
}

// has tells whether one of places is this fingerprint.
func (l *lanes) has(places, fingerprint uint64) bool { return l.zeros(places, fingerprint) != 0 }

// find returns where in places the first of such a fingerprint begins.
func (l *lanes) find(places, fingerprint uint64) (at uint64, found bool) {
	z := l.zeros(places, fingerprint)
	return uint64(bits.TrailingZeros64(z)) + 1 - l.width, z != 0
}

// full tells whether all four places are this fingerprint.
func (l *lanes) full(places, fingerprint uint64) bool {
	return (places^fingerprint*l.ones)<<(64-bucketSlots*l.width) == 0
}

// makeRoom adds a fingerprint whose buckets are full, and reports whether it
// could. It puts it in place of one of the others, that one in place of one in its
// other bucket, and so on, until one finds a free place. Which one goes is drawn
// from the key's hash, so that the same additions make the same table everywhere.
//
// If none does, the last one goes to the stash; if that is full, all go back.
func (f *Cuckoo) makeRoom(p cuckooPlace, h uint64) bool {
	if f.lanes.full(f.load(p.first), p.fingerprint) && f.lanes.full(f.load(p.second), p.fingerprint) {
		return false // copies of one key are not to fill the stash
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

// swap puts a fingerprint in a place of the bucket that chance draws, and returns
// the one that was there.
func (f *Cuckoo) swap(bucket, chance, fingerprint uint64) uint64 {
	at := finish(chance) >> 62 * f.lanes.width
	places := f.load(bucket)
	old := places >> at & f.lanes.most
	f.store(bucket, places^(old^fingerprint)<<at)
	return old
}

// stashIndex returns where in the stash a fingerprint for these buckets is, or -1.
// An entry's second bucket follows from its first: if it is either of p's, both
// are.
func (f *Cuckoo) stashIndex(p cuckooPlace) int {
	for i, s := range f.stash[:f.waiting] {
		if s.fingerprint == p.fingerprint && (s.bucket == p.first || s.bucket == p.second) {
			return i
		}
	}
	return -1
}

// unstash takes a fingerprint for these buckets out of the stash, and reports
// whether there was one.
func (f *Cuckoo) unstash(p cuckooPlace) bool {
	i := f.stashIndex(p)
	if i >= 0 {
		f.drop(i)
	}
	return i >= 0
}

// fetch moves a fingerprint from the stash to a bucket that has a free place.
func (f *Cuckoo) fetch(bucket uint64) {
	for i, s := range f.stash[:f.waiting] {
		if s.bucket == bucket || f.other(s.bucket, s.fingerprint) == bucket {
			f.replace(bucket, 0, s.fingerprint)
			f.drop(i)
			return
		}
	}
}

// drop takes out entry i of the stash.
func (f *Cuckoo) drop(i int) {
	f.waiting--
	f.stash[i] = f.stash[f.waiting]
	f.stash[f.waiting] = stashed{}
}
