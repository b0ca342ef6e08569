package shale

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/shaledb/shale/bloom"
	"github.com/shaledb/shale/bundle"
	"github.com/shaledb/shale/filterplan"
	"github.com/shaledb/shale/internal/base"
	"github.com/shaledb/shale/internal/memqueue"
	"github.com/shaledb/shale/internal/tree"
	"github.com/shaledb/shale/memtable"
	"github.com/shaledb/shale/sstable"
)

// This file has ExportFilters, which writes all filters of a store into one file.

// ExportInfo describes what ExportFilters wrote.
type ExportInfo struct {
	Seq       uint64 // every key that was there at this sequence number is answered maybe
	Bytes     int64  // that were written
	Runs      int    // lists of tables that do not overlap: a lookup asks one filter of each at most
	Tables    int    // all of them
	Keys      uint64 // of all tables; one that is in several runs counts in each
	Memtables int    // runs of keys that were still in memtables
	NoFilter  int    // tables that answer maybe to every key between their bounds
}

// An export takes these steps, on its caller's goroutine:
//
//  1. take flushes the memtables, and fixes the state of one sequence number: it holds a
//     view, and lists the tables of each run in a bundle.Spec. Memtables that still have
//     entries become runs too, with filters made for them.
//  2. write has package bundle write the file. bundle.Write calls filter for each table,
//     which reads the filter from its file. So only one filter of a table is in memory at a
//     time.
//  3. release gives the view back.
//
// The bundle never denies a key that was there at its number (invariant 1 of
// docs/ARCHITECTURE.md): a table whose filter can't be used has only its bounds in the
// bundle.

// ExportFilters writes the filters of the store to w as one file, a bundle,
// which answers MayContain where the store is not: see package bundle. It is of
// one state: whatever was written before the call is known to it. Filters that
// FilterMemory keeps out of memory are read from their files, whole.
//
// The memtables are flushed first. Where that fails, or the store is read-only,
// their keys get filters of their own. Of tables without a usable filter the
// bundle has the bounds. Reads and writes go on meanwhile, as compactions do,
// but the files of the tables stay until ExportFilters returns. What w has got
// before an error is not a bundle.
//
// Under the [FilterHash] SipHash, the bundle has the store's secret in it.
func (i Inspector) ExportFilters(ctx context.Context, w io.Writer) (ExportInfo, error) {
	db := i.db
	if err := db.life.Begin(); err != nil {
		return ExportInfo{}, err
	}
	defer db.life.Calls.Done()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	// Close waits for this call, so Close must also end it.
	defer context.AfterFunc(db.life.Context, cancel)()
	x := &filterExport{db: db, ctx: ctx}
	defer x.release()
	err := x.take()
	if err == nil {
		err = x.write(w)
	}
	switch {
	case err == nil:
		return x.info, nil
	case db.life.Closing():
		return ExportInfo{}, ErrClosed
	}
	return ExportInfo{}, fmt.Errorf("shale: export filters: %w", err)
}

// A filterExport is a bundle that is being made. One goroutine uses it.
type filterExport struct {
	db   *DB
	ctx  context.Context
	view *memqueue.View // held until release; nil: not taken yet
	spec bundle.Spec
	info ExportInfo
	// sources has, for each table of each run in spec, where its filter comes from.
	sources [][]filterSource
	buf     []byte
}

// A filterSource is where the filter of a table comes from: a table of the store, or bytes
// that were made for the export. If it has neither, there is no filter.
type filterSource struct {
	table   *tree.Table
	sidecar *sstable.Sidecar // the sidecar with the table's filter; nil: the filter is in the table
	made    []byte
}

// take fixes the state. The snapshot keeps flushes and compactions from dropping what was
// there at its number until the version is held: a key that was there and is deleted
// meanwhile is still in a table then. The view is loaded after the number is taken, so all
// writes up to that number are in it.
func (x *filterExport) take() error {
	db := x.db
	_ = db.Flush(x.ctx) // what is left in memtables gets filters below
	if err := base.ContextError(x.ctx); err != nil {
		return err
	}
	s, err := db.Snapshot()
	if err != nil {
		return err
	}
	x.view = s.acquireAll()
	_ = s.Close() // the first time it does not fail
	if x.view == nil {
		return ErrClosed
	}
	x.info.Seq = s.Seq()
	x.spec = bundle.Spec{StoreID: db.storeID, Seq: s.Seq(), Created: db.opts.testing.now()}
	if err := x.addMemtables(s.held.Seq); err != nil {
		return err
	}
	for _, r := range x.view.Runs {
		x.addRun(r)
	}
	return base.ContextError(x.ctx)
}

// release gives back what take holds, if anything.
func (x *filterExport) release() {
	if x.view != nil {
		x.db.mems.Unpin(x.view)
	}
}

// addMemtables makes a run of each memtable that has something up to seq.
func (x *filterExport) addMemtables(seq base.Seq) error {
	mems := []*memtable.Memtable{x.view.Mem}
	for _, imm := range x.view.Imms {
		mems = append(mems, imm.Mem)
	}
	for _, mem := range mems {
		t, filter, err := x.db.filterOfMemtable(x.ctx, mem, seq)
		if err != nil {
			return err
		}
		if t.Keys == 0 {
			continue
		}
		x.spec.Runs = append(x.spec.Runs, bundle.Run{Tables: []bundle.Table{t}})
		x.sources = append(x.sources, []filterSource{{made: filter}})
		x.info.Memtables++
	}
	return nil
}

// filterOfMemtable makes the table that a flush of the memtable's entries up to seq would
// make, as far as a bundle is concerned. Writes to the memtable may go on. Requires: the
// caller keeps mem pinned as long as it uses t, whose bounds lie in it.
func (db *DB) filterOfMemtable(ctx context.Context, mem *memtable.Memtable, seq base.Seq) (t bundle.Table, filter []byte, err error) {
	it := mem.NewIterator()
	defer it.Close()
	var hashes []uint64
	for kv := it.First(); kv != nil; kv = it.Next() {
		if len(hashes)%1024 == 0 && ctx.Err() != nil {
			return t, nil, base.ContextError(ctx)
		}
		if kv.Trailer.Seq() > seq || len(hashes) > 0 && string(kv.UserKey) == string(t.Largest) {
			continue
		}
		if len(hashes) == 0 {
			t.Smallest = kv.UserKey // it stays as it is while the memtable is pinned
		}
		t.Largest = kv.UserKey
		hashes = append(hashes, db.hasher.Hash(kv.UserKey))
	}
	if t.Keys = uint64(len(hashes)); t.Keys > 0 {
		filter, err = bloom.AppendStatic(nil, hashes, bloom.StaticOptions{BitsPerKey: filterplan.FlushBits, Hasher: db.hasher})
	}
	return t, filter, err
}

// addRun lists the tables of a run. A sidecar is taken from the view, whose files are held,
// because RebuildFilters may put another in its place meanwhile.
func (x *filterExport) addRun(r *tree.Run) {
	run := bundle.Run{Level: r.Level}
	var sources []filterSource
	for _, t := range r.Tables {
		run.Tables = append(run.Tables, bundle.Table{Smallest: t.Meta.Smallest, Largest: t.Meta.Largest, Keys: t.Reader.Props().Keys})
		sources = append(sources, filterSource{table: t, sidecar: x.db.tree.SidecarOf(x.view.Version, t)})
	}
	if len(run.Tables) > 0 {
		x.spec.Runs, x.sources = append(x.spec.Runs, run), append(x.sources, sources)
	}
}

// write writes the bundle.
func (x *filterExport) write(w io.Writer) (err error) {
	for _, r := range x.spec.Runs {
		x.info.Runs++
		x.info.Tables += len(r.Tables)
		for _, t := range r.Tables {
			x.info.Keys += t.Keys
		}
	}
	x.info.Bytes, err = bundle.Write(w, &x.spec, x.filter)
	return err
}

// filter returns the filter of a table of a run in spec, for bundle.Write, in memory that
// the next call uses again. It is asked twice for each table. A filter that is of no use
// the first time is none the second time too, so that both answers are the same.
func (x *filterExport) filter(run, table int) ([]byte, error) {
	if x.db.life.Context.Err() != nil {
		return nil, ErrClosed
	}
	if err := base.ContextError(x.ctx); err != nil {
		return nil, err
	}
	s := &x.sources[run][table]
	if s.table == nil {
		return s.made, nil
	}
	var err error
	x.buf, err = s.table.Reader.AppendFilter(x.buf[:0], s.sidecar)
	if unusable(err) {
		if s.table.Reader.FilterErr() == nil { // else it was reported when the table was opened
			x.db.events.emit(Event{Kind: EventFilterUnusable, Tables: []uint64{uint64(s.table.Meta.Num)}, Err: err})
		}
		err = nil
	}
	if err == nil && len(x.buf) == 0 {
		s.table = nil
		x.info.NoFilter++
	}
	return x.buf, err
}

// unusable reports whether err says that a filter is there and can't be used, rather than
// that it could not be read.
func unusable(err error) bool {
	var damage *CorruptionError
	return errors.As(err, &damage) || errors.Is(err, ErrFormatTooNew)
}
