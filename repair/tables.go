package repair

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"slices"

	"github.com/shaledb/shale/internal/base"
	"github.com/shaledb/shale/internal/iter"
	"github.com/shaledb/shale/manifest"
	"github.com/shaledb/shale/sstable"
	"github.com/shaledb/shale/vfs"
)

// errForward is the error of an iterator that is asked to go back or to seek.
var errForward = errors.New("repair: entries are read forward only")

// An origin says where an entry of the merge comes from.
type origin struct {
	age    int          // of its run: a version in a run of lower age is newer; 0: the logs
	num    base.FileNum // of its table
	doubts *Left        // why none of its entries is proven; nil: they may be
}

// A tableIter iterates over the readable entries of a table. Close also closes the file.
type tableIter struct {
	*sstable.Salvager
	file vfs.File
	m    *merge
	at   base.KV // the current entry; merge.origins finds this iterator by its address
}

// openTable opens a table for the merge. Its damaged parts become gaps when the iterator
// meets them. A file that is not there, or that the device can't open, is one gap over all
// keys of the table.
func (m *merge) openTable(t *manifest.Table, o origin) (base.Iterator, error) {
	name := base.TableName(t.Num)
	f, err := m.s.fs.Open(m.s.path(name))
	switch {
	case err != nil && failsHere(err):
		return nil, fmt.Errorf("repair: %w", err)
	case err != nil:
		if errors.Is(err, fs.ErrNotExist) {
			err = missing(name, "table")
		}
		m.lost(t, o, sstable.Lost{Err: err, Entries: true})
		return new(entries), nil
	}
	size, err := f.Size()
	if err == nil {
		// The merge reads a table from front to back.
		ahead := &aheadReader{file: f, size: size}
		it := &tableIter{file: f, m: m}
		it.Salvager, err = sstable.Salvage(m.s.ctx, ahead, size, sstable.SalvageOptions{
			Num: t.Num, StoreID: m.s.storeID, Seq: t.MaxSeq, Size: t.Size, Checksum: t.Checksum, Entries: t.Entries,
			Lost: func(l sstable.Lost) { m.lost(t, o, l) },
		})
		if err == nil {
			m.origins[&it.at] = o
			return it, nil
		}
	}
	_ = f.Close() // only read
	return nil, fmt.Errorf("repair: %s: %w", name, err)
}

// First implements base.Iterator.
func (i *tableIter) First() *base.KV { return i.show(i.Salvager.First()) }

// Next implements base.Iterator.
func (i *tableIter) Next() *base.KV { return i.show(i.Salvager.Next()) }

// show copies kv to the address under which merge.origins knows the iterator.
func (i *tableIter) show(kv *base.KV) *base.KV {
	if kv == nil {
		return nil
	}
	i.at = *kv
	return &i.at
}

// Close implements base.Iterator.
func (i *tableIter) Close() error {
	delete(i.m.origins, &i.at)
	return errors.Join(i.Salvager.Close(), i.file.Close())
}

// lost makes a finding of damage in a table, and a gap if entries are lost. Without known
// neighbours, the gap reaches to the bounds of the table.
func (m *merge) lost(t *manifest.Table, o origin, l sstable.Lost) {
	f := found(base.TableName(t.Num), l.Err, Redundant)
	if !l.Entries {
		m.s.add(f)
		return
	}
	f.Harm, f.LastSeq = LostEntries, uint64(t.MaxSeq)
	f.Keys = Keys{Lower: l.After, LowerOut: l.After != nil, Upper: l.Upto}
	if l.After == nil {
		f.Keys.Lower = t.Smallest
	}
	if l.Upto == nil {
		f.Keys.Upper = t.Largest
	}
	m.gaps = append(m.gaps, &gap{keys: f.Keys, maxSeq: t.MaxSeq, age: o.age, finding: m.s.add(f)})
}

// A runSource is the tables of a run, as an iter.ConcatSource.
type runSource struct {
	m      *merge
	tables []*manifest.Table
	origin origin
}

func (r *runSource) Bounds(i int) (smallest, largest []byte) {
	return r.tables[i].Smallest, r.tables[i].Largest
}

func (r *runSource) Open(i int) (base.Iterator, error) {
	o := r.origin
	o.num = r.tables[i].Num
	return r.m.openTable(r.tables[i], o)
}

// addRun adds a run to the merge. Missing tables are gaps from the beginning. The
// others are opened one at a time.
func (m *merge) addRun(tables []*manifest.Table, o origin) {
	src := &runSource{m: m, origin: o}
	for _, t := range tables {
		if slices.Contains(m.s.tables, t.Num) {
			src.tables = append(src.tables, t)
		} else {
			m.lost(t, o, sstable.Lost{Err: m.s.absent(t), Entries: true})
		}
	}
	m.children = append(m.children, iter.NewConcat(len(src.tables), src))
}

// A stray is a table that no manifest names.
type stray struct {
	table *manifest.Table // made from the properties in the table itself
	left  *Left
}

// strays returns the tables that a lost part of the manifest may have named. It
// returns none if the manifest is whole. If the properties of a table are lost too,
// nothing is known of its range.
func (s *survey) strays() (list []stray) {
	if s.whole {
		return nil
	}
	live := s.live()
	for _, num := range s.tables {
		// The merge has it already.
		if live[num] {
			continue
		}
		t := s.describe(num)
		left := &Left{File: base.TableName(num), Why: "no manifest tells whether the table is obsolete"}
		if t.Largest != nil {
			left.Keys = Keys{Lower: t.Smallest, Upper: t.Largest}
		}
		left.LastSeq, left.Entries = uint64(t.MaxSeq), t.Entries
		list = append(list, stray{t, left})
	}
	return list
}

// describe returns what the table num states of itself: bounds, sequence numbers and
// entries. They are zero if that cannot be read.
func (s *survey) describe(num base.FileNum) *manifest.Table {
	t := &manifest.Table{Num: num}
	f, err := s.fs.Open(s.path(base.TableName(num)))
	if err != nil {
		return t
	}
	defer f.Close() // only read
	size, err := f.Size()
	if err != nil {
		return t
	}
	r, err := sstable.Salvage(s.ctx, f, size, sstable.SalvageOptions{Num: num, StoreID: s.storeID})
	if err != nil {
		return t
	}
	defer r.Close() // only read
	if p, ok := r.Props(); ok {
		t.Smallest, t.Largest = bytes.Clone(p.Smallest), bytes.Clone(p.Largest)
		t.MinSeq, t.MaxSeq, t.Entries = p.MinSeq, p.MaxSeq, p.Entries
	}
	return t
}

// addStrays adds strays to the merge. An iterator needs tables that do not overlap, so it
// makes chains of such tables, as many as overlap at one key.
func (m *merge) addStrays(list []stray) {
	slices.SortFunc(list, func(a, b stray) int { return bytes.Compare(a.table.Smallest, b.table.Smallest) })
	var chains [][]stray
next:
	for _, s := range list {
		for i, c := range chains {
			last := c[len(c)-1].table
			if last.Largest != nil && s.table.Largest != nil && bytes.Compare(last.Largest, s.table.Smallest) < 0 {
				chains[i] = append(c, s)
				continue next
			}
		}
		chains = append(chains, []stray{s})
	}
	for _, c := range chains {
		m.children = append(m.children, iter.NewConcat(len(c), &strayChain{m, c}))
	}
}

// strayAge is higher than the age of every run. A gap in a stray makes no entry of a run
// doubtful: a stray proves nothing, and so its loss disproves nothing.
const strayAge = 1 << 30

// A strayChain is a list of strays that do not overlap, as an iter.ConcatSource.
type strayChain struct {
	m    *merge
	list []stray
}

func (c *strayChain) Bounds(i int) (smallest, largest []byte) {
	return c.list[i].table.Smallest, c.list[i].table.Largest
}

func (c *strayChain) Open(i int) (base.Iterator, error) {
	t := c.list[i].table
	return c.m.openTable(t, origin{age: strayAge, num: t.Num, doubts: c.list[i].left})
}
