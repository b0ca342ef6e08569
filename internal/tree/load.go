package tree

import (
	"errors"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/shaledb/shale/internal/base"
	"github.com/shaledb/shale/manifest"
)

// A Loading holds the parameters of Load.
type Loading struct {
	NextFileNum base.FileNum
	ReadFilters bool // read the filters when the tables are opened
	// Moving makes a missing sidecar an error. A read-only handle
	// sets it: a writer may have replaced the sidecar meanwhile,
	// and Open then starts again from what the manifest says now.
	Moving bool

	// Now is how many bytes of filters and indexes Load reads, about. It takes
	// the tables of the newest runs first. Of the other tables it reads only the
	// end of the file, with the footer and the properties, and checks that.
	Now int64
	// IndexMemory limits the bytes of indexes in memory; 0: no limit.
	IndexMemory int64
}

// Load opens the tables of meta and makes it the current version. complete says that no filter or
// index is left for later. It is called once, before all other methods that need a version.
func (t *Tree) Load(meta *manifest.Version, how Loading) (v *Version, complete bool, err error) {
	opened, complete, err := t.openTables(slices.Collect(meta.Tables()), how)
	if err != nil {
		return nil, false, err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.newest = nil // of an attempt that failed
	t.tables = make(map[base.FileNum]*Table, len(opened))
	t.sidecars = make(map[base.FileNum]*Sidecar)
	var beside []*Sidecar
	for _, table := range opened {
		if how.Moving && table.opened.missing() {
			return nil, false, table.opened.pinned
		}
		if table.opened != nil {
			beside = append(beside, table.opened)
		}
		t.tables[table.Meta.Num] = table
	}
	v = newVersion(meta, t.tables)
	t.appendLocked(v, opened, beside, nil)
	t.version, t.nextFileNum = v, how.NextFileNum
	return v, complete, nil
}

// openers is how many goroutines open tables: as many requests as a disk likes to have.
const openers = 16

// openTables opens the tables that metas describe, several at a time. If a table fails to open,
// the others stay open, and the caller closes them. complete is as in Load.
func (t *Tree) openTables(metas []*manifest.Table, how Loading) (tables []*Table, complete bool, err error) {
	now, left := 0, how.Now // the first tables are read as a whole
	for i, m := range metas {
		if left -= residentBytes(m); left >= 0 {
			now = i + 1
		}
	}
	tables = make([]*Table, len(metas))
	errs := make([]error, openers)
	var next, indexed atomic.Int64 // the next table to be opened; bytes of indexes in memory
	var wg sync.WaitGroup
	for w := range min(openers, len(metas)) {
		wg.Go(func() {
			for errs[w] == nil {
				i := int(next.Add(1)) - 1
				if i >= len(metas) {
					return
				}
				opts := t.env.Reading()
				opts.NoFilter = opts.NoFilter || !how.ReadFilters
				opts.NoIndex = how.IndexMemory > 0 && indexed.Load() >= how.IndexMemory
				opts.Later = i >= now
				if tables[i], errs[w] = t.openTable(metas[i], opts); errs[w] == nil {
					bytes, _ := tables[i].Reader.MemoryBytes()
					indexed.Add(bytes)
				}
				errs[w] = base.MissingIsDamage(errs[w], base.TableName(metas[i].Num))
			}
		})
	}
	wg.Wait()
	return tables, now == len(metas), errors.Join(errs...)
}

// residentBytes estimates how many bytes the filter and the index of a table take.
// An index takes about a hundredth of the table. Its size is not in the manifest.
func residentBytes(m *manifest.Table) int64 {
	filter, _ := m.Filter()
	return filter + m.Size/64
}
