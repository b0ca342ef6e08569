package shale

import (
	"fmt"

	"github.com/shaledb/shale/bloom"
	"github.com/shaledb/shale/compaction"
	"github.com/shaledb/shale/internal/base"
	"github.com/shaledb/shale/internal/tree"
	"github.com/shaledb/shale/manifest"
	"github.com/shaledb/shale/sstable"
	"github.com/shaledb/shale/vfs"
)

// This file has how flushes, ingestions and compactions write tables.

// A sink creates the tables that a flush, an ingestion or a part of a compaction writes. One
// goroutine at a time uses it.
//
//  1. newOutput numbers and creates a file. The caller adds entries to the output.
//  2. output.Finish makes the bytes of the table durable and closes the file.
//  3. open syncs the directory, once for all tables, and opens them.
//  4. The caller installs the tables (see DB.installed): it appends them to the manifest and then
//     to the view.
//
// This is the order of invariant 6. If the manifest named a table before its bytes and its
// directory entry are durable, then after a crash the store could lack that table.
//
// After any failure the caller calls discard, which removes what no version has.
type sink struct {
	// Constant.
	db     *DB
	level  int     // that the tables are planned for; it decides the kind of their filters
	bits   float64 // filter bits a key
	ingest bool    // entries get their sequence number when they are installed

	builder bloom.StaticBuilder // memory for the filters of all tables

	metas  []*manifest.Table // the tables that are finished
	tables []*tree.Table     // those of them that are open
	bytes  int64             // on disk, of metas
}

func (db *DB) newSink(level int, bits float64) *sink {
	return &sink{db: db, level: level, bits: bits}
}

// newOutput begins a table. Its number is pending until the table is in a version
// or is given up: only files that are pending may be removed as leftovers of a failure.
func (s *sink) newOutput() (compaction.Output, error) {
	db := s.db
	num := db.tree.NewPending()
	f, err := db.fs.Create(db.path(base.TableName(num)))
	if err != nil {
		db.tree.RemovePending(num, base.TableName(num))
		return nil, err
	}
	w := sstable.NewWriter(f, sstable.WriterOptions{
		Num:        num,
		StoreID:    db.storeID,
		Session:    db.session,
		BlockSize:  db.opts.BlockSize,
		Codec:      db.opts.Compression.codec(),
		FilterBits: s.bits,
		FilterKind: db.filterPolicy().Kind(s.level),
		Hasher:     db.hasher,
		Builder:    &s.builder,
		PrefixRule: db.opts.Tuning.FilterPrefix.rule,
		Ingested:   s.ingest,

		IndexPartition: db.opts.indexPartition(s.level),
	})
	return &output{Writer: w, file: f, num: num, sink: s}, nil
}

// An output is a table in the making. It implements compaction.Output: exactly one of Finish
// and Abandon ends it.
type output struct {
	*sstable.Writer
	file vfs.File
	num  base.FileNum
	sink *sink
}

// Finish completes the table, makes its bytes durable, closes its file, and notes what the
// manifest has to know of it. If that fails, it removes the file. The directory entry is not
// durable before sink.open.
func (o *output) Finish() error {
	info, err := o.Writer.Finish()
	if cerr := o.file.Close(); err == nil {
		err = cerr
	}
	if err != nil {
		o.sink.db.tree.RemovePending(o.num, base.TableName(o.num))
		return err
	}
	o.sink.bytes += info.Size
	o.sink.metas = append(o.sink.metas, &manifest.Table{
		Num:      o.num,
		Size:     info.Size,
		Checksum: info.Checksum,
		Smallest: info.Smallest, Largest: info.Largest,
		MinSeq: info.MinSeq, MaxSeq: info.MaxSeq,
		Entries: info.Entries, Tombstones: info.Tombstones, Keys: info.Keys,
		RawKeyBytes: info.RawKeyBytes, RawValueBytes: info.RawValueBytes,
		FilterBytes: info.FilterBytes, FilterBits: info.FilterBits,
		Facts: tableFacts(info),
	})
	return nil
}

// Abandon gives the table up and removes its file.
func (o *output) Abandon() {
	o.Writer.Abandon()
	_ = o.file.Close() // the file is deleted anyhow
	o.sink.db.tree.RemovePending(o.num, base.TableName(o.num))
}

// open makes the directory entries of the finished tables durable, and opens the tables. It
// reports filters that can't be used. On an error, some of the tables may be open already: the
// caller calls discard. Requires: no output is unfinished.
func (s *sink) open() error {
	if len(s.metas) == 0 {
		return nil
	}
	if err := s.db.fs.SyncDir(s.db.dir); err != nil {
		return fmt.Errorf("shale: sync directory: %w", err)
	}
	for _, meta := range s.metas {
		t, err := s.db.tree.OpenTable(meta)
		if err != nil {
			return err
		}
		s.db.reportFilter(t)
		s.tables = append(s.tables, t)
	}
	return nil
}

// clean notes what the merge that wrote the tables says of all of them.
func (s *sink) clean(r compaction.MergeResult) {
	for _, meta := range s.metas {
		meta.Clean = r.Clean
	}
}

// discard closes the tables and removes their files, so that a full disk is not made fuller by
// each attempt. It leaves the files that the manifest may name because appending the edit has
// failed: the next Open may need them. They are not pending any more: see tree.Change.Log.
func (s *sink) discard() {
	for _, t := range s.tables {
		t.Close()
	}
	for _, meta := range s.metas {
		s.db.tree.RemovePending(meta.Num, base.TableName(meta.Num))
	}
}

// sinks are those of a compaction's sub-ranges, in the order of keys.
type sinks []*sink

func (all sinks) tables() []*tree.Table {
	var tables []*tree.Table
	for _, s := range all {
		tables = append(tables, s.tables...)
	}
	return tables
}

func (all sinks) discard() {
	for _, s := range all {
		s.discard()
	}
}
