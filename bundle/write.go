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

// A Spec says what a bundle is to hold, but for the filters.
type Spec struct {
	StoreID uint64
	Seq     uint64    // every key that was there at this sequence number is in a table
	Created time.Time // kept in seconds
	Runs    []Run
}

// A Run is a list of tables in order of their keys, whose bounds do not overlap.
// The order of runs means nothing.
type Run struct {
	Level  int
	Tables []Table
}

// A Table is a set of keys with its bounds, which belong to it.
type Table struct {
	Smallest, Largest []byte
	Keys              uint64
}

// Write writes a bundle to w and returns its length.
//
// filter returns the serialized filter of a table (see bloom.AppendStatic), or
// nothing if there is none: then every key between the bounds is answered maybe.
// It is called twice for each table, for the directory and for the filter itself,
// and must return the same both times. What it returned is not looked at after
// the next call. An error of filter ends Write and is returned. What w has got
// before an error is not a bundle.
func Write(w io.Writer, s *Spec, filter func(run, table int) ([]byte, error)) (int64, error) {
	p := plan{spec: s, filter: filter}
	if err := p.measure(); err != nil {
		return 0, err
	}
	head, err := p.head()
	if err != nil {
		return 0, err
	}
	if _, err := w.Write(head); err != nil {
		return 0, fmt.Errorf("bundle: write: %w", err)
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
			if _, err := w.Write(part); err != nil {
				return 0, fmt.Errorf("bundle: write: %w", err)
			}
		}
		at = e.offset + e.length
	}
	return int64(at), nil
}

// A plan is a bundle to be written.
type plan struct {
	spec    *Spec
	filter  func(run, table int) ([]byte, error)
	entries []plannedEntry // of all tables
	dirLen  uint64
	length  uint64
}

type plannedEntry struct {
	tableEntry
	run, table int
}

// measure checks the spec, and finds the place of every filter.
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

// ask fills in what the directory has of the filter, which must be one.
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

// head returns header and directory.
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

// checkBounds tells whether a table may follow one that ends with before.
func checkBounds(before, smallest, largest []byte, first bool) error {
	switch {
	case bytes.Compare(smallest, largest) > 0:
		return errBounds
	case !first && bytes.Compare(before, smallest) >= 0:
		return errOrder
	}
	return nil
}

// openFilter opens the filter of a table, whose bytes are b.
func openFilter(b []byte, e *tableEntry) (*bloom.Static, error) {
	if filterSum(b) != e.sum {
		return nil, errSum
	}
	f, err := bloom.OpenStatic(b)
	if err == nil && f.Keys() < min(e.keys, math.MaxUint32) { // more: it knows prefixes too
		return nil, errKeys
	}
	return f, err
}
