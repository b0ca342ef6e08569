package cluster

import (
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"errors"
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
type digest struct {
	Since uint64 `json:"since"` // the index behind which the sum begins: where the group's state was first
	Index uint64 `json:"index"` // of the last command in it
	Sum   uint64 `json:"sum"`
}

// digestKey is the key of the digest in the state: since, index and sum, three integers of 64 bits, little-endian.
// Part of the format of the state.
var digestKey = append(reservedKey[:len(reservedKey):len(reservedKey)], 1)

// digestSize is three integers of 8 bytes.
const digestSize = 24

// appendTo appends the digest as the state has it under digestKey.
func (d digest) appendTo(dst []byte) []byte {
	for _, v := range []uint64{d.Since, d.Index, d.Sum} {
		dst = binary.LittleEndian.AppendUint64(dst, v)
	}
	return dst
}

// readDigest returns the digest of the state in db, which is at this position.
func readDigest(db *shale.DB, at position) (digest, error) {
	v, err := db.AppendValue(nil, digestKey)
	switch {
	case errors.Is(err, shale.ErrNotFound): // no command yet
		return digest{Since: at.index, Index: at.index}, nil
	case err != nil:
		return digest{}, err
	case len(v) != digestSize:
		return digest{}, base.Corruption("", -1, "digest of the state", fmt.Errorf("%d bytes instead of %d", len(v), digestSize))
	}
	return digest{binary.LittleEndian.Uint64(v), binary.LittleEndian.Uint64(v[8:]), binary.LittleEndian.Uint64(v[16:])}, nil
}

const (
	// Members are seldom at the same index when they are compared. So each remembers its sums at
	// the same indexes, and those of the last 65,536 entries at most: 24 bytes each.
	markEvery = 64   // indexes at which members remember their sums
	marksKept = 1024 // the most that one remembers
)

// digests are what a store of the state remembers of its digest. The commands of a batch count before it is written: if
// that fails, the member ends.
type digests struct {
	hash hash.Hash // owned by the state machine's goroutine

	mu    sync.Mutex // protects all below; the state machine's goroutine alone changes them
	now   digest
	marks []digest // ascending; at multiples of markEvery, with the sums of the commands up to there
}

// add adds a command and the answer to it.
//
// The sum does not depend on how commands were put together into batches, because each command is
// hashed for itself. It does depend on index, term, bytes and answer, so a command that is left
// out, repeated, replaced or decided differently changes it.
func (d *digests) add(entry *raft.Log, r result) {
	if d.hash == nil {
		d.hash = sha256.New()
	}
	head := binary.LittleEndian.AppendUint64(make([]byte, 0, 17+len(r.Present)), entry.Index)
	head = binary.LittleEndian.AppendUint64(head, entry.Term)
	for _, yes := range append(r.Present, r.Done) {
		if head = append(head, 0); yes {
			head[len(head)-1] = 1
		}
	}
	if r.Lost > 0 {
		head = binary.AppendUvarint(head, uint64(r.Lost))
	}
	d.hash.Reset()
	_, _ = d.hash.Write(head) // a hash never fails
	_, _ = d.hash.Write(entry.Data)
	d.mu.Lock()
	defer d.mu.Unlock()
	// Entries that are no commands never get here, so the index of a mark may lie between two
	// commands. The sum there is that of all commands before.
	if mark := (entry.Index - 1) / markEvery * markEvery; mark >= d.now.Index {
		d.marks = append(d.marks, digest{d.now.Since, mark, d.now.Sum})
		if len(d.marks) > marksKept {
			d.marks = append(d.marks[:0], d.marks[marksKept/2:]...)
		}
	}
	d.now.Index = entry.Index
	d.now.Sum += binary.LittleEndian.Uint64(d.hash.Sum(head[:0]))
}

// last returns the digest as it is, and the newest mark.
func (d *digests) last() []digest {
	d.mu.Lock()
	defer d.mu.Unlock()
	return append([]digest{d.now}, d.marks[max(0, len(d.marks)-1):]...)
}

// compare compares the sums with those of another member, at an index that both remember; known reports whether
// there is one.
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
	}
	return false, false
}

// sameDigest reports whether two members have the same sum at an index of which both have told.
func sameDigest(a, b []digest) bool {
	return slices.ContainsFunc(a, func(d digest) bool { return slices.Contains(b, d) })
}
