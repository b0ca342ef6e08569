package server

import (
	"bytes"
	"context"
	"errors"
	"fmt"

	"github.com/shaledb/shale"
)

// What the store has for the keys of clients is described in docs/FORMAT.md, section 10. The first byte of a key of the
// store says what it is, the first byte of the value under a name what the name stands for.
const (
	nameSpace  = 'k' // k name: what the name stands for
	pieceSpace = 'p' // p name generation index: a piece of a long value

	stringKind = 's' // s bytes: a string
	longKind   = 'l' // l version generation ...: a long string, whose bytes are in pieces
	filterKind = 'f' // f version generation ...: a Bloom filter, whose bits are in pieces
)

// layoutKey has the mark of this layout. No key of a space begins like it.
var (
	layoutKey  = []byte("shaled")
	layoutMark = []byte("shaled layout 1\n")
)

// maxName is the longest name, in bytes: what the key of a piece leaves for it.
const maxName = shale.MaxKeySize - 16

// appendName appends the key of the store for a name.
func appendName(dst, name []byte) []byte { return append(append(dst, nameSpace), name...) }

// A refusal is an error in the words of Redis: the reply to a command that has changed nothing. Its first word is a
// code for programs; some of RedisBloom have none.
type refusal string

func (r refusal) Error() string { return string(r) }

const errWrongType = refusal("WRONGTYPE Operation against a key holding the wrong kind of value")

const errLayout = refusal("ERR this store was not written by this shaled: take an empty folder, and copy what is needed with the program that has written it")

// kindOfValue returns the kind of a value.
func kindOfValue(value []byte) (byte, error) {
	if len(value) > 0 && (value[0] == stringKind || value[0] == longKind || value[0] == filterKind) {
		return value[0], nil
	}
	return 0, unknownKind(value)
}

// unknownKind is the error for a value whose first byte, or whose version, this program does not know.
func unknownKind(value []byte) error {
	return refusal(fmt.Sprintf("ERR the value is of a kind that this shaled does not know, %q: use a newer one", value[:min(1, len(value))]))
}

// typeName returns what TYPE says of a value. The name of filters is the one that RedisBloom has registered.
func typeName(value []byte) (string, error) {
	kind, err := kindOfValue(value)
	if kind == filterKind {
		return "MBbloom--", err
	}
	return "string", err
}

// Prepare sees to it that the store has the layout of this server. An empty store gets the mark, another one without it
// is refused: its keys would be taken for something else. It is done before the first write.
func (s *Server) Prepare(ctx context.Context) error {
	if s.prepared.Load() {
		return nil
	}
	err := s.config.Store.Update(ctx, func(tx Txn) error {
		if err := checkLayout(tx); !errors.Is(err, errEmpty) {
			return err
		}
		return tx.Put(layoutKey, layoutMark)
	})
	if err == nil {
		s.prepared.Store(true)
	}
	return err
}

// mayRead reports by nil that a state has the layout of this server, or is empty.
func (s *Server) mayRead(r shale.Reader) error {
	if s.prepared.Load() {
		return nil
	}
	err := checkLayout(r)
	if errors.Is(err, errEmpty) {
		return nil
	}
	if err == nil {
		s.prepared.Store(true)
	}
	return err
}

// errEmpty says that a store has nothing yet.
var errEmpty = errors.New("the store is empty")

// checkLayout returns nil if the store has the mark, and errEmpty if it has nothing.
func checkLayout(r shale.Reader) error {
	switch mark, err := r.Get(layoutKey); {
	case err == nil && bytes.Equal(mark, layoutMark):
		return nil
	case err == nil:
		return errLayout
	case !errors.Is(err, shale.ErrNotFound):
		return err
	}
	for _, err := range r.Scan(shale.Range{KeysOnly: true, Limit: 1}) {
		if err != nil {
			return err
		}
		return errLayout
	}
	return errEmpty
}
