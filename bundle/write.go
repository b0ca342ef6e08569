package bundle

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"time"

	"github.com/shaledb/shale/bloom"
)

// A Spec describes a bundle to be written, without the filters.
type Spec struct {
	StoreID uint64    // the same in all files of a store
	Seq     uint64    // every key that was in the store at this sequence number is in a table
	Created time.Time // written in seconds
	Runs    []Run     // in any order
}

// A Run is a list of tables, in the order of their keys, whose bounds do not overlap. The
// order of runs in a Spec does not matter.
type Run struct {
	Level  int     // of the store, from 0 to 6
	Tables []Table // in the order of their keys
}

// A Table is a set of keys. The bounds are keys of the set.
type Table struct {
	Smallest, Largest []byte
	Keys              uint64 // how many
}

// Write writes a bundle to w and returns its length.
//
// filter returns the serialized filter of a table (see bloom.AppendStatic), or nothing if
// the table has none; then every key between the bounds is answered with maybe. Write
// calls it twice for each table, once for the directory and once to write the filter, and
// it must return the same both times. Write does not use the returned bytes after the next
// call. If filter returns an error, Write returns it. After any error, the bytes that w
// has received are not a bundle.
func Write(w io.Writer, s *Spec, filter func(run, table int) ([]byte, error)) (int64, error) {
	p := plan{spec: s, filter: filter}
	if err := p.measure(); err != nil {
		return 0, err
	}
	head, err := p.head()
	if err != nil {
		return 0, err
	}
	if err := writeAll(w, head); err != nil {
		return 0, err
	}
	at := uint64(len(head))
	var padding [alignment]byte
	for _, e := range p.entries {
		if e.length == 0 {
			continue
		}
		b, err := filter(e.run, e.table)
		if err != nil {
			return 0, err
		}
		if uint64(len(b)) != e.length || filterSum(b) != e.sum {
			return 0, fmt.Errorf("bundle: write: table %d of run %d has another filter than before", e.table, e.run)
		}
		for _, part := range [][]byte{padding[:e.offset-at], b} {
			if err := writeAll(w, part); err != nil {
				return 0, err
			}
		}
		at = e.offset + e.length
	}
	return int64(at), nil
}

// writeAll writes p to w, and holds w to the contract of io.Writer: what is written is all of p,
// or there is an error.
func writeAll(w io.Writer, p []byte) error {
	n, err := w.Write(p)
	switch {
	case err != nil:
	case n < 0 || n > len(p):
		err = fmt.Errorf("the writer says that it has written %d of %d bytes", n, len(p))
	case n < len(p):
		err = io.ErrShortWrite
	default:
		return nil
	}
	return fmt.Errorf("bundle: write: %w", err)
}

// A plan is the layout of a bundle to be written. measure fills it, head encodes
// the header and the directory. Write then writes the filters one after the other,
// so that only one is in memory.
type plan struct {
	spec    *Spec
	filter  func(run, table int) ([]byte, error)
	entries []plannedEntry // of all tables, in the order of the spec
	dirLen  uint64
	length  uint64 // of the whole file
}

// A plannedEntry is the entry of a table, and the indexes of the table in the spec.
type plannedEntry struct {
	tableEntry
	run, table int
}

// measure checks the spec, asks for every filter, and finds its offset in the file.
func (p *plan) measure() error {
	for i, r := range p.spec.Runs {
		p.dirLen += runLen
		if len(r.Tables) == 0 || r.Level < 0 || r.Level > maxLevel {
			return fmt.Errorf("bundle: write: run %d has %d tables, level %d", i, len(r.Tables), r.Level)
		}
		var before []byte
		for j, t := range r.Tables {
			if max(len(t.Smallest), len(t.Largest)) > MaxKeySize {
				return fmt.Errorf("bundle: write: table %d of run %d has a bound of more than %d bytes", j, i, MaxKeySize)
			}
			if err := checkBounds(before, t.Smallest, t.Largest, j == 0); err != nil {
				return fmt.Errorf("bundle: write: table %d of run %d: %w", j, i, err)
			}
			before = t.Largest
			e := plannedEntry{tableEntry{keys: t.Keys, smallest: t.Smallest, largest: t.Largest}, i, j}
			if err := p.ask(&e); err != nil {
				return err
			}
			p.dirLen += tableLen + uint64(len(t.Smallest)+len(t.Largest))
			p.entries = append(p.entries, e)
		}
	}
	p.length = headerLen + p.dirLen
	for i := range p.entries {
		if e := &p.entries[i]; e.length > 0 {
			e.offset = aligned(p.length)
			p.length = e.offset + e.length
		}
	}
	return nil
}

// ask sets length and sum of e from the table's filter, and checks that it is one. A table
// without a filter keeps zeros.
func (p *plan) ask(e *plannedEntry) error {
	b, err := p.filter(e.run, e.table)
	if err != nil || len(b) == 0 {
		return err
	}
	e.length, e.sum = uint64(len(b)), filterSum(b)
	if _, err := openFilter(b, &e.tableEntry); err != nil {
		return fmt.Errorf("bundle: write: table %d of run %d: %w", e.table, e.run, err)
	}
	return nil
}

// head returns the encoded header and directory.
func (p *plan) head() ([]byte, error) {
	if p.dirLen > math.MaxInt32 || p.length > math.MaxInt64 {
		return nil, fmt.Errorf("bundle: write: a directory of %d bytes is too long", p.dirLen)
	}
	h := header{
		length: p.length, storeID: p.spec.StoreID, seq: p.spec.Seq, created: p.spec.Created.Unix(),
		runs: uint32(len(p.spec.Runs)), dirLen: uint32(p.dirLen),
	}
	b := make([]byte, headerLen, headerLen+int(p.dirLen))
	for _, e := range p.entries {
		if e.table == 0 {
			r := &p.spec.Runs[e.run]
			b = binary.LittleEndian.AppendUint32(b, uint32(r.Level))
			b = binary.LittleEndian.AppendUint32(b, uint32(len(r.Tables)))
		}
		b = e.appendTo(b)
	}
	h.dirSum = checksum(b[headerLen:])
	h.appendTo(b[:0])
	return b, nil
}

var (
	errBounds = errors.New("its smallest key is above its largest")
	errOrder  = errors.New("it does not begin behind the one before")
	errKeys   = fmt.Errorf("%w: of fewer keys than its table", bloom.ErrDamaged)
	errSum    = fmt.Errorf("%w: not the bytes that were written here", bloom.ErrDamaged)
)

// checkBounds returns an error if a table may not follow one whose largest key is before.
// first says that there is no table before.
func checkBounds(before, smallest, largest []byte, first bool) error {
	switch {
	case bytes.Compare(smallest, largest) > 0:
		return errBounds
	case !first && bytes.Compare(before, smallest) >= 0:
		return errOrder
	}
	return nil
}

// openFilter opens the filter b of the table e. It is an error if b is not the filter that
// the directory describes, or has fewer keys than the table. It may have more, because a
// filter can hold prefixes too.
func openFilter(b []byte, e *tableEntry) (*bloom.Static, error) {
	if filterSum(b) != e.sum {
		return nil, errSum
	}
	f, err := bloom.OpenStatic(b)
	if err == nil && f.Count() < min(e.keys, math.MaxUint32) { // more: prefixes are in it too
		return nil, errKeys
	}
	return f, err
}
