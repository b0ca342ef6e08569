package tree

import (
	"fmt"

	"github.com/shaledb/shale/internal/base"
	"github.com/shaledb/shale/manifest"
	"github.com/shaledb/shale/sstable"
)

// A Step leads the tree of a read-only store to a later version, which the store's writer has
// made. Its files are open, and nobody reads them yet. Take makes it the current version, and
// Drop gives it up.
type Step struct {
	Opened []*Table // the tables that were not open before

	tree     *Tree
	meta     *manifest.Version
	come     map[base.FileNum]*Table // that are new, or new in their run
	sidecars []*Sidecar
	filters  []newFilter // beside tables that were open before
}

// A newFilter is the filter of a sidecar that a table has got since it was opened.
type newFilter struct {
	table   *Table
	sidecar *Sidecar
	filter  *sstable.LoadedFilter
}

// Step opens what meta has and the current version has not. bad is called for a sidecar that
// can't be used: the table then keeps the filter that it has. Requires: the tree is read-only;
// Step, Take and Drop are called by one goroutine at a time, and not after Close.
//
// The writer never gives the number of a table to another one. So a table of the same number
// that is another one shows that the directory holds another store now: base.ErrReplaced.
func (t *Tree) Step(meta *manifest.Version, how Loading, bad func(*Table, error)) (*Step, error) {
	s := &Step{tree: t, meta: meta, come: make(map[base.FileNum]*Table)}
	old := t.current()
	var metas []*manifest.Table
	for _, m := range meta.New(old.Meta) {
		// What only older versions have is opened again. It would be closed with the last of them.
		was, there := old.Meta.Current(m)
		table := t.TablesOf([]*manifest.Table{m})[0]
		if table != nil && !sameFile(table.Meta, m) {
			s.Drop()
			return nil, fmt.Errorf("%w: %s is another table now", base.ErrReplaced, base.TableName(m.Num))
		}
		if !there {
			metas = append(metas, m)
			continue
		}
		s.come[m.Num] = table
		if beside := m.Sidecar; beside != nil && (was.Table.Sidecar == nil || was.Table.Sidecar.Num != beside.Num) {
			if err := s.takeSidecar(table, beside, how, bad); err != nil {
				s.Drop()
				return nil, err
			}
		}
	}
	opened, _, err := t.openTables(metas, how)
	for _, table := range opened {
		if table == nil {
			continue
		}
		s.Opened = append(s.Opened, table)
		s.come[table.Meta.Num] = table
		if how.Moving && table.opened.missing() {
			err = table.opened.pinned
		}
	}
	if err != nil {
		s.Drop()
		return nil, err
	}
	return s, nil
}

// sameFile reports whether a and b describe one file. Their sidecars may differ.
func sameFile(a, b *manifest.Table) bool {
	return a.Size == b.Size && a.Checksum == b.Checksum && a.MinSeq == b.MinSeq && a.MaxSeq == b.MaxSeq
}

// takeSidecar opens a sidecar that a table has got, and reads its filter if filters are wanted.
func (s *Step) takeSidecar(table *Table, meta *manifest.Sidecar, how Loading, bad func(*Table, error)) error {
	beside := s.tree.NewSidecar(table.Meta, meta)
	s.sidecars = append(s.sidecars, beside)
	if how.Moving && beside.missing() {
		return beside.pinned
	}
	if s.tree.env.Reading().NoFilter {
		return nil
	}
	filter, err := table.Reader.ReadSidecar(beside.File)
	if err != nil {
		bad(table, err)
		return nil
	}
	s.filters = append(s.filters, newFilter{table, beside, filter})
	return nil
}

// Drop closes what Step has opened. The current version stays. It does nothing if s is nil.
func (s *Step) Drop() {
	if s == nil {
		return
	}
	for _, table := range s.Opened {
		table.opened.Close()
		table.Close()
	}
	for _, beside := range s.sidecars {
		beside.Close()
	}
}

// Take makes the version of s the current one. Of c it needs Epoch, Publish and Installed.
func (t *Tree) Take(s *Step, c *Change) {
	t.editing.Lock()
	defer t.editing.Unlock()
	old := t.current()
	next, left := nextVersion(old, s.meta, s.come, c.Epoch())
	c.Opened = s.Opened
	c.Sidecars = s.sidecars
	for _, table := range s.Opened {
		if table.opened != nil {
			c.Sidecars = append(c.Sidecars, table.opened)
		}
	}
	t.publish(c, next, left)
	c.Installed(old, next)
	t.Release(old)
}

// UseFilters makes the filters that tables have got beside them the ones that lookups ask.
func (s *Step) UseFilters() {
	for _, f := range s.filters {
		f.table.UseSidecar(f.sidecar, f.filter)
	}
}

// current returns the current version.
func (t *Tree) current() *Version {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.version
}
