package bloom

import (
	"errors"
	"fmt"
	"sync"

	"github.com/shaledb/shale/bloom/internal/form"
)

// A HashFunc is the hash function of a filter that takes 128 bits of hash: a Hasher, or a
// function of the caller's own, with the id that serialized forms name it by. The zero
// HashFunc is Murmur3. Several goroutines may use one at once.
type HashFunc struct {
	hasher Hasher
	own    *ownHash // nil: the function is hasher
}

// An ownHash is a function that the caller brought. Go cannot compare functions.
// So two filters are known to have the same one only if they share the ownHash, or
// if both give it the same id.
type ownHash struct {
	hash Hash128
	id   HashID // 0 for none; such a filter cannot be serialized
}

// NewHashFunc returns own, or hasher if own is nil. id is the id of own, from
// [FirstOwnHashID] up, or 0 if it has none; see [FilterOptions], which has the same three. The
// error names the one that does not go with the others.
func NewHashFunc(hasher Hasher, own Hash128, id HashID) (HashFunc, error) {
	switch {
	case own == nil && id == 0:
		return HashFunc{hasher: hasher}, nil
	case own == nil:
		return HashFunc{}, fmt.Errorf("bloom: new filter: HashID is %d, of no Hash", id)
	case hasher != Hasher{}:
		return HashFunc{}, errors.New("bloom: new filter: both Hash and Hasher")
	case id != 0 && id < FirstOwnHashID:
		return HashFunc{}, fmt.Errorf("bloom: new filter: HashID is %d, below %d", id, FirstOwnHashID)
	}
	return HashFunc{own: &ownHash{hash: own, id: id}}, nil
}

// Hash128 returns the hash of key. It keeps nothing of key, and allocates nothing.
func (h *HashFunc) Hash128(key []byte) (h1, h2 uint64) {
	if h.own != nil {
		return h.own.of(key)
	}
	return h.hasher.Hash128(key)
}

// scratch holds buffers, as *[]byte, for the copies of keys that own functions hash.
var scratch = sync.Pool{New: func() any { return new([]byte) }}

// of hashes a copy of key. The compiler does not know what the function does with its
// argument, and would move it to the heap. Without the copy, every caller's key would go
// there, even if the filter hashes with a function of this package.
func (o *ownHash) of(key []byte) (h1, h2 uint64) {
	b := scratch.Get().(*[]byte)
	*b = append((*b)[:0], key...)
	h1, h2 = o.hash(*b)
	if cap(*b) <= form.MaxScratch {
		scratch.Put(b)
	}
	return h1, h2
}

// Same reports whether two filters are known to have the same hash function.
func (h *HashFunc) Same(other *HashFunc) bool {
	switch {
	case h.own == other.own:
		return h.hasher == other.hasher
	case h.own == nil || other.own == nil:
		return false
	}
	return h.own.id != 0 && h.own.id == other.own.id
}

// ID returns the id for the serialized form. It is 0 if the function has none.
func (h *HashFunc) ID() HashID {
	if h.own != nil {
		return h.own.id
	}
	return h.hasher.ID()
}

// Hasher returns the Hasher, which is the zero Hasher if the function is the caller's own.
func (h *HashFunc) Hasher() Hasher { return h.hasher }

// Named returns the function that a serialized form names by this id and seed: h itself if
// it is the caller's own and has the id, or the Hasher. The error is [ErrUnknown].
func (h *HashFunc) Named(id HashID, seed uint64) (HashFunc, error) {
	if h.own != nil && h.own.id == id && id >= FirstOwnHashID && seed == 0 {
		return HashFunc{own: h.own}, nil
	}
	hasher, err := NewHasher(id, seed)
	if err != nil {
		return HashFunc{}, fmt.Errorf("bloom: open filter: %w", err)
	}
	return HashFunc{hasher: hasher}, nil
}
