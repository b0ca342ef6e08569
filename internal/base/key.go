// Package base holds the words that every layer of shale shares: internal
// keys and their order, the iterator interface, file names, the error for
// damaged files, and counters that many cores may add to at once.
package base

import (
	"bytes"
	"fmt"
	"strconv"
	"strings"
)

// A Seq is a sequence number: the position of a write in the commit order of
// its store. The first write has 1; 0 is given to entries of the last level
// whose number no reader can tell apart any more.
type Seq uint64

// MaxSeq is the largest sequence number that an internal key can hold. As the
// bound of a read it sees everything.
const MaxSeq Seq = 1<<56 - 1

// A Kind says what an entry does to its user key. The numbers are part of the
// file format and never change.
type Kind uint8

// Kinds 0 and 1 are written today. The others are reserved, so that a file
// that holds one is refused with a clear error by a program that does not know
// it: 2 range tombstone, 3 merge operand, 4 value that expires, 5 value in a
// blob file.
const (
	KindDelete Kind = 0
	KindPut    Kind = 1

	// KindMax sorts before every other kind of the same sequence number. It
	// stands in search keys only.
	KindMax Kind = 0xff
)

// String returns the short name used in text notation.
func (k Kind) String() string {
	switch k {
	case KindDelete:
		return "DEL"
	case KindPut:
		return "PUT"
	case KindMax:
		return "MAX"
	}
	return "KIND" + strconv.Itoa(int(k))
}

// A Trailer is a sequence number and a kind in one word: seq<<8 | kind.
// Of two entries of one user key the newer has the larger trailer.
type Trailer uint64

// NewTrailer packs seq and kind. Requires: seq <= MaxSeq.
func NewTrailer(seq Seq, kind Kind) Trailer { return Trailer(seq)<<8 | Trailer(kind) }

// Seq returns the sequence number.
func (t Trailer) Seq() Seq { return Seq(t >> 8) }

// Kind returns the kind.
func (t Trailer) Kind() Kind { return Kind(t) }

// An InternalKey names one version of a user key.
type InternalKey struct {
	UserKey []byte
	Trailer Trailer
}

// NewKey is shorthand for an InternalKey.
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
	for _, kind := range []Kind{KindDelete, KindPut, KindMax} {
		if kind.String() == kindName {
			return NewKey([]byte(s[:hash]), Seq(seq), kind), nil
		}
	}
	return InternalKey{}, fmt.Errorf("base: key %q: unknown kind", s)
}
