package server

import (
	"bytes"
	"encoding/binary"
	"errors"
	"math"
	"math/rand/v2"

	"github.com/shaledb/shale"
	"github.com/shaledb/shale/bloom/compat/redisbloom"
)

// A filter is a Bloom filter with the commands of RedisBloom. Its bits are kept in pieces, and each link begins with a new piece.
// Between commands nothing of it is in memory. The value under its name is
//
//	kind 1 | version 1 | generation 8 | next 8 | header
//
// where next is the iterator of the next chunk while BF.LOADCHUNK brings them, and then 0. In version 1 all is as in RedisBloom, and
// the header is that of its dumps. In version 2 all bits of an item in a link are in one piece, and the header has a byte more, so that
// RedisBloom refuses the dump. Integers are big-endian, in the header little-endian.
type filter struct {
	*pieces
	name       []byte
	generation uint64
	next       uint64
	shape      redisbloom.Shape
	made       bool // by this transaction
	changed    bool // and not written yet
}

const (
	filterHead   = pieceHead + 8
	linesVersion = 2
)

// mostLinks is a limit of this server. Every question asks each link.
const mostLinks = 1000

// What RedisBloom answers when something is wrong with a filter.
const (
	errMissing = refusal("ERR not found")
	errExists  = refusal("ERR item exists")
	errFull    = refusal("ERR non scaling filter is full")
	errInsert  = refusal("ERR problem inserting into filter")
	errCreate  = refusal("ERR could not create filter")
	errBadData = refusal("ERR received bad data")
	errLoading = refusal("ERR the filter is being loaded: BF.LOADCHUNK has not brought its last chunk")
)

// findFilter returns the filter of a name, also one that is being loaded, or errMissing or errWrongType.
func (c *client) findFilter(r shale.Reader, name []byte) (*filter, error) {
	if k, ok := r.(*keeper); ok && k.f != nil {
		return k.f, nil // it is that of the name
	}
	value, err := c.lookUp(r, name)
	switch {
	case err != nil:
		return nil, err
	case value == nil:
		return nil, errMissing
	}
	switch kind, err := kindOfValue(value); {
	case err != nil:
		return nil, err
	case kind != filterKind:
		return nil, errWrongType
	case len(value) < filterHead || value[1] != pieceVersion && value[1] != linesVersion:
		return nil, unknownKind(value)
	}
	f := &filter{name: name, generation: binary.BigEndian.Uint64(value[2:]), next: binary.BigEndian.Uint64(value[pieceHead:])}
	if f.shape, err = redisbloom.ParseShape(value[filterHead:]); err != nil {
		return nil, err
	}
	f.pieces = newPieces(r, name, f.generation, filterPiece)
	return f, nil
}

// usableFilter is findFilter of a filter that has all its bits.
func (c *client) usableFilter(r shale.Reader, name []byte) (*filter, error) {
	f, err := c.findFilter(r, name)
	if err == nil && f.next != 0 {
		return nil, errLoading
	}
	return f, err
}

// newFilter returns an empty filter that is not written yet.
func newFilter(tx Txn, name []byte, shape redisbloom.Shape) *filter {
	f := &filter{name: name, generation: rand.Uint64(), shape: shape, made: true, changed: true}
	f.pieces = newPieces(tx, name, f.generation, filterPiece)
	return f
}

// A keeper is a transaction with the filter that its last command was on, if that may be followed by others on it: they read and
// write its header and pieces once. Whatever else comes has it saved before.
type keeper struct {
	Txn
	f *filter
}

// do does a command that writes.
func (k *keeper) do(c *client, call call) error {
	if !call.t.Do.keeps || k.f != nil && !bytes.Equal(k.f.name, call.args[0]) {
		if err := k.save(c); err != nil {
			return err
		}
	}
	if call.t.Do.keeps {
		return c.update(k, call)
	}
	return c.update(k.Txn, call)
}

// save saves the filter, if it has changed, and forgets it.
func (k *keeper) save(c *client) error {
	f := k.f
	k.f = nil
	if f == nil || !f.changed {
		return nil
	}
	return f.save(c, k.Txn)
}

// save writes what has changed. If the value has a time to live it keeps it.
func (f *filter) save(c *client, tx Txn) error {
	version := byte(pieceVersion)
	if f.shape.Lines() {
		version = linesVersion
	}
	value := append(c.value[:0], filterKind, version)
	value = binary.BigEndian.AppendUint64(value, f.generation)
	value = append(binary.BigEndian.AppendUint64(value, f.next), f.shape.Header()...)
	c.value = value
	var e expiry
	var err error
	if !f.made {
		e.until, err = tx.ExpiresAt(c.nameKey(f.name))
	}
	return errors.Join(err, f.write(), c.putValue(tx, f.name, value, e))
}

// firstPiece returns the index of the first piece of a link, or of what would follow the last one. ok is false if the index
// has more than 32 bits.
func (f *filter) firstPiece(link int) (index uint32, ok bool) {
	n := uint64(0)
	for i := range link {
		if n += (f.shape.LinkBytes(i) + filterPiece - 1) / filterPiece; n > math.MaxUint32 {
			return 0, false
		}
	}
	return uint32(n), true
}

// fits reports whether the filter is one that this server keeps.
func (f *filter) fits() bool {
	_, ok := f.firstPiece(f.shape.Links())
	return ok && f.shape.Links() <= mostLinks
}

// bits calls fn for each bit of an item in a link, until it returns false.
func (f *filter) bits(link int, item []byte, fn func(one *piece, at uint64, bit byte) bool) error {
	first, _ := f.firstPiece(link)
	var one *piece
	last := uint32(0)
	for n := range f.shape.Positions(link, item) {
		if index := first + uint32(n/(8*filterPiece)); one == nil || index != last {
			var err error
			if one, err = f.at(index); err != nil {
				return err
			}
			last = index
		}
		if !fn(one, n/8%filterPiece, 1<<(n%8)) {
			break
		}
	}
	return nil
}

// has reports whether an item may be in the filter. It asks the newest link first, as RedisBloom does.
func (f *filter) has(item []byte) (all bool, err error) {
	for link := f.shape.Links() - 1; link >= 0 && !all && err == nil; link-- {
		all = true
		err = f.bits(link, item, func(one *piece, at uint64, bit byte) bool {
			all = one.bytes[at]&bit != 0
			return all
		})
	}
	return all && err == nil, err
}

// add adds an item, and reports whether it was new. After a refusal nothing has changed; after another error the filter must
// not be saved.
func (f *filter) add(item []byte) (isNew bool, err error) {
	if has, err := f.has(item); has || err != nil {
		return false, err
	}
	links := f.shape.Links()
	if err := f.shape.Count(); errors.Is(err, redisbloom.ErrFull) {
		return false, errFull
	} else if err != nil {
		return false, errInsert
	}
	if f.shape.Links() > links && !f.fits() {
		f.shape.Uncount()
		return false, errCreate // of the link
	}
	f.changed = true
	return true, f.bits(f.shape.Links()-1, item, func(one *piece, at uint64, bit byte) bool {
		one.bytes[at] |= bit
		one.changed = true
		return true
	})
}

// placeOf returns the offset in all pieces at which the iterator of a dump stands, and how many bytes the link has from there:
// 0 behind the end.
func (f *filter) placeOf(iterator uint64) (offset, left uint64) {
	at := iterator - 1
	for link := range f.shape.Links() {
		n := f.shape.LinkBytes(link)
		if at < n {
			first, _ := f.firstPiece(link)
			return uint64(first)*filterPiece + at, n - at
		}
		at -= n
	}
	return 0, 0
}
