package manifest

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/shaledb/shale/internal/base"
	"github.com/shaledb/shale/internal/fields"
)

// Facts are what is known of some tables besides what every table has. A table without any has no
// field for them.
type Facts struct {
	// Clean says that no entry is covered by a range delete with a number up to it. 0: that is not known.
	Clean base.Seq
	// Expiring is the number of entries that expire. Expiry says when the first of them is over, then
	// when each eighth is, about, and last when all are. The times are milliseconds since the
	// beginning of 1970.
	Expiring uint64
	Expiry   *[9]int64 // nil: there are none
}

// The fields of a table's facts. Part of the file format.
const (
	factClean    = 1
	factExpiring = 3
	factExpiry   = 5
)

// A tableFacts is the content of a field: the facts of a table that the edit adds.
type tableFacts struct {
	level int
	num   base.FileNum
	facts Facts
}

var (
	errExpiring  = errors.New("more entries expire than are there, or none, at some time")
	errExpiry    = errors.New("times to expire do not ascend, or are too large")
	errFactTable = errors.New("facts of a table that the edit does not add")
)

// check returns what is impossible about f, the facts of t.
func (f *Facts) check(t *Table) error {
	switch {
	case f.Expiring > t.Entries-t.Tombstones || (f.Expiring == 0) != (f.Expiry == nil):
		return errExpiring
	case f.Expiring == 0:
		return nil
	case !slices.IsSorted(f.Expiry[:]) || f.Expiry[0] < 0 || f.Expiry[8] > base.MaxExpiry:
		return errExpiry
	}
	return nil
}

// appendFacts appends the field for a table, if there are any facts:
//
// level · table · fields
func appendFacts(dst []byte, a Added) []byte {
	f := &a.Table.Facts
	if *f == (Facts{}) {
		return dst
	}
	content := fields.AppendUvarints(nil, uint64(a.Level), uint64(a.Table.Num))
	content = fields.AppendNumber(content, factClean, uint64(f.Clean))
	content = fields.AppendNumber(content, factExpiring, f.Expiring)
	if f.Expiry != nil {
		var times []byte
		for _, ms := range f.Expiry {
			times = fields.AppendUvarints(times, uint64(ms))
		}
		content = fields.Append(content, factExpiry, times)
	}
	return fields.Append(dst, tagFacts, content)
}

// facts decodes what appendFacts has encoded.
func (d decoder) facts() (t tableFacts) {
	t.level, t.num = d.level(), base.FileNum(d.Uvarint())
	once := func(uint64) bool { return false }
	if err := fields.Decode(d.Rest(), once, t.facts.decode); err != nil && d.Err == nil {
		d.Err = err
	}
	return t
}

// decode decodes one fact.
func (f *Facts) decode(tag uint64, d *fields.Decoder) (known bool) {
	switch tag {
	case factClean:
		f.Clean = decoder{d}.seq()
	case factExpiring:
		f.Expiring = d.Uvarint()
	case factExpiry:
		f.Expiry = new([9]int64)
		for i := range f.Expiry {
			f.Expiry[i] = d.Int64()
		}
	default:
		return false
	}
	return true
}

// foldFacts moves facts to the tables that e adds. Requires: e was just decoded, since it changes
// the tables in e.
func (e *Edit) foldFacts() error {
	all := e.facts
	e.facts = nil
	if len(all) == 0 {
		return nil
	}
	type place struct {
		level int
		num   base.FileNum
	}
	added := make(map[place]*Table, len(e.Added))
	for _, a := range e.Added {
		added[place{a.Level, a.Table.Num}] = a.Table
	}
	for _, f := range all {
		t := added[place{f.level, f.num}]
		if t == nil {
			return errFactTable
		}
		delete(added, place{f.level, f.num}) // the next field about it is refused
		t.Facts = f.facts
		if err := t.check(); err != nil {
			return err
		}
	}
	return nil
}

// OverAt returns how many entries are over at the time ms: tombstones, and about so many of those
// that expire.
func (t *Table) OverAt(ms int64) uint64 {
	over := t.Tombstones
	if t.Expiring > 0 {
		eighths := uint64(0)
		for _, at := range t.Expiry[1:] {
			if at <= ms {
				eighths++
			}
		}
		over += (t.Expiring*eighths + 4) / 8
	}
	return over
}

// AllOver reports whether all entries of t are deletions at the time ms, and some have expired.
func (t *Table) AllOver(ms int64) bool {
	return t.Expiring > 0 && t.Expiring+t.Tombstones == t.Entries && t.Expiry[8] <= ms
}

// DenseAt reports whether at least a quarter of the entries are tombstones, or over at the time ms.
func (t *Table) DenseAt(ms int64) bool { return dense(t.OverAt(ms), t.Entries) }

// AnyOver reports whether an entry of t has expired at the time ms.
func (t *Table) AnyOver(ms int64) bool { return t.Expiring > 0 && t.Expiry[0] <= ms }

// NextOver returns the next time after ms at which more entries are over, and at least a quarter or
// all; math.MaxInt64: there is none.
func (t *Table) NextOver(ms int64) int64 {
	if t.Expiring == 0 {
		return math.MaxInt64
	}
	for _, at := range t.Expiry[1:] {
		if at > ms && (t.DenseAt(at) || t.AllOver(at)) {
			return at
		}
	}
	return math.MaxInt64
}

// describeExpiring returns the notation of what expires, behind the other properties of a table.
func (f *Facts) describeExpiring() string {
	if f.Expiring == 0 {
		return ""
	}
	b := fmt.Appendf(nil, ",expiring=%d", f.Expiring)
	for _, ms := range f.Expiry {
		b = fmt.Appendf(b, "/%d", ms)
	}
	return string(b)
}

// parseExpiring is the inverse of describeExpiring, of what stands behind the sign of equality.
func (f *Facts) parseExpiring(text string) error {
	parts := strings.Split(text, "/")
	if len(parts) != 1+len(f.Expiry) {
		return fmt.Errorf("%d fields, want %d", len(parts), 1+len(f.Expiry))
	}
	f.Expiry = new([9]int64)
	var err error
	if f.Expiring, err = strconv.ParseUint(parts[0], 10, 64); err != nil {
		return err
	}
	for i := range f.Expiry {
		if f.Expiry[i], err = strconv.ParseInt(parts[1+i], 10, 64); err != nil {
			return err
		}
	}
	return nil
}
