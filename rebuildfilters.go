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

// This file has RebuildFilters, which writes new filters for tables that stay as they are.

// RebuildFilters takes these steps, on its caller's goroutine:
//
//  1. pass takes the current version, and asks filterplan for the filter that each of its
//     runs should have (wantedFilters).
//  2. table compares that with what a table has. If it needs another filter, table reads
//     the table's keys and builds one.
//  3. write puts the filter into a sidecar, a file of its own, and syncs it.
//  4. install, for several filters at a time, makes the names of the files durable, appends
//     an edit to the manifest, and only then makes lookups ask the new filters.
//  5. run begins again with step 1 until a pass has nothing to do.
//
// Compactions go on meanwhile. A table that one of them removes gets no filter, and one
// that moves keeps it. Before step 4 a file is pending: nothing names it, and discard
// removes it.

// A FilterRebuild reports what RebuildFilters has done.
type FilterRebuild struct {
	Tables       int   // tables that were still there when it looked at them
	Rebuilt      int   // tables that got a new filter
	Gone         int   // tables that were compacted away before they got theirs
	Reloaded     int   // tables whose filter could not be read before, and is in memory now
	BytesWritten int64 // files of new filters

	// The sizes of the tables' filters, resident or not. One that can't be used
	// counts for nothing.
	FilterBytesBefore, FilterBytesAfter int64
}

// RebuildFilters gives a new filter to every table whose filter is not what the options of
// this handle call for. The filter is in a file next to the table: no data is written
// again. The options call for a hash function ([Tuning.FilterHash]), for the last level a kind
// (LastLevelFilter), and by FilterBits or FilterMemory for a number of bits a key in each
// level. A filter with at least nine tenths of these is left alone, and so is one with more
// if there is room for it. A table without a filter, or with one that is damaged, gets one.
// A filter that could not be read is read again.
//
// It reads the keys of these tables, and takes 8 bytes of memory for each key of one table
// at a time. Lookups, writes and compactions go on meanwhile. Each new filter is in use as
// soon as it is durable, so what was done before an error stays done. Damaged tables are
// passed over, and the first such error is returned at the end. Any other error ends the call.
func (i Inspector) RebuildFilters(ctx context.Context) (FilterRebuild, error) {
	db := i.db
	if err := db.beginUsable(ctx); err != nil {
		return FilterRebuild{}, err
	}
	defer db.life.Calls.Done()
	if db.opts.FilterBits < 0 {
		return FilterRebuild{}, errors.New("shale: rebuild filters: option FilterBits is negative, which calls for none")
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	// Close waits for this call, so Close must also end it.
	defer context.AfterFunc(db.life.Context, cancel)()
	end, err := db.filters.BeginRebuild(ctx) // one call at a time: two would do the same work
	if err != nil {
		return FilterRebuild{}, db.rebuildError(err)
	}
	defer end()
	// Whether a filter may stay depends on whether there is room for it in memory. That is not
	// known of filters that Open has left for later.
	if err := db.filters.AwaitLoaded(ctx); err != nil {
		return FilterRebuild{}, db.rebuildError(err)
	}
	r := rebuild{db: db, ctx: ctx}
	r.reload()
	if err := r.run(); err != nil {
		return r.report, db.rebuildError(err)
	}
	return r.report, nil
}

// reload reads filters again that could not be read. The store does so by itself, too, but later.
func (r *rebuild) reload() {
	if v := r.db.mems.Acquire(); v != nil {
		r.report.Reloaded = r.db.filters.Reload(v.Version)
		r.db.tree.Release(v.Version)
	}
}

// rebuildError gives an error its context. If Close has ended the call, that is ErrClosed.
func (db *DB) rebuildError(err error) error {
	if db.life.Closing() {
		return ErrClosed
	}
	return fmt.Errorf("shale: rebuild filters: %w", err)
}

// A rebuild is one call of RebuildFilters. One goroutine uses it.
type rebuild struct {
	db      *DB
	ctx     context.Context
	report  FilterRebuild
	builder bloom.StaticBuilder
	made    []*newFilter             // written, and not installed yet
	bytes   int64                    // in the files of made
	damage  error                    // the first that kept a table from getting a filter, for the end
	want    filterplan.WantedFilters // of the pass under way
	again   bool                     // this is not the first pass: the report has counted the tables
}

// A newFilter is a sidecar that is written and not in use yet. install sets filter, which
// it reads back from the file.
type newFilter struct {
	table   *tree.Table
	sidecar *tree.Sidecar
	filter  *sstable.LoadedFilter
	before  int64 // bytes of the filter in use
}

// Filters are installed once installFilterBytes of them, or installFilters and a 64th of those
// of all tables, have been written. Each edit copies the list of tables, and the memory of the
// filters is summed up again over all of them. With 16 filters an edit, 100,000 tables took
// more than 6,000 edits.
const (
	installFilters     = 16
	installParts       = 64
	installFilterBytes = 8 << 20
)

// rebuildPasses limits how often run looks at the tables. Compactions may go on changing
// what filters they should have.
const rebuildPasses = 4

// run makes passes until one finds nothing to do. One pass may not be enough: where
// FilterMemory is short, a filter that comes into memory may push another one out. An error
// ends it, and gives up what is not installed. Damage that kept a table from getting a
// filter is returned at the end.
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

// pass looks at each table of the current version once. When it returns nil, all filters
// that it made are installed.
func (r *rebuild) pass() error {
	v := r.db.mems.Acquire()
	if v == nil {
		return ErrClosed
	}
	var tables []*tree.Table
	for _, run := range v.Runs {
		tables = append(tables, run.Tables...)
	}
	r.want = r.db.wantedFilters(v.Version)
	// The version is not kept for the whole pass, which may take long: files that
	// compactions replace would pile up. table takes a reference for each table.
	r.db.tree.Release(v.Version)
	enough := max(installFilters, len(tables)/installParts)
	for _, t := range tables {
		err := r.table(t)
		if err == nil && (len(r.made) >= enough || r.bytes >= installFilterBytes) {
			err = r.install()
		}
		if err != nil {
			return err
		}
	}
	return r.install()
}

// table makes a filter for t if it needs one. It does nothing if t was compacted away. If t
// is damaged, it notes that in r.damage and passes t over. Any other error ends the
// rebuild.
func (r *rebuild) table(t *tree.Table) error {
	if err := base.ContextError(r.ctx); err != nil {
		return err
	}
	v := r.db.mems.Acquire() // its files stay until this table is done
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
		return err // what can't be read may be whole; only a damaged filter is made again
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
	// A sidecar that can't be used is replaced at any rate, because each Open and Verify
	// would report it again.
	broken := now.Table.Sidecar != nil && t.Reader.Sidecar() == nil
	if !broken && want.SatisfiedBy(storedFilter(stored), t.Filter()) {
		return nil
	}
	read := sstable.IterOptions{NoFill: true, Readahead: compactionReadahead}
	built, err := t.Reader.BuildFilter(r.ctx, read, &r.builder, want.StaticOptions, want.PrefixRule)
	if err != nil {
		return r.unreadable(err)
	}
	made, err := bloom.OpenStatic(built.Bytes)
	if err != nil {
		return err
	}
	// What was built may be the same filter again: see SameAs.
	if !broken && storedFilter(stored).SameAs(filterplan.StoredFilter{Filter: made, PrefixRule: built.Rule}) {
		return nil
	}
	return r.write(t, built, want.BitsPerKey, before)
}

// wantedFilters returns the filters that the options call for in the tables of v. It counts
// what the filters take as they are stored, not what of them is in memory.
func (db *DB) wantedFilters(v *tree.Version) filterplan.WantedFilters {
	stored := int64(0)
	for t := range v.Tables() {
		stored += t.Reader.StoredFilterBytes()
	}
	tree := compaction.FilterTree(v.Meta, nil, db.planOptions())
	return db.filterPolicy().WantedFilters(tree, db.counters.probeShares(emptyLevels(v.Meta)), v.Meta.NumTables(), stored)
}

// storedFilter describes a filter to package filterplan. A nil l means that there is none.
func storedFilter(l *sstable.LoadedFilter) filterplan.StoredFilter {
	if l == nil {
		return filterplan.StoredFilter{}
	}
	return filterplan.StoredFilter{Filter: l.Filter(), PrefixRule: l.PrefixRule()}
}

// unreadable notes damage, so that the table is passed over, and returns nil. It returns
// any other error, which ends the rebuild.
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

// write writes a filter into a sidecar and syncs the file, but not its name. If it fails,
// it removes the file.
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

// install makes the filters of r.made durable and then the ones that lookups ask. This is
// the order of invariant 6: files, directory, manifest, view. write has synced the files.
// install reads each filter back from its file, which checks it. After an error the filters
// stay in r.made, and the caller discards them.
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
	// This removes the files whose tables are gone.
	r.discard()
	return nil
}

// installFilters puts filters next to those of their tables that are still there, in one
// edit, and returns these filters. After an error lookups go on with the old filters.
func (db *DB) installFilters(made []*newFilter) (done []*newFilter, err error) {
	e := db.tree.Begin()
	defer e.End()
	edit := new(manifest.Edit)
	var sidecars []*tree.Sidecar
	for _, m := range made {
		now, there := e.Old.Meta.Current(m.table.Meta)
		if !there {
			continue
		}
		edit.Sidecars = append(edit.Sidecars, manifest.SidecarChange{Level: now.Level, Num: now.Table.Num, Sidecar: m.sidecar.Meta, Table: now.Table})
		sidecars = append(sidecars, m.sidecar)
		done = append(done, m)
	}
	if len(done) == 0 {
		return nil, nil
	}
	if err := e.Log(edit, nil, sidecars); err != nil {
		return nil, err
	}
	// The tables stay the same, so lookups under way may ask the one filter or the
	// other. Both know all keys of the table.
	for _, m := range done {
		m.table.UseSidecar(m.sidecar, m.filter)
	}
	old := db.mems.End(db.mems.Begin(e.Next))
	db.installed(e, old)
	return done, nil
}

// discard empties r.made, and removes the files of filters that did not come into use. It
// leaves alone those that the manifest may name, because appending the edit failed: these
// are not pending any more (see tree.Change.Log).
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
