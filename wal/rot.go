package wal

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"math/bits"

	"github.com/shaledb/shale/internal/base"
	"github.com/shaledb/shale/internal/syndrome"
)

// This file distinguishes rot from a torn end, in the place where no record says that the log
// was synced: the last record.
//
// A crash that cuts a write short leaves older bytes: in whole sectors, or from some byte to
// the end of a sector, if the sector was on its way to the disk while the write went on. It
// does not change a few bits. So a record is damaged, and not torn, if two things hold: a few
// changed bits explain why it does not check, and older bytes can't be the reason for these
// bits.
//
//  1. damagedRecord looks for the error: the few bits that, changed back, make the record
//     check. explain tries this for each fragment of the record.
//  2. If there is none, inOneSector accepts a record that is within one sector.
//  3. before looks at what follows the record, to learn what was in its place: zeros, or an
//     older log.
//  4. couldBeTorn decides whether a torn write explains the record as well.
//
// docs/FORMAT.md, "Rot at the end of a log", has the rule and what it can't decide.

const (
	sectorSize = syndrome.SectorSize
	// maxJudged limits how often one Read calls rot, which takes some milliseconds for a
	// large fragment.
	maxJudged = 16
)

// A damaged is a fragment that does not check, with the smallest error that explains why.
type damaged struct {
	fragment       // kind and offset as they were written; the content as it is in the file
	syndrome.Piece // the bytes as they are in the file, with the fragment's header
	flips          []syndrome.Flip
	class          uint64 // how many errors are as small as this one: the more, the less it proves
	seqFrom, seqTo int    // where the last sequence number is in it; 0: it has none
}

// rot returns what is wrong with the record behind the last one that checks, if that record
// was written whole and then damaged. It returns nil if a torn write may have left these
// bytes.
func (r *reader) rot() (cause, err error) {
	if r.judged++; r.judged > maxJudged {
		return nil, nil
	}
	d, err := r.damagedRecord()
	if d == nil && err == nil {
		d, err = r.inOneSector()
	}
	if d == nil || err != nil {
		return nil, err
	}
	torn, err := r.couldBeTorn(d)
	if torn || err != nil {
		return nil, err
	}
	if len(d.flips) == 0 {
		return errors.New("checksum mismatch in a record within one sector, of which nothing is torn"), nil
	}
	f := d.flips[0]
	return fmt.Errorf("checksum mismatch: it matches if byte %d is not %#02x but %#02x, and a torn write does not leave that",
		d.off+int64(f.Pos), d.Bytes[f.Pos], d.Bytes[f.Pos]^f.Mask), nil
}

// damagedRecord returns the damaged fragment of the record behind the last one that checks,
// with the error that explains it. It moves the scanner behind the record. It returns nil if
// there is no such record, or if more than one of its fragments is damaged.
func (r *reader) damagedRecord() (d *damaged, err error) {
	s := &r.scan
	if err := seekRecord(s, r.result.Length); err != nil {
		return nil, noEOF(err)
	}
	start := s.offset()
	for first := true; ; first = false {
		f, ok, err := s.next()
		if err != nil {
			return nil, noEOF(err)
		}
		if !ok {
			if d != nil {
				return nil, nil
			}
			if d = r.explain(first); d == nil {
				return nil, nil
			}
			d.Bytes = bytes.Clone(d.Bytes) // a copy, because the next fragment is in another block
			f = d.fragment
			s.pos += fragmentSize + len(f.content)
		}
		switch {
		case f.starts() != first || first && d == nil && !r.plausible(f.record(), start):
			return nil, nil
		case f.kind != kindFirst && f.kind != kindMiddle:
			return d, nil
		}
	}
}

// inOneSector returns the record behind the last one that checks if it seems to be one
// fragment within one sector. It moves the scanner behind the record. It is for records that
// no small error explains.
func (r *reader) inOneSector() (*damaged, error) {
	s := &r.scan
	if err := seekRecord(s, r.result.Length); err != nil {
		return nil, noEOF(err)
	}
	off, b := s.offset(), s.block[s.pos:]
	if !s.skipTagged() {
		return nil, nil
	}
	b = b[:s.offset()-off]
	d := &damaged{fragment: fragment{kind: kindFull, off: off, content: b[fragmentSize:]}, Piece: syndrome.Piece{Off: off, Bytes: bytes.Clone(b)}}
	if binary.LittleEndian.Uint32(b) == r.codec.checksum(off, b[4:]) {
		return nil, nil // it checks now: another process is writing the log
	}
	if _, to := d.Sector(0); to < len(b) || binary.LittleEndian.Uint16(b[6:])&kindMask != kindFull || !r.plausibleStart(d) {
		return nil, nil
	}
	return d, nil
}

// seekRecord moves to the place where a record that follows offset off would begin.
func seekRecord(s *scanner, off int64) error {
	if room := blockRoom(off); room < minRoom {
		off += int64(room)
	}
	return s.seek(off)
}

// plausible reports whether a record at offset off may have these numbers, given the records
// before it.
func (r *reader) plausible(rec record, off int64) bool {
	return rec.synced >= max(r.synced, headerSize) && rec.synced <= off && rec.lastSeq >= r.result.LastSeq && rec.lastSeq <= base.MaxSeq
}

// explain returns the bytes at the scanner's position as a damaged fragment, with the
// smallest error that explains them. first says whether a record must begin there. It returns
// nil if no small error explains them, or if several do that are equally small.
//
// The length and the kind of a fragment may be damaged too. So it tries all lengths that
// differ from the stated one in one or two bits or within one byte, with each kind. The
// length of fragments that fill their block is known.
func (r *reader) explain(first bool) (best *damaged) {
	b := r.scan.block[r.scan.pos:]
	if len(b) < fragmentSize || binary.LittleEndian.Uint64(b) == 0 {
		return nil
	}
	kinds := []uint16{kindMiddle, kindLast}
	if first {
		kinds = []uint16{kindFull, kindFirst, kindSeal}
	}
	several := false
	n := int(binary.LittleEndian.Uint16(b[4:]))
	try := func(kind uint16, n int) {
		d := r.explainAs(b, kind, n)
		switch {
		case d == nil || best != nil && d.class > best.class:
		case best != nil && d.class == best.class:
			several = true
		default:
			best, several = d, false
		}
	}
	for _, kind := range kinds {
		if kind == kindFirst || kind == kindMiddle {
			try(kind, blockRoom(r.scan.offset())-fragmentSize)
			continue
		}
		try(kind, n)
		if best != nil && best.class <= syndrome.Bits(fragmentSize+n) {
			continue // no error is smaller than one bit
		}
		for i := range 16 {
			try(kind, n^1<<i)
			for j := range i {
				try(kind, n^1<<i^1<<j)
			}
		}
		for mask := 1; mask < 256; mask++ {
			if bits.OnesCount(uint(mask)) > 2 {
				try(kind, n^mask)
				try(kind, n^mask<<8)
			}
		}
	}
	if several {
		return nil
	}
	return best
}

// explainAs is explain for a fragment of this kind and length. The error consists of the bits
// in which length and tag differ from head, and of those in checksum and content that
// syndrome.Find computes.
func (r *reader) explainAs(b []byte, kind uint16, n int) *damaged {
	if n > len(b)-fragmentSize || kind == kindLast && n == 0 {
		return nil
	}
	head := binary.LittleEndian.AppendUint16(nil, uint16(n))
	head = binary.LittleEndian.AppendUint16(head, r.codec.mark|kind)
	d := &damaged{fragment: fragment{kind: kind, off: r.scan.offset(), content: b[fragmentSize : fragmentSize+n]}}
	d.Piece = syndrome.Piece{Off: d.off, Bytes: b[:fragmentSize+n]}
	wrong := 0 // bits of length and tag
	for i, c := range head {
		if mask := c ^ b[4+i]; mask != 0 {
			d.flips = append(d.flips, syndrome.Flip{Pos: 4 + i, Mask: mask})
			wrong += bits.OnesCount8(mask)
		}
	}
	size := fragmentSize + n - crc32.Size
	switch oneBit := syndrome.Bits(size); {
	case wrong == 1:
		d.class = oneBit
	case len(d.flips) == 1:
		d.class = oneBit / 8 * 255
	case wrong == 2:
		d.class = oneBit * oneBit / 2
	case wrong > 2:
		return nil
	}
	sum := r.codec.checksumOf(d.off, head, d.content) ^ binary.LittleEndian.Uint32(b)
	switch {
	case sum == 0 && wrong == 0:
		return nil // the checksum is right, so something else is wrong
	case sum != 0 && wrong > 1:
		return nil
	case sum != 0:
		most := max(syndrome.Likely, syndrome.Bits(n))
		if wrong == 1 {
			most = syndrome.Bits(n) // together with the bit in the header, two bits
		}
		found := syndrome.Find(n, sum, most)
		if len(found) != 1 {
			return nil
		}
		e := found[0]
		for _, f := range e.Flips[:e.N] {
			if f.Pos += fragmentSize; f.Pos >= len(d.Bytes) {
				f.Pos -= len(d.Bytes) // Find puts the checksum behind the content; it is in front
			}
			d.flips = append(d.flips, f)
		}
		d.class = e.Class
		if wrong == 1 {
			d.class = syndrome.Bits(size) * syndrome.Bits(size) / 2
		}
	}
	if d.starts() && !r.plausibleStart(d) {
		return nil
	}
	return d
}

// plausibleStart reports whether d, with its error corrected, may begin a record. It sets
// seqFrom and seqTo.
func (r *reader) plausibleStart(d *damaged) bool {
	head := make([]byte, recordSize)
	head = head[:copy(head, d.content)]
	for _, f := range d.flips {
		if i := f.Pos - fragmentSize; i >= 0 && i < len(head) {
			head[i] ^= f.Mask
		}
	}
	rec, n := decodeRecordHeader(head)
	_, n1 := binary.Uvarint(head)
	d.seqFrom, d.seqTo = fragmentSize+n1, fragmentSize+n
	return n > 0 && (d.kind != kindSeal || len(d.content) == n+sealPayload) && r.plausible(rec, d.off)
}

// couldBeTorn reports whether a torn write could have left d as it is. Requires: the scanner
// is behind the record.
func (r *reader) couldBeTorn(d *damaged) (bool, error) {
	was, err := r.before()
	if err != nil {
		return false, err
	}
	if len(d.flips) == 0 {
		return !was.zeros || d.MayBeOld(), nil
	}
	most := max(syndrome.Doubtful, syndrome.Bits(len(d.Bytes)))
	_, to := d.Sector(0)
	if oneSector := d.starts() && to == len(d.Bytes); was.zeros && (oneSector || d.end() <= r.prealloc) && !d.EndsInZeros() {
		most = syndrome.Likely
	}
	if d.class > most {
		return true, nil
	}
	for _, f := range d.flips {
		torn := d.couldBeOlder(f.Pos, was.aligned)
		if was.zeros {
			torn = d.MayBeOldZero(f.Pos) || was.end && d.Few(f.Pos)
		}
		if !torn {
			return false, nil
		}
	}
	return true, nil
}

// An older describes the bytes that were in the file before the last records of the log were
// written. The bytes behind these records show it.
type older struct {
	zeros bool // the file had only zeros there
	end   bool // the file ends with the log: it grew with it, and new sectors may hold anything
	// If aligned is set, a record of an older log may have been in exactly the place of the
	// last record too.
	aligned bool // an older log's record may begin where the next record would
}

// before finds out what the file held before. Requires: the scanner is behind the record in
// question.
func (r *reader) before() (older, error) {
	s := &r.scan
	for {
		_, ok, err := s.next()
		if err != nil {
			return older{zeros: true, end: true}, noEOF(err)
		}
		if !ok && !s.skipTagged() {
			break
		}
	}
	end := s.offset()
	if end == s.size {
		return older{zeros: true, end: true}, nil
	}
	if zeros, err := s.onlyZeros(); zeros || err != nil {
		return older{zeros: zeros}, err
	}
	if err := seekRecord(s, end); err != nil {
		return older{}, noEOF(err)
	}
	off := s.offset()
	if off%sectorSize > sectorSize-fragmentSize || len(s.block)-s.pos < fragmentSize {
		return older{aligned: true}, nil // a part of these bytes may be of this log
	}
	if ours, _ := s.tagged(off); ours || r.codec.isOlder(s) { // no error is possible: the block is loaded
		return older{aligned: true}, nil
	}
	next := off + fragmentSize + int64(binary.LittleEndian.Uint16(s.block[s.pos+4:]))
	if err := seekRecord(s, next); err != nil {
		return older{}, noEOF(err)
	}
	return older{aligned: r.codec.isOlder(s)}, nil
}

// isOlder reports whether a fragment of an older log of the same store begins at the
// scanner's position. It computes the number of that log from the checksum, and then checks
// the fragment as one of that log.
func (c *codec) isOlder(s *scanner) bool {
	b := s.block[s.pos:]
	if len(b) < fragmentSize {
		return false
	}
	n := int(binary.LittleEndian.Uint16(b[4:]))
	if n > len(b)-fragmentSize {
		return false
	}
	unseeded := codec{}
	seed := syndrome.Back(binary.LittleEndian.Uint32(b)^unseeded.checksum(s.offset(), b[4:fragmentSize+n]), 8+4+n)
	binary.LittleEndian.PutUint64(c.scratch[:], c.storeID)
	num := ^crc32.Checksum(c.scratch[:8], castagnoli) ^ syndrome.Back(^seed, 8)
	if base.FileNum(num) >= c.num {
		return false
	}
	old := newCodec(c.storeID, base.FileNum(num))
	_, ok := old.decodeFragment(s.block, s.off, s.pos)
	return ok
}

// couldBeOlder reports whether the bytes from pos to the end of the sector, or all bytes of
// the sector, may be those of an older log. They are not if they contain the whole tag of d,
// or the whole last sequence number of its record: no older log has these. Otherwise they may
// be if aligned is set, or by chance.
func (d *damaged) couldBeOlder(pos int, aligned bool) bool {
	_, to := d.Sector(pos)
	const tag = fragmentSize - 2
	switch {
	case d.Few(pos) || d.InCutWord(pos):
		return true
	case pos < tag && to >= fragmentSize || pos < d.seqFrom && to >= d.seqTo:
		return false
	}
	return aligned || d.MayBeAlike(pos)
}

// noEOF returns nil if err is the end of the file, else err.
func noEOF(err error) error {
	if err == io.EOF {
		return nil
	}
	return err
}
