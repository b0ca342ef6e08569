package manifest

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/shaledb/shale/internal/base"
	"github.com/shaledb/shale/internal/fields"
)

// A Sidecar describes a file with a filter that is used instead of the one in the table. It
// is immutable: a new filter has a new Sidecar.
type Sidecar struct {
	Num         base.FileNum
	Size        int64   // of the file, in bytes
	Checksum    uint32  // of the filter
	FilterBytes int64   // length of the filter; more than 0
	FilterBits  float64 // bits of the filter for each key
}

// A SidecarChange gives a table in a level a sidecar. If the table has one already, the new one
// takes its place, and the old file becomes obsolete.
type SidecarChange struct {
	Level   int
	Num     base.FileNum // of the table
	Sidecar *Sidecar
	Table   *Table // may be nil: as in Removed
}

// check returns what is impossible about s, or nil.
func (s *Sidecar) check() error {
	switch {
	case s.Num == 0:
		return fmt.Errorf("sidecar number is 0")
	case s.Size <= 0 || s.Size > maxTableSize:
		return fmt.Errorf("sidecar %s: size %d is not in [1, %d]", s.Num, s.Size, int64(maxTableSize))
	case s.FilterBytes <= 0 || s.FilterBytes > s.Size:
		return fmt.Errorf("sidecar %s: filter of %d bytes in a file of %d", s.Num, s.FilterBytes, s.Size)
	case math.IsNaN(s.FilterBits) || s.FilterBits < 0 || s.FilterBits > maxFilterBits:
		return fmt.Errorf("sidecar %s: filter of %v bits a key", s.Num, s.FilterBits)
	}
	return nil
}

// appendSidecarChange appends the content of a field for a sidecar:
//
// level · table · number · size · checksum u32 · filter bytes · filter bits f64
func appendSidecarChange(dst []byte, level int, table base.FileNum, s *Sidecar) []byte {
	dst = fields.AppendUvarints(dst, uint64(level), uint64(table), uint64(s.Num), uint64(s.Size))
	dst = appendUint32(dst, s.Checksum)
	dst = fields.AppendUvarints(dst, uint64(s.FilterBytes))
	return appendFloat(dst, s.FilterBits)
}

// sidecarChange decodes what appendSidecarChange has encoded, and checks the sidecar.
func (d decoder) sidecarChange() SidecarChange {
	b := SidecarChange{Level: d.level(), Num: base.FileNum(d.Uvarint())}
	s := &Sidecar{Num: base.FileNum(d.Uvarint()), Size: d.Int64(), Checksum: d.Uint32()}
	s.FilterBytes, s.FilterBits = d.Int64(), math.Float64frombits(d.Uint64())
	if d.Err == nil {
		d.Err = s.check()
	}
	b.Sidecar = s
	return b
}

// Filter returns the length in bytes of the filter in use, and its bits for each key. The
// length is 0 if there is no filter.
func (t *Table) Filter() (bytes int64, bits float64) {
	if t.Sidecar != nil {
		return t.Sidecar.FilterBytes, t.Sidecar.FilterBits
	}
	return t.FilterBytes, t.FilterBits
}

// with returns a copy of t with the sidecar s.
func (t *Table) with(s *Sidecar) *Table {
	next := *t
	next.Sidecar = s
	return &next
}

// foldSidecars moves sidecars from e.Sidecars to the tables that e adds. In the file, the
// sidecar of an added table is a field of its own. Requires: e was just decoded, since it
// changes the tables in e.
func (e *Edit) foldSidecars() error {
	if len(e.Sidecars) == 0 {
		return nil
	}
	type place struct {
		level int
		num   base.FileNum
	}
	seen := make(map[place]bool, len(e.Sidecars))
	for _, b := range e.Sidecars {
		p := place{b.Level, b.Num}
		if seen[p] {
			return fmt.Errorf("level %d: table %s gets two sidecars", b.Level, b.Num)
		}
		seen[p] = true
	}
	if len(e.Added) == 0 {
		return nil
	}
	added := make(map[place]*Table, len(e.Added))
	for _, a := range e.Added {
		added[place{a.Level, a.Table.Num}] = a.Table
	}
	e.Sidecars = slices.DeleteFunc(e.Sidecars, func(b SidecarChange) bool {
		t := added[place{b.Level, b.Num}]
		if t != nil {
			t.Sidecar = b.Sidecar // no other goroutine has the table yet
		}
		return t != nil
	})
	if len(e.Sidecars) == 0 {
		e.Sidecars = nil
	}
	return nil
}

// Current returns how v describes the table that t describes, and where it is in v. It
// returns false if the table is not in v. A table's description is replaced when the table
// gets a sidecar, and its place changes when the table moves.
func (v *Version) Current(t *Table) (now Added, there bool) {
	for level := range v.Levels {
		for i := range v.Levels[level].Runs {
			run := &v.Levels[level].Runs[i]
			at := run.Find(t.Smallest)
			if at < len(run.Tables) && run.Tables[at].Num == t.Num {
				return Added{Level: level, Run: run.ID, Table: run.Tables[at]}, true
			}
		}
	}
	return Added{}, false
}

// Rebase prepares an edit for v that was planned on an older version. Between the two, a
// table that the edit moves may have got a sidecar. Then the edit would take it away, because
// it adds the table with its old description. Rebase replaces the description by the one in
// v.
func (e *Edit) Rebase(v *Version) {
	from := make(map[base.FileNum]int, len(e.Removed)) // levels
	for _, r := range e.Removed {
		from[r.Num] = r.Level
	}
	// A table that a compaction or flush has made is new: v does not have it.
	var moved [NumLevels]map[base.FileNum]*Table
	for _, a := range e.Added {
		if level, moves := from[a.Table.Num]; moves && level >= 0 && level < NumLevels {
			if moved[level] == nil {
				moved[level] = make(map[base.FileNum]*Table)
			}
			moved[level][a.Table.Num] = a.Table
		}
	}
	now := make(map[base.FileNum]*Table)
	for level, tables := range moved {
		if len(tables) == 0 {
			continue
		}
		for _, run := range v.Levels[level].Runs {
			for _, i := range run.indexes(tables) {
				now[run.Tables[i].Num] = run.Tables[i]
			}
		}
	}
	for i, a := range e.Added {
		if t := now[a.Table.Num]; t != nil {
			e.Added[i].Table = t
		}
	}
}

// applySidecars returns runs in which the tables have the given sidecars. It copies what it
// changes. It fails if one of the tables is not there.
func applySidecars(runs []Run, given map[base.FileNum]SidecarChange) ([]Run, error) {
	if len(given) == 0 {
		return runs, nil
	}
	tables := make(map[base.FileNum]*Table, len(given))
	for num, b := range given {
		tables[num] = b.Table
	}
	next := slices.Clone(runs)
	found := 0
	for i := range next {
		at := next[i].indexes(tables)
		if len(at) == 0 {
			continue
		}
		next[i].Tables = slices.Clone(next[i].Tables) // other versions share the list
		for _, j := range at {
			t := next[i].Tables[j]
			next[i].Tables[j] = t.with(given[t.Num].Sidecar)
		}
		found += len(at)
	}
	if found != len(given) {
		return nil, fmt.Errorf("%d of %d tables to get sidecars are not there", len(given)-found, len(given))
	}
	return next, nil
}

// String returns the notation of a sidecar: its number, its size, and the bytes and bits of
// its filter.
func (s *Sidecar) String() string {
	return fmt.Sprintf("%s/%d/%d/%v", s.Num, s.Size, s.FilterBytes, s.FilterBits)
}

// parseSidecar is the inverse of Sidecar.String.
func parseSidecar(text string) (*Sidecar, error) {
	fields := strings.Split(text, "/")
	if len(fields) != 4 {
		return nil, fmt.Errorf("%d fields, want 4", len(fields))
	}
	num, err := strconv.ParseUint(fields[0], 10, 64)
	if err != nil {
		return nil, err
	}
	size, err := parseSize(fields[1])
	if err != nil {
		return nil, err
	}
	filter, err := parseSize(fields[2])
	if err != nil {
		return nil, err
	}
	bits, err := strconv.ParseFloat(fields[3], 64)
	return &Sidecar{Num: base.FileNum(num), Size: int64(size), FilterBytes: int64(filter), FilterBits: bits}, err
}
