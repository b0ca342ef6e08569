package server

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"

	"github.com/shaledb/shale"
)

// A string that grows above inlineMost bytes by a command that changes a part of it, such as SETBIT and APPEND, is kept in
// pieces. So another change costs as much as what it changes, zeros that nobody has written take no room, and a string
// may have 512 MiB. The value under its name is
//
//	kind 1 | version 1 | generation 8 | length 8 | changes 8
//
// where changes counts up with each change: transactions that change different pieces conflict over it, and WATCH sees it.
const (
	longLen    = pieceHead + 8 + 8
	inlineMost = 4 << 10
	mostString = 512 << 20 // as in Redis
)

const errLongest = refusal("ERR string exceeds maximum allowed size (proto-max-bulk-len)")

// A longHead is what the value under the name of a long string has.
type longHead struct{ generation, length, changes uint64 }

// A text is a string as it was at one moment. The zero value is none.
type text struct {
	found, isLong bool
	short         []byte // of one that is not long
	longHead

	// Of a long one: its pieces, and an iterator that sees those of the moment; nil: they don't change meanwhile.
	*pieces
	from *shale.Iterator
}

// textOf returns the string in a value, with its bytes unless it is long.
func textOf(value []byte) (t text, err error) {
	switch kind, err := kindOfValue(value); {
	case err != nil:
		return t, err
	case kind == stringKind:
		return text{found: true, short: value[1:]}, nil
	case kind != longKind:
		return t, errWrongType
	case len(value) != longLen || value[1] != pieceVersion:
		return t, unknownKind(value)
	}
	word := func(at int) uint64 { return binary.BigEndian.Uint64(value[at:]) }
	return text{found: true, isLong: true, longHead: longHead{word(2), word(pieceHead), word(pieceHead + 8)}}, nil
}

// size returns the number of bytes.
func (t *text) size() uint64 {
	if t.isLong {
		return t.length
	}
	return uint64(len(t.short))
}

// onString returns a command that reads a string.
func onString(fn func(c *client, t *text, args [][]byte) error) func(*client, shale.Reader, [][]byte) error {
	return func(c *client, r shale.Reader, args [][]byte) error {
		var t text
		err := r.ViewValue(c.nameKey(args[0]), func(value []byte) (err error) {
			if t, err = textOf(value); err != nil || t.isLong {
				return err
			}
			return fn(c, &t, args)
		})
		switch {
		case errors.Is(err, shale.ErrNotFound):
			return fn(c, new(text), args)
		case err != nil || !t.isLong:
			return err
		}
		it := moment(r)
		if t, err = c.textAt(it, args[0]); err == nil {
			err = fn(c, &t, args)
		}
		return errors.Join(err, it.Close())
	}
}

// moment returns an iterator over what all names stand for, whose pieces are those of the same moment.
func moment(r shale.Reader) *shale.Iterator {
	if tx, ok := r.(Txn); ok {
		r = tx.Untracked() // the value under the name was read before
	}
	return r.NewIterator(shale.Range{Lower: []byte{nameSpace}, Upper: []byte{pieceSpace + 1}})
}

// textAt returns the string of a name at the moment of an iterator.
func (c *client) textAt(it *shale.Iterator, name []byte) (t text, err error) {
	key := c.nameKey(name)
	if !it.SeekGE(key) || !bytes.Equal(it.Key(), key) {
		return t, it.Err()
	}
	if t, err = textOf(bytes.Clone(it.Value())); t.isLong {
		t.pieces, t.from = newPieces(nil, name, t.generation, stringPiece), it
	}
	return t, err
}

// textUnder returns the string under a name, which is valid until the next lookup, for a command that may change it.
func (c *client) textUnder(tx Txn, name []byte) (t text, err error) {
	old, err := c.lookUp(tx, name)
	if err != nil {
		return t, err
	}
	return textIn(tx, name, old)
}

// endOf returns until when a string is there.
func (c *client) endOf(tx Txn, name []byte, t *text) (e expiry, err error) {
	if t.found {
		e.until, err = tx.ExpiresAt(c.nameKey(name))
	}
	return e, err
}

// textIn returns the string in a value that a transaction has found under a name; nil: it has found none.
func textIn(tx Txn, name, value []byte) (t text, err error) {
	if value == nil {
		return t, nil
	}
	if t, err = textOf(value); t.isLong {
		t.pieces = newPieces(tx, name, t.generation, stringPiece)
	}
	return t, err
}

// walk calls fn with the bytes from an offset to another one, a part after the other, until it returns false. Zeros may be
// left out.
func (t *text) walk(from, to uint64, fn func(at uint64, part []byte) bool) error {
	if !t.isLong {
		if from < to {
			fn(from, t.short[from:to])
		}
		return nil
	}
	if t.from != nil {
		return walk(t.from, t.prefix, stringPiece, from, to, fn)
	}
	it := t.r.NewIterator(shale.Prefix(t.prefix))
	return errors.Join(walk(it, t.prefix, stringPiece, from, to, fn), it.Close())
}

// part returns the bytes from an offset to another one, which are valid as long as t.
func (t *text) part(c *client, from, to uint64) ([]byte, error) {
	switch {
	case !t.isLong:
		return t.short[from:to], nil
	case to-from > uint64(c.s.config.MaxReply):
		return nil, refusal(fmt.Sprintf("ERR these are %d bytes, and a reply has at most %d: use GETRANGE for parts", to-from, c.s.config.MaxReply))
	}
	s := make([]byte, to-from)
	return s, t.walk(from, to, func(at uint64, part []byte) bool {
		copy(s[at-from:], part)
		return true
	})
}

// is reports whether it is a string of these bytes.
func (t *text) is(c *client, b []byte) (bool, error) {
	if !t.found || t.size() != uint64(len(b)) {
		return false, nil
	}
	s, err := t.part(c, 0, t.size())
	return bytes.Equal(s, b), err
}

// writeAt writes bytes into a string, which is made longer if it has to be. A time to live stays.
func (c *client) writeAt(tx Txn, name []byte, t *text, offset uint64, b []byte) (length uint64, err error) {
	if length = max(t.size(), offset+uint64(len(b))); length > mostString {
		return 0, errLongest
	}
	e, err := c.endOf(tx, name, t)
	if err != nil {
		return 0, err
	}
	if !t.isLong && length <= inlineMost {
		s := make([]byte, length)
		copy(s, t.short)
		copy(s[offset:], b)
		return length, c.put(tx, name, s, e)
	}
	head, p := t.longHead, t.pieces
	if !t.isLong {
		head.generation = rand.Uint64()
		p = newPieces(tx, name, head.generation, stringPiece)
		if err := p.set(0, t.short, 0); err != nil {
			return 0, err
		}
	}
	if err := p.set(offset, b, t.size()); err != nil {
		return 0, err
	}
	if err := p.write(); err != nil {
		return 0, err
	}
	value := binary.BigEndian.AppendUint64([]byte{longKind, pieceVersion}, head.generation)
	value = binary.BigEndian.AppendUint64(value, length)
	value = binary.BigEndian.AppendUint64(value, head.changes+1)
	return length, c.putValue(tx, name, value, e)
}
