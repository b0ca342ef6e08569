package main

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"slices"

	"github.com/shaledb/shale"
	"github.com/shaledb/shale/bloom/compat/redisbloom"
)

// How a filter is kept. A dump would have to be written whole for each BF.ADD, so what is
// added goes to a log, as one small record a command, in the same write that the reply
// waits for. When the log has grown to the size of the filter, the filter is saved whole
// under its next generation, and the log begins again at slot 0. Each byte of log so
// causes about one byte of dump at most, and a start reads no more log than dump.
//
// Records of the log are not deleted after that. The next ones overwrite them, and what is
// left of an older generation tells so.

const (
	// pieceLen is the size of the pieces of a dump, except for the last of each link. A
	// dump in the store can be read only with this size.
	pieceLen = 64 << 10
	// batchLen is how many bytes of pieces are written together.
	batchLen = 4 << 20
	// leastLog is how long the log of a small filter may become, in bytes.
	leastLog = 256 << 10
	// recordCost is what a record costs the store besides its items, about: the key, the
	// generation and what the store adds.
	recordCost = 32
)

// A record is what the store has under f and the id of a filter:
//
//	version 1 | loading 1 | generation 8 | crc32c 4 | name
//
// The checksum is of the whole dump.
type record struct {
	loading bool
	gen     uint64
	sum     uint32
	name    string
}

const recordLen = 14

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

func (r record) encode() []byte {
	b := []byte{1, 0}
	if r.loading {
		b[1] = 1
	}
	b = binary.BigEndian.AppendUint64(b, r.gen)
	b = binary.BigEndian.AppendUint32(b, r.sum)
	return append(b, r.name...)
}

func decodeRecord(b []byte) (record, error) {
	if len(b) < recordLen || b[0] != 1 || b[1] > 1 {
		return record{}, fmt.Errorf("a filter's record of %d bytes that this server does not know", len(b))
	}
	return record{
		loading: b[1] == 1,
		gen:     binary.BigEndian.Uint64(b[2:]),
		sum:     binary.BigEndian.Uint32(b[10:]),
		name:    string(b[recordLen:]),
	}, nil
}

// saveFilter writes the filter whole, as a new generation. first, which may be nil, goes into
// the write that makes it the filter's. After an error the old generation is still there.
// Pieces of zeros only are not written. Requires: changing is held, and there are bits.
func (s *server) saveFilter(f *filter, first *shale.Batch) error {
	gen, old := f.gen+1, f.gen
	b, sum := new(shale.Batch), uint32(0)
	for at, chunk := range f.bf.Chunks() {
		sum = crc32.Update(sum, castagnoli, chunk)
		at -= int64(len(chunk))
		if at < 1 { // the header
			if err := b.Put(idKey(pieceSpace, f.id, gen, 0), chunk); err != nil {
				return err
			}
			continue
		}
		for piece := range slices.Chunk(chunk, pieceLen) {
			at += int64(len(piece))
			if !zero(piece) {
				if err := b.Put(idKey(pieceSpace, f.id, gen, uint64(at)), piece); err != nil {
					return err
				}
			}
			if b.Size() >= batchLen {
				if err := s.write(b); err != nil {
					return err
				}
				b.Reset()
			}
		}
	}
	if first != nil {
		for op := range first.Ops() {
			if err := b.Put(op.Key, op.Value); err != nil {
				return err
			}
		}
	}
	r := record{gen: gen, sum: sum, name: f.name}
	if err := errors.Join(b.Put(idKey(filterMeta, f.id), r.encode()), s.write(b)); err != nil {
		return err
	}
	f.gen, f.slots, f.logged = gen, 0, 0
	f.saveAt = max(leastLog, int64(f.shape.bytes))
	if old == 0 {
		return nil
	}
	return s.deleteRange(shale.Prefix(idKey(pieceSpace, f.id, old)))
}

func zero(p []byte) bool { return len(bytes.TrimLeft(p, "\x00")) == 0 }

// appendLog adds the record of a command to the batch. Requires: changing is held.
func (f *filter) appendLog(b *shale.Batch, items [][]byte) error {
	value := binary.BigEndian.AppendUint64(nil, f.gen)
	for _, item := range items {
		value = binary.AppendUvarint(value, uint64(len(item)))
		value = append(value, item...)
	}
	f.slots++
	f.logged += int64(len(value)) + recordCost
	return b.Put(idKey(logSpace, f.id, uint64(f.slots-1)), value)
}

// decodeLog yields the items of a record.
func decodeLog(value []byte, gen uint64, add func(item []byte) error) (current bool, err error) {
	if len(value) < 8 {
		return false, errors.New("a log record without a generation")
	}
	if binary.BigEndian.Uint64(value) != gen {
		return false, nil
	}
	for value = value[8:]; len(value) > 0; {
		n, size := binary.Uvarint(value)
		if size <= 0 || n > uint64(len(value)-size) {
			return true, errors.New("a log record that ends in an item")
		}
		if err := add(value[size : size+int(n)]); err != nil {
			return true, err
		}
		value = value[size+int(n):]
	}
	return true, nil
}

// loadFilter reads the filter from the store. If that fails, the filter has err instead of
// bits. Requires: changing and mu are held.
func (s *server) loadFilter(f *filter) {
	f.bf, f.loading, f.err, f.stale = nil, nil, nil, false
	if err := s.tryLoad(f); err != nil {
		s.logf("filter %q: %v", f.name, err)
		f.bf, f.loading, f.stale = nil, nil, true
		f.err = replyError(fmt.Sprintf("ERR the filter can't be read: %v", err))
	}
}

func (s *server) tryLoad(f *filter) error {
	value, err := s.db.Get(idKey(filterMeta, f.id))
	if err != nil {
		return err
	}
	r, err := decodeRecord(value)
	if err != nil {
		return err
	}
	f.gen, f.slots, f.logged = r.gen, 0, 0
	if r.loading {
		if err := s.loadChunks(f); err != nil {
			return err
		}
		return s.finishLoading(f) // a crash may have come between the last chunk and the save
	}
	if err := s.loadDump(f, r.sum); err != nil {
		return err
	}
	f.saveAt = max(leastLog, int64(f.shape.bytes))
	for e, err := range s.db.Scan(shale.Prefix(idKey(logSpace, f.id))) {
		if err != nil {
			return err
		}
		current, err := decodeLog(e.Value, f.gen, f.bf.Add)
		if err != nil {
			return err
		}
		if !current {
			break
		}
		f.slots++
		f.logged += int64(len(e.Value)) + recordCost
	}
	f.reshape()
	return s.deleteRange(shale.Prefix(idKey(loadSpace, f.id))) // of a crash after the save
}

// loadDump reads the pieces of the filter's generation, and deletes those that a crash has
// left of other ones.
func (s *server) loadDump(f *filter, sum uint32) error {
	var l redisbloom.Loader
	var d dumpReader
	others := false
	for e, err := range s.db.Scan(shale.Prefix(idKey(pieceSpace, f.id))) {
		if err != nil {
			return err
		}
		gen, at := binary.BigEndian.Uint64(e.Key[9:]), binary.BigEndian.Uint64(e.Key[17:])
		if gen != f.gen {
			others = true
			continue
		}
		if err := d.take(&l, at, e.Value); err != nil {
			return err
		}
	}
	if err := d.zeros(&l, d.shape.bytes+1); err != nil {
		return err
	}
	if d.sum != sum {
		return fmt.Errorf("the checksum of its dump is %08x, not %08x", d.sum, sum)
	}
	var err error
	if f.bf, err = l.Filter(); err != nil {
		return err
	}
	f.shape = d.shape
	if others {
		return errors.Join(
			s.deleteRange(shale.Range{Lower: idKey(pieceSpace, f.id), Upper: idKey(pieceSpace, f.id, f.gen)}),
			s.deleteRange(shale.Range{Lower: idKey(pieceSpace, f.id, f.gen+1), Upper: idKey(pieceSpace, f.id+1)}))
	}
	return nil
}

// A dumpReader gives a Loader the pieces of a dump, with the zeros that were left out.
type dumpReader struct {
	shape shape
	link  int    // index of the link that comes next
	left  uint64 // bytes of it that are to come
	at    uint64 // iterator of the dump
	sum   uint32
}

// take takes the next piece that was written, which ends at at. The header has 0.
func (d *dumpReader) take(l *redisbloom.Loader, at uint64, piece []byte) error {
	if at == 0 {
		var ok bool
		if d.shape, ok = shapeOf(piece); !ok {
			return errors.New("its dump has a damaged header")
		}
		d.at, d.left = 1, d.shape.links[0]
		d.sum = crc32.Update(0, castagnoli, piece)
		return l.LoadChunk(1, piece)
	}
	if err := d.zeros(l, at-uint64(len(piece))); err != nil {
		return err
	}
	return d.give(l, piece)
}

var zeroPiece [pieceLen]byte

// zeros gives the Loader zeros up to the iterator at.
func (d *dumpReader) zeros(l *redisbloom.Loader, at uint64) error {
	if len(d.shape.links) == 0 {
		return errors.New("its dump has no header")
	}
	for d.at < at {
		if err := d.give(l, zeroPiece[:min(pieceLen, d.left)]); err != nil {
			return err
		}
	}
	return nil
}

func (d *dumpReader) give(l *redisbloom.Loader, piece []byte) error {
	if uint64(len(piece)) > d.left {
		return errors.New("its dump has pieces of another size")
	}
	d.at += uint64(len(piece))
	d.sum = crc32.Update(d.sum, castagnoli, piece)
	d.left -= uint64(len(piece))
	if d.left == 0 && d.link+1 < len(d.shape.links) {
		d.link++
		d.left = d.shape.links[d.link]
	}
	return l.LoadChunk(int64(d.at), piece)
}

// loadChunks makes the Loader of a filter that BF.LOADCHUNK has begun.
func (s *server) loadChunks(f *filter) error {
	l := new(redisbloom.Loader)
	for e, err := range s.db.Scan(shale.Prefix(idKey(loadSpace, f.id))) {
		if err != nil {
			return err
		}
		if err := l.LoadChunk(int64(binary.BigEndian.Uint64(e.Key[9:])), e.Value); err != nil {
			return err
		}
	}
	f.loading = l
	return nil
}

// deleteRange deletes the keys of r. At a start there are hardly ever any, and then it writes nothing.
func (s *server) deleteRange(r shale.Range) error {
	r.KeysOnly, r.Limit = true, 1
	for _, err := range s.db.Scan(r) {
		if err != nil {
			return err
		}
		b := new(shale.Batch)
		if err := b.DeleteRange(r.Lower, r.Upper); err != nil {
			return err
		}
		return s.write(b)
	}
	return nil
}
