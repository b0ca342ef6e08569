package cluster

import (
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"hash"
	"slices"
	"sync"

	"github.com/hashicorp/raft"

	"github.com/shaledb/shale"
	"github.com/shaledb/shale/internal/base"
)

// Each member keeps a running hash of the commands that it has applied, and of its answers to them: their sum, modulo
// 2^64, of 64 bits of SHA-256 of each. It is in the state, set by the batch that has the commands. Two members that
// have applied the same commands up to an index have the same sum there. A difference stays in all later sums, so members can
// be compared at any index that both remember, as seldom as one likes.
//
// A state of an earlier version has no sum. Its member begins with 0 where it is, and then takes over the sum of one that
// has begun earlier: two sums grow by the same amount from one index to the next.
type digest struct {
	Since uint64 `json:"since"` // the index behind which the sum begins
	Index uint64 `json:"index"` // of the last command in it
	Sum   uint64 `json:"sum"`
}

// digestKey is the key of the digest in the state: since, index and sum, three integers of 64 bits, little-endian.
// Earlier versions do not look at it, and leave it behind when they go on with a state. Part of the format of the state.
var digestKey = append(reservedKey[:len(reservedKey):len(reservedKey)], 1)

const digestSize = 24

func (d digest) appendTo(dst []byte) []byte {
	for _, v := range []uint64{d.Since, d.Index, d.Sum} {
		dst = binary.LittleEndian.AppendUint64(dst, v)
	}
	return dst
}

// readDigest returns the digest of the state in db, which is at this position.
func readDigest(db *shale.DB, at position) (digest, error) {
	v, err := db.AppendValue(nil, digestKey)
	if err == nil && len(v) != digestSize {
		err = base.Corruption("", -1, "digest of the state", fmt.Errorf("%d bytes instead of %d", len(v), digestSize))
	}
	if err != nil && err != shale.ErrNotFound {
		return digest{}, err
	}
	if err == nil {
		d := digest{binary.LittleEndian.Uint64(v), binary.LittleEndian.Uint64(v[8:]), binary.LittleEndian.Uint64(v[16:])}
		if d.Index == at.index {
			return d, nil
		}
	}
	return digest{Since: at.index, Index: at.index}, nil // of an earlier version
}

const (
	markEvery = 64   // indexes at which members remember their sums
	marksKept = 1024 // the most that one remembers
)

// digests are what a store of the state remembers of its digest.
type digests struct {
	hash hash.Hash // owned by the state machine's goroutine

	mu    sync.Mutex // protects all below
	now   digest
	marks []digest // ascending; at multiples of markEvery, with the sums of the commands up to there
}

// A digesting is the digest of a batch in the making.
type digesting struct {
	from, now digest
	marks     []digest
}

// begin begins a batch.
func (d *digests) begin() digesting {
	d.mu.Lock()
	defer d.mu.Unlock()
	return digesting{from: d.now, now: d.now}
}

// add adds a command and the answer to it.
func (d *digests) add(g *digesting, entry *raft.Log, r result) {
	if mark := (entry.Index - 1) / markEvery * markEvery; mark >= g.now.Index {
		g.marks = append(g.marks, digest{g.now.Since, mark, g.now.Sum})
	}
	if d.hash == nil {
		d.hash = sha256.New()
	}
	head := binary.LittleEndian.AppendUint64(make([]byte, 0, 17+len(r.present)), entry.Index)
	head = binary.LittleEndian.AppendUint64(head, entry.Term)
	for _, yes := range append(r.present, r.inserted) {
		if head = append(head, 0); yes {
			head[len(head)-1] = 1
		}
	}
	d.hash.Reset()
	_, _ = d.hash.Write(head) // a hash never fails
	_, _ = d.hash.Write(entry.Data)
	g.now.Index = entry.Index
	g.now.Sum += binary.LittleEndian.Uint64(d.hash.Sum(head[:0]))
}

// end notes that a batch is in the store. The sum may have got another beginning meanwhile.
func (d *digests) end(g digesting) {
	d.mu.Lock()
	defer d.mu.Unlock()
	since, more := d.now.Since, d.now.Sum-g.from.Sum
	for _, m := range append(g.marks, g.now) {
		m.Since, m.Sum = since, m.Sum+more
		d.marks = append(d.marks, m)
	}
	d.now = d.marks[len(d.marks)-1]
	d.marks = d.marks[:len(d.marks)-1]
	if n := len(d.marks) - marksKept; n > 0 {
		d.marks = append(d.marks[:0], d.marks[n+marksKept/2:]...)
	}
}

// last returns the digest as it is, and the newest mark.
func (d *digests) last() []digest {
	d.mu.Lock()
	defer d.mu.Unlock()
	return append([]digest{d.now}, d.marks[max(0, len(d.marks)-1):]...)
}

// compare compares the sums with those of another member, at an index that both remember; known reports whether
// there is one. Of two sums with different beginnings this one takes over the other's, if that is earlier.
func (d *digests) compare(others []digest) (same, known bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, other := range others {
		own := d.now
		if own.Index != other.Index {
			i, found := slices.BinarySearchFunc(d.marks, other.Index, func(m digest, index uint64) int { return cmp.Compare(m.Index, index) })
			if !found {
				continue
			}
			own = d.marks[i]
		}
		if own.Since == other.Since {
			return own.Sum == other.Sum, true
		}
		if other.Since < own.Since {
			for i := range d.marks {
				d.marks[i].Since, d.marks[i].Sum = other.Since, d.marks[i].Sum+other.Sum-own.Sum
			}
			d.now.Since, d.now.Sum = other.Since, d.now.Sum+other.Sum-own.Sum
		}
	}
	return false, false
}

// sameDigest reports whether two members have the same sum at an index of which both have told.
func sameDigest(a, b []digest) bool {
	return slices.ContainsFunc(a, func(d digest) bool { return slices.Contains(b, d) })
}
