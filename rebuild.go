package shale

import (
	"context"
	"errors"
	"fmt"

	"github.com/shaledb/shale/bloom"
	"github.com/shaledb/shale/compaction"
	"github.com/shaledb/shale/filterplan"
	"github.com/shaledb/shale/internal/base"
	"github.com/shaledb/shale/internal/tree"
	"github.com/shaledb/shale/manifest"
	"github.com/shaledb/shale/sstable"
)

// A FilterRebuild says what RebuildFilters has done.
type FilterRebuild struct {
	Tables       int   // looked at that are there
	Rebuilt      int   // that got a new filter
	Gone         int   // that were compacted away before they got theirs
	BytesWritten int64 // files of filters

	// The sizes of the tables' filters, resident or not. One that can't be used
	// counts for nothing.
	FilterBytesBefore, FilterBytesAfter int64
}

// RebuildFilters gives every table whose filter is not what the options of this
// handle call for a new one, in a file beside it: no data is written again. They
// call for a hash function (FilterHash), for the last level a kind
// (LastLevelFilter), and by FilterBits or FilterMemory for a number of bits a key
// in each level; a filter with at least nine tenths of these is left alone, and
// so is one with more if there is room for it. A table without a filter, or with
// one that can't be used, gets one.
//
// It reads the keys of these tables, and takes 8 bytes of memory for each key of
// one table at a time. Lookups, writes and compactions go on meanwhile; each new
// filter is in use as soon as it is durable, so what was done before an error
// stays done. Tables that can't be read are passed over, and the first such
// error is returned at the end.
func (db *DB) RebuildFilters(ctx context.Context) (FilterRebuild, error) {
	if err := db.usable(); err != nil {
		return FilterRebuild{}, err
	}
	if db.opts.FilterBits < 0 {
		return FilterRebuild{}, errors.New("shale: rebuild filters: option FilterBits is negative, which calls for none")
	}
	if err := db.begin(); err != nil {
		return FilterRebuild{}, err
	}
	defer db.calls.Done()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(db.ctx, cancel)()
	end, err := db.filters.BeginRebuild(ctx) // one at a time: two would do the same work
	if err != nil {
		return FilterRebuild{}, db.rebuildError(err)
	}
	defer end()
	r := rebuild{db: db, ctx: ctx}
	if err := r.run(); err != nil {
		return r.report, db.rebuildError(err)
	}
	return r.report, nil
}

func (db *DB) rebuildError(err error) error {
	if db.ctx.Err() != nil || errors.Is(err, ErrClosed) {
		return ErrClosed
	}
	return fmt.Errorf("shale: rebuild filters: %w", err)
}

// A rebuild is one call of RebuildFilters.
type rebuild struct {
	db     *DB
	ctx    context.Context
	report FilterRebuild
	made   []*newFilter // written, and not installed yet
	bytes  int64        // of these
	damage error        // the first that kept a table from getting a filter
	want   filterplan.WantedFilters
	again  bool // the tables have been looked at before
}

// A newFilter is a sidecar that is to come into use.
type newFilter struct {
	table   *tree.Table
	sidecar *tree.Sidecar
	filter  *sstable.LoadedFilter
	before  int64 // bytes of the filter in use
}

// Filters are installed when so many, or so many bytes of them, have been
// written: an edit of the manifest copies the list of tables.
const (
	installFilters     = 16
	installFilterBytes = 8 << 20
)

// rebuildPasses bounds how often run looks at the tables, should compactions
// keep changing what they are to have.
const rebuildPasses = 4

// run looks at the tables until it finds nothing to do: where FilterMemory is
// short, a filter that comes into memory may push another one out.
func (r *rebuild) run() error {
	for range rebuildPasses {
		rebuilt, damage := r.report.Rebuilt, r.damage
		if err := r.pass(); err != nil {
			r.discard()
			return err
		}
		r.again = true
		if r.report.Rebuilt == rebuilt || damage != nil {
			break
		}
	}
	return r.damage
}

// pass looks at each table once.
func (r *rebuild) pass() error {
	v := r.db.acquireView()
	if v == nil {
		return ErrClosed
	}
	var tables []*tree.Table
	for _, run := range v.Runs {
		tables = append(tables, run.Tables...)
	}
	r.want = r.db.wantedFilters(v.Version)
	r.db.tree.Release(v.Version)
	for _, t := range tables {
		err := r.table(t)
		if err == nil && (len(r.made) >= installFilters || r.bytes >= installFilterBytes) {
			err = r.install()
		}
		if err != nil {
			return err
		}
	}
	return r.install()
}

// table makes a filter for t if it needs one.
func (r *rebuild) table(t *tree.Table) error {
	if err := r.ctx.Err(); err != nil {
		return err
	}
	v := r.db.acquireView() // its files stay until this table is done
	if v == nil {
		return ErrClosed
	}
	defer r.db.tree.Release(v.Version)
	now, there := v.Meta.Current(t.Meta)
	if !there {
		r.report.Gone++
		return nil
	}
	stored, err := t.Reader.StoredFilter()
	var damage *CorruptionError
	if err != nil && !errors.As(err, &damage) {
		return err // a filter that is damaged is made again; what can't be read now may be whole
	}
	before := int64(0)
	if stored != nil {
		before = int64(stored.Filter().SizeBytes())
	}
	if !r.again {
		r.report.Tables++
		r.report.FilterBytesBefore += before
		r.report.FilterBytesAfter += before
	}
	want := r.want.Of(now.Level, now.Run)
	broken := now.Table.Sidecar != nil && t.Reader.Sidecar() == nil // each Open and Verify would tell of it again
	if !broken && want.SatisfiedBy(storedFilter(stored), t.Filter()) {
		return nil
	}
	read := sstable.IterOptions{NoFill: true, Readahead: compactionReadahead}
	built, err := t.Reader.BuildFilter(r.ctx, read, want.StaticOptions, want.PrefixRule)
	if err != nil {
		return r.unreadable(err)
	}
	made, err := bloom.OpenStatic(built.Bytes)
	if err != nil {
		return err
	}
	if !broken && storedFilter(stored).SameAs(filterplan.StoredFilter{Filter: made, PrefixRule: built.Rule}) {
		return nil
	}
	return r.write(t, built, want.BitsPerKey, before)
}

// wantedFilters returns the filters that the options call for in the tables of v.
func (db *DB) wantedFilters(v *tree.Version) filterplan.WantedFilters {
	stored := int64(0)
	for t := range v.Tables() {
		stored += t.Reader.StoredFilterBytes()
	}
	tree := compaction.FilterTree(v.Meta, nil, db.planOptions())
	return db.filterPolicy().WantedFilters(tree, db.counters.probeShares(), v.Meta.NumTables(), stored)
}

// storedFilter describes a filter to package filterplan; nil: there is none.
func storedFilter(l *sstable.LoadedFilter) filterplan.StoredFilter {
	if l == nil {
		return filterplan.StoredFilter{}
	}
	return filterplan.StoredFilter{Filter: l.Filter(), PrefixRule: l.PrefixRule()}
}

// unreadable takes damage as a reason to pass a table over.
func (r *rebuild) unreadable(err error) error {
	var damage *CorruptionError
	if !errors.As(err, &damage) {
		return err
	}
	r.db.noteCorruption(err)
	if r.damage == nil {
		r.damage = err
	}
	return nil
}

// write writes a filter into a file of its own.
func (r *rebuild) write(t *tree.Table, built sstable.BuiltFilter, bits float64, before int64) error {
	db := r.db
	num := db.tree.NewPending()
	info := sstable.SidecarInfo{Num: num, StoreID: db.storeID, Table: t.Meta.Num, TableChecksum: t.Reader.Checksum()}
	f, err := db.fs.Create(db.path(base.FilterName(num)))
	if err == nil {
		info, err = sstable.WriteSidecar(f, info, built)
		if cerr := f.Close(); err == nil {
			err = cerr
		}
	}
	if err != nil {
		db.tree.RemovePending(num, base.FilterName(num))
		return err
	}
	meta := &manifest.Sidecar{Num: num, Size: info.Size, Checksum: info.Checksum, FilterBytes: int64(len(built.Bytes)), FilterBits: bits}
	r.made = append(r.made, &newFilter{table: t, sidecar: db.tree.NewSidecar(t.Meta, meta), before: before})
	r.bytes += info.Size
	return nil
}

// install makes the filters durable that were written, and then the ones that
// lookups ask: the order of invariant 6.
func (r *rebuild) install() error {
	if len(r.made) == 0 {
		return nil
	}
	if err := r.db.fs.SyncDir(r.db.dir); err != nil {
		return fmt.Errorf("sync directory: %w", err)
	}
	var err error
	for _, m := range r.made {
		if m.filter, err = m.table.Reader.ReadSidecar(m.sidecar.File); err != nil {
			return err
		}
	}
	done, err := r.db.installFilters(r.made)
	if err != nil {
		return err
	}
	for _, m := range done {
		r.report.Rebuilt++
		r.report.BytesWritten += m.sidecar.Meta.Size
		r.report.FilterBytesAfter += m.sidecar.Meta.FilterBytes - m.before
	}
	r.report.Gone += len(r.made) - len(done)
	r.discard() // those whose tables are gone
	return nil
}

// installFilters puts filters beside those of their tables that are still there,
// and returns these.
func (db *DB) installFilters(made []*newFilter) (done []*newFilter, err error) {
	err = db.tree.Install(func(current *manifest.Version) *tree.Change {
		edit := new(manifest.Edit)
		var beside []*tree.Sidecar
		for _, m := range made {
			now, there := current.Current(m.table.Meta)
			if !there {
				continue
			}
			edit.Sidecars = append(edit.Sidecars, manifest.Beside{Level: now.Level, Num: now.Table.Num, Sidecar: m.sidecar.Meta})
			beside = append(beside, m.sidecar)
			done = append(done, m)
		}
		if len(done) == 0 {
			return nil
		}
		return db.newChange(edit, nil, beside, 0, func(*view) {
			defer db.filters.Changing()()
			for _, m := range done {
				m.table.UseSidecar(m.sidecar, m.filter)
			}
		})
	})
	return done, err
}

// discard gives up the files of r.made that did not come into use. Those that
// the manifest may name, because appending the edit failed, are not pending any
// more: see tree.Tree.Install.
func (r *rebuild) discard() {
	for _, m := range r.made {
		num := m.sidecar.Meta.Num
		if m.table.Reader.Sidecar() != m.sidecar.File {
			m.sidecar.Close()
		}
		r.db.tree.RemovePending(num, base.FilterName(num))
	}
	r.made, r.bytes = nil, 0
}
