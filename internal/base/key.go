// Package base holds what all layers of shale share: internal keys and
// their order, the iterator interface, the names of files, the error for
// damaged files, and counters that many cores may add to at the same time.
package base

import (
	"bytes"
	"fmt"
	"strconv"
	"strings"
)

// A Seq is a sequence number: the position of a write in the order in which
// its store commits writes. The first write has number 1. Entries get
// number 0 in a compaction when no reader can notice their number any more.
type Seq uint64

// MaxSeq is the largest sequence number that fits into
// an internal key. A read at MaxSeq sees every entry.
const MaxSeq Seq = 1<<56 - 1

// A Kind says what an entry does to its user key. The
// numbers are part of the file format and never change.
type Kind uint8

// Tables have kinds 0, 1 and 4. The log also has 2 for range deletes, and 6 for the mark of an
// ingestion. The numbers 3 and 5 are reserved: 3 for merge operands, 5
// for values in a blob file. A program that does not know a kind refuses a file that has it, with
// a clear error.
const (
	KindDelete      Kind = 0
	KindPut         Kind = 1
	KindRangeDelete Kind = 2 // of a batch; no table has it
	// KindExpiring is a put whose value begins with the time at which it is over: see CutExpiry.
	KindExpiring Kind = 4

	// KindMax comes before all other kinds of the same
	// sequence number. It is used only in keys for searches.
	KindMax Kind = 0xff
)

// String returns the short name that the text notation uses.
func (k Kind) String() string {
	switch k {
	case KindDelete:
		return "DEL"
	case KindPut:
		return "PUT"
	case KindExpiring:
		return "TTL"
	case KindMax:
		return "MAX"
	}
	return "KIND" + strconv.Itoa(int(k))
}

// A Trailer is a sequence number and a kind in one word: seq<<8 | kind.
// Of two entries of one user key, the newer one has the larger trailer.
type Trailer uint64

// NewTrailer returns the trailer for seq and kind. Requires: seq <= MaxSeq.
func NewTrailer(seq Seq, kind Kind) Trailer { return Trailer(seq)<<8 | Trailer(kind) }

// Seq returns the sequence number.
func (t Trailer) Seq() Seq { return Seq(t >> 8) }

// Kind returns the kind.
func (t Trailer) Kind() Kind { return Kind(t) }

// An InternalKey identifies one version of a user key.
type InternalKey struct {
	UserKey []byte
	Trailer Trailer
}

// NewKey returns an InternalKey. Requires: seq <= MaxSeq.
func NewKey(key []byte, seq Seq, kind Kind) InternalKey {
	return InternalKey{UserKey: key, Trailer: NewTrailer(seq, kind)}
}

// Seq returns the key's sequence number.
func (k InternalKey) Seq() Seq { return k.Trailer.Seq() }

// Kind returns the key's kind.
func (k InternalKey) Kind() Kind { return k.Trailer.Kind() }

// Compare orders internal keys: user keys bytewise ascending, then trailers
// descending, so that the newest version of a user key comes first.
func Compare(a, b InternalKey) int {
	if c := bytes.Compare(a.UserKey, b.UserKey); c != 0 {
		return c
	}
	switch {
	case a.Trailer > b.Trailer:
		return -1
	case a.Trailer < b.Trailer:
		return 1
	}
	return 0
}

// String returns the notation that tests and tools use: b#7,DEL.
func (k InternalKey) String() string {
	return fmt.Sprintf("%s#%d,%s", k.UserKey, k.Seq(), k.Kind())
}

// ParseKey reads the notation of String, for tests and tools.
func ParseKey(s string) (InternalKey, error) {
	hash := strings.LastIndexByte(s, '#')
	if hash < 0 {
		return InternalKey{}, fmt.Errorf("base: key %q has no #", s)
	}
	num, kindName, ok := strings.Cut(s[hash+1:], ",")
	if !ok {
		return InternalKey{}, fmt.Errorf("base: key %q has no kind", s)
	}
	seq, err := strconv.ParseUint(num, 10, 56)
	if err != nil {
		return InternalKey{}, fmt.Errorf("base: key %q: %w", s, err)
	}
	for _, kind := range []Kind{KindDelete, KindPut, KindExpiring, KindMax} {
		if kind.String() == kindName {
			return NewKey([]byte(s[:hash]), Seq(seq), kind), nil
		}
	}
	return InternalKey{}, fmt.Errorf("base: key %q: unknown kind", s)
}
