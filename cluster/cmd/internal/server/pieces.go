package server

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"time"

	"github.com/shaledb/shale"
)

// A long value is kept in pieces, so that a change of it costs as much as what it changes. The value under the name has the
// rest, and a generation: a random number that is drawn when the value is made. It is a part of the keys of the pieces. So
// whatever else comes under the name, a SET that has not looked for instance, needs not know of pieces: those of a
// generation that is no longer there are never found again, and sweep removes them.

// The sizes of pieces. Pieces of zeros are left out. Smaller ones of strings make GET and BITCOUNT dearer (64 bytes: 4 times for
// BITCOUNT), larger ones SETBIT and APPEND (4 KiB: 8 times); measured with strings of 10 MB.
const (
	filterPiece = 64
	stringPiece = 512
)

// mostHeld is how many bytes of pieces a command has in memory. It writes those that it has changed before it reads more.
const mostHeld = 4 << 20

// pieceHead is what the value under the name begins with: kind, version and generation.
const (
	pieceHead    = 1 + 1 + 8
	pieceVersion = 1
)

// A pieces reads and changes the pieces of a value within a transaction. It remembers what it has read.
//
// A transaction does not conflict over pieces: each that changes one changes the value under the name too, and has read it.
type pieces struct {
	r      shale.Reader // untracked
	w      shale.Writer // nil outside of a transaction
	prefix []byte       // of their keys
	size   uint64       // of a piece
	key    []byte
	have   map[uint32]*piece
}

type piece struct {
	bytes           []byte
	stored, changed bool // the store has it; it is to be written
}

// appendPieces appends the beginning of the keys of the pieces of a value.
func appendPieces(dst, name []byte, generation uint64) []byte {
	dst = append(binary.BigEndian.AppendUint16(append(dst, pieceSpace), uint16(len(name))), name...)
	return binary.BigEndian.AppendUint64(dst, generation)
}

func newPieces(r shale.Reader, name []byte, generation, size uint64) *pieces {
	p := &pieces{r: r, size: size, prefix: appendPieces(nil, name, generation), have: make(map[uint32]*piece)}
	if tx, ok := r.(Txn); ok {
		p.r, p.w = tx.Untracked(), tx
	}
	return p
}

// keyOf returns the key of a piece, which is valid until the next call.
func (p *pieces) keyOf(index uint32) []byte {
	p.key = binary.BigEndian.AppendUint32(append(p.key[:0], p.prefix...), index)
	return p.key
}

// at returns a piece.
func (p *pieces) at(index uint32) (*piece, error) {
	if one := p.have[index]; one != nil {
		return one, nil
	}
	one, err := p.blank(index)
	if err != nil {
		return nil, err
	}
	err = p.r.ViewValue(p.keyOf(index), func(value []byte) error {
		copy(one.bytes, value)
		one.stored = true
		return nil
	})
	if err != nil && !errors.Is(err, shale.ErrNotFound) {
		return nil, err
	}
	return one, nil
}

// blank returns a piece of zeros, in place of one that the store has not, or that was not read yet.
func (p *pieces) blank(index uint32) (*piece, error) {
	if len(p.have) >= mostHeld/int(p.size) {
		if err := p.write(); err != nil {
			return nil, err
		}
		clear(p.have)
	}
	one := &piece{bytes: make([]byte, p.size)}
	p.have[index] = one
	return one, nil
}

// set writes bytes at an offset. The store has no pieces that begin behind the first n bytes.
func (p *pieces) set(offset uint64, b []byte, n uint64) error {
	for len(b) > 0 {
		index := uint32(offset / p.size)
		get := p.at
		if uint64(index)*p.size >= n && p.have[index] == nil {
			get = p.blank
		}
		one, err := get(index)
		if err != nil {
			return err
		}
		one.changed = true
		done := copy(one.bytes[offset%p.size:], b)
		b, offset = b[done:], offset+uint64(done)
	}
	return nil
}

// write writes the pieces that were changed, and removes those of zeros.
func (p *pieces) write() (err error) {
	for index, one := range p.have {
		zeros := len(bytes.TrimLeft(one.bytes, "\x00")) == 0
		switch {
		case !one.changed || zeros && !one.stored:
			continue
		case zeros:
			err = p.w.Delete(p.keyOf(index))
		default:
			err = p.w.Put(p.keyOf(index), one.bytes)
		}
		if err != nil {
			return err
		}
		one.changed, one.stored = false, !zeros
	}
	return nil
}

// walk calls fn with the bytes of pieces from an offset to another one, a part after the other, until it returns false. Zeros
// may be left out.
func walk(it *shale.Iterator, prefix []byte, size, from, to uint64, fn func(at uint64, part []byte) bool) error {
	first := binary.BigEndian.AppendUint32(bytes.Clone(prefix), uint32(from/size))
	for ok := it.SeekGE(first); ok && bytes.HasPrefix(it.Key(), prefix); ok = it.Next() {
		at, part := uint64(binary.BigEndian.Uint32(it.Key()[len(prefix):]))*size, it.Value()
		if at >= to {
			break
		}
		part = part[:min(uint64(len(part)), to-at)]
		if at < from {
			part, at = part[min(from-at, uint64(len(part))):], from
		}
		if !fn(at, part) {
			break
		}
	}
	return it.Err()
}

// part returns the bytes from an offset to another one, which are of one moment.
func (p *pieces) part(from, to uint64) ([]byte, error) {
	dst := make([]byte, to-from)
	it := p.r.NewIterator(shale.Prefix(p.prefix))
	err := walk(it, p.prefix, p.size, from, to, func(at uint64, part []byte) bool {
		copy(dst[at-from:], part)
		return true
	})
	return dst, errors.Join(err, it.Close())
}

// drop removes the pieces of a value, if it has any.
func drop(w shale.Writer, name, value []byte) error {
	if len(value) < pieceHead || value[0] == stringKind {
		return nil
	}
	prefix := appendPieces(nil, name, binary.BigEndian.Uint64(value[2:]))
	within := shale.Prefix(prefix)
	return w.DeleteRange(within.Lower, within.Upper)
}

// Pieces that belong to no value any more are looked for from time to time: it costs a seek for each long value.
const (
	sweepEvery = 10 * time.Minute
	sweepMost  = 10_000 // values whose pieces one transaction removes
)

// sweepAlways sweeps until ctx is done.
func (s *Server) sweepAlways(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-time.After(sweepEvery):
		}
		if s.leads() {
			for n := sweepMost; n == sweepMost; {
				n, _ = s.sweep(ctx) // what it has left is found the next time
			}
		}
	}
}

// sweep removes the pieces of generations that no value has, and returns how many generations these were.
func (s *Server) sweep(ctx context.Context) (n int, err error) {
	r := s.config.Store.Local()
	var orphans [][]byte // names with a generation, as in keys of pieces
	it := r.NewIterator(shale.Range{Lower: []byte{pieceSpace}, Upper: []byte{pieceSpace + 1}, KeysOnly: true})
	for ok := it.First(); ok && ctx.Err() == nil && len(orphans) < sweepMost; {
		if len(it.Key()) < 1+2+8+4 { // none of this layout
			ok = it.Next()
			continue
		}
		prefix := append([]byte{}, it.Key()[:len(it.Key())-4]...)
		owned, err := isOwned(r, prefix)
		if err != nil {
			return 0, errors.Join(err, it.Close())
		}
		if !owned {
			orphans = append(orphans, prefix)
		}
		ok = it.SeekGE(shale.Prefix(prefix).Upper)
	}
	if err := errors.Join(it.Err(), it.Close()); err != nil || len(orphans) == 0 {
		return 0, err
	}
	err = s.config.Store.Update(ctx, func(tx Txn) error {
		for _, prefix := range orphans {
			owned, err := isOwned(tx, prefix)
			if err == nil && !owned {
				err = tx.DeleteRange(prefix, shale.Prefix(prefix).Upper)
			}
			if err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return 0, err
	}
	return len(orphans), nil
}

// isOwned reports whether a value has the generation in the beginning of keys of pieces.
func isOwned(r shale.Reader, prefix []byte) (owned bool, err error) {
	name, generation := prefix[3:len(prefix)-8], prefix[len(prefix)-8:]
	err = r.ViewValue(appendName(nil, name), func(value []byte) error {
		owned = len(value) >= pieceHead && value[0] != stringKind && string(value[2:pieceHead]) == string(generation)
		return nil
	})
	if errors.Is(err, shale.ErrNotFound) {
		err = nil
	}
	return owned, err
}
