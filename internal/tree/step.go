package tree

import (
	"fmt"

	"github.com/shaledb/shale/internal/base"
	"github.com/shaledb/shale/manifest"
	"github.com/shaledb/shale/sstable"
)

// A Step leads the tree of a read-only store to a later version, which the store's writer has
// made. Its files are open, and nobody reads them yet. Change.Take takes it, and Drop gives it up.
type Step struct {
	Opened   []*Table // the tables that were not open before
	Complete bool     // no filter or index of them is left for later

	tree   *Tree
	meta   *manifest.Version
	tables map[base.FileNum]*Table // that are new, or new in their run
	got    []newSidecar            // next to tables that were open before
}

// A newSidecar is a sidecar that a table has got since it was opened.
type newSidecar struct {
	table   *Table
	sidecar *Sidecar
	use     bool                  // the table gets it: filters are wanted, and it is not damaged
	filter  *sstable.LoadedFilter // nil: it is not in memory yet
}

// Step opens what meta has and the current version has not. bad is called for a sidecar that
// can't be used. If it is damaged, the table keeps the filter that it has. Requires: the tree is read-only;
// Step, Take and Drop are called by one goroutine at a time, and not after Close.
//
// A file that is not there may have been removed by the writer, and a later meta does not have it then.
// Therefore the result of a Step that fails has what could be opened. failed is such a result, or nil:
// Step takes over what meta still has of it, and closes the rest. So each attempt opens only what is new
// since the one before, and the attempts end, however many tables there are and however slowly they open.
//
// The writer never gives the number of a table to another one. So a table of the same number
// that is another one shows that the directory holds another store now: base.ErrReplaced.
func (t *Tree) Step(failed *Step, meta *manifest.Version, how Loading, bad func(*Table, error)) (*Step, error) {
	s := &Step{tree: t, meta: meta, tables: make(map[base.FileNum]*Table)}
	tables, sidecars := failed.files()
	defer func() { closeFiles(tables, sidecars) }() // that were not taken over
	old := t.current()
	var metas []*manifest.Table
	var opened []*Table // that metas describe; nil: not yet
	var err error
	for _, m := range meta.New(old.Meta) {
		// What only older versions have is opened again. It would be closed with the last of them.
		was, there := old.Meta.Current(m)
		table := t.TablesOf([]*manifest.Table{m})[0]
		if table != nil && !sameFile(table.Meta, m) {
			err = fmt.Errorf("%w: %s is another table now", base.ErrReplaced, base.TableName(m.Num))
			break
		}
		if !there {
			kept := tables[m.Num]
			if kept != nil && (!sameFile(kept.Meta, m) || sidecarNum(kept.Meta) != sidecarNum(m)) {
				kept = nil
			}
			if kept != nil {
				delete(tables, m.Num)
			}
			metas, opened = append(metas, m), append(opened, kept)
			continue
		}
		s.tables[m.Num] = table
		if beside := m.Sidecar; beside != nil && sidecarNum(was.Table) != beside.Num {
			got, kept := sidecars[beside.Num]
			if kept && !got.sidecar.missing() {
				delete(sidecars, beside.Num)
			} else {
				got = s.openSidecar(table, beside, how, bad)
			}
			s.got = append(s.got, got)
		}
	}
	if err == nil {
		s.Complete, err = t.openTables(opened, metas, how)
	}
	for _, table := range opened {
		if table != nil {
			s.Opened = append(s.Opened, table)
			s.tables[table.Meta.Num] = table
		}
	}
	if err == nil && how.Moving {
		err = s.missingSidecar()
	}
	return s, err
}

// sameFile reports whether a and b describe one file. Their sidecars may differ.
func sameFile(a, b *manifest.Table) bool {
	return a.Size == b.Size && a.Checksum == b.Checksum && a.MinSeq == b.MinSeq && a.MaxSeq == b.MaxSeq
}

// sidecarNum returns the number of the sidecar that m has; 0: none.
func sidecarNum(m *manifest.Table) base.FileNum {
	if m.Sidecar == nil {
		return 0
	}
	return m.Sidecar.Num
}

// openSidecar opens a sidecar that a table has got, and reads its filter if filters are wanted.
func (s *Step) openSidecar(table *Table, meta *manifest.Sidecar, how Loading, bad func(*Table, error)) newSidecar {
	n := newSidecar{table: table, sidecar: s.tree.NewSidecar(table.Meta, meta)}
	if s.tree.env.Reading().NoFilter || how.Moving && n.sidecar.missing() {
		return n
	}
	var err error
	if n.filter, err = table.Reader.ReadSidecar(n.sidecar.File); err != nil {
		bad(table, err)
	}
	n.use = !base.Lasts(err) // a filter that could not be read for now is loaded later
	return n
}

// missingSidecar returns the error with which the first sidecar that is not there could not be opened.
func (s *Step) missingSidecar() error {
	for _, table := range s.Opened {
		if table.opened.missing() {
			return table.opened.pinned
		}
	}
	for _, n := range s.got {
		if n.sidecar.missing() {
			return n.sidecar.pinned
		}
	}
	return nil
}

// files returns what s has opened: the tables by number, and the sidecars of others by theirs. s may be nil.
func (s *Step) files() (map[base.FileNum]*Table, map[base.FileNum]newSidecar) {
	if s == nil {
		return nil, nil
	}
	tables := make(map[base.FileNum]*Table, len(s.Opened))
	for _, table := range s.Opened {
		tables[table.Meta.Num] = table
	}
	sidecars := make(map[base.FileNum]newSidecar, len(s.got))
	for _, n := range s.got {
		sidecars[n.sidecar.Meta.Num] = n
	}
	return tables, sidecars
}

// closeFiles closes what files has returned.
func closeFiles(tables map[base.FileNum]*Table, sidecars map[base.FileNum]newSidecar) {
	for _, table := range tables {
		table.opened.Close()
		table.Close()
	}
	for _, n := range sidecars {
		n.sidecar.Close()
	}
}

// Drop closes what Step has opened. The current version stays. It does nothing if s is nil.
func (s *Step) Drop() { closeFiles(s.files()) }

// Take makes the version of s that of the change.
func (c *Change) Take(s *Step) {
	next, removed := nextVersion(c.Old, s.meta, s.tables)
	var sidecars []*Sidecar
	for _, n := range s.got {
		sidecars = append(sidecars, n.sidecar)
	}
	for _, table := range s.Opened {
		if table.opened != nil {
			sidecars = append(sidecars, table.opened)
		}
	}
	c.add(next, removed, s.Opened, sidecars)
}

// UseFilters makes the filters that tables have got next to them the ones that lookups ask.
func (s *Step) UseFilters() {
	for _, n := range s.got {
		if n.use {
			n.table.UseSidecar(n.sidecar, n.filter)
		}
	}
}

// current returns the current version.
func (t *Tree) current() *Version {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.version
}
