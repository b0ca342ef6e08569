package shale

import (
	"fmt"

	"github.com/shaledb/shale/compaction"
	"github.com/shaledb/shale/internal/base"
	"github.com/shaledb/shale/internal/tree"
	"github.com/shaledb/shale/manifest"
	"github.com/shaledb/shale/sstable"
	"github.com/shaledb/shale/vfs"
)

// A sink takes the tables that a flush or a compaction writes: it numbers and
// creates the files, and opens them when they are complete. One goroutine
// uses it.
type sink struct {
	db     *DB
	level  int
	bits   float64 // of filter a key
	ingest bool    // entries get their sequence number when they are installed
	metas  []*manifest.Table
	tables []*tree.Table
	bytes  int64
}

func (db *DB) newSink(level int, bits float64) *sink {
	return &sink{db: db, level: level, bits: bits}
}

// newOutput begins a table.
func (s *sink) newOutput() (compaction.Output, error) {
	db := s.db
	num := db.tree.NewPending()
	f, err := db.fs.Create(db.path(base.TableName(num)))
	if err != nil {
		return nil, err
	}
	w := sstable.NewWriter(f, sstable.WriterOptions{
		Num:        num,
		StoreID:    db.storeID,
		BlockSize:  db.opts.BlockSize,
		Codec:      db.opts.Compression.codec(),
		FilterBits: s.bits,
		FilterKind: db.filterPolicy().Kind(s.level),
		Hasher:     db.hasher,
		PrefixRule: db.opts.FilterPrefix.rule,
		Ingested:   s.ingest,
	})
	return &output{Writer: w, file: f, num: num, sink: s}, nil
}

// An output is a table in the making.
type output struct {
	*sstable.Writer
	file vfs.File
	num  base.FileNum
	sink *sink
}

// Finish completes the table, makes it durable and closes its file, or removes
// it.
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
	})
	return nil
}

// Abandon gives the table up.
func (o *output) Abandon() {
	o.Writer.Abandon()
	_ = o.file.Close() // the file is deleted anyhow
	o.sink.db.tree.RemovePending(o.num, base.TableName(o.num))
}

// open makes the directory entries of the tables durable and opens them.
func (s *sink) open() error {
	if len(s.metas) == 0 {
		return nil
	}
	if err := s.db.fs.SyncDir(s.db.dir); err != nil {
		return fmt.Errorf("shale: sync directory: %w", err)
	}
	for _, meta := range s.metas {
		t, err := s.db.tree.OpenTable(meta, true)
		if err != nil {
			return err
		}
		s.db.reportFilter(t)
		s.tables = append(s.tables, t)
	}
	return nil
}

// discard gives up the tables that did not get into a version, so that a full
// disk is not made fuller by each attempt. Those that the manifest may name,
// because appending the edit failed, are not pending any more: see tree.Tree.Install.
func (s *sink) discard() {
	for _, t := range s.tables {
		t.Close()
	}
	for _, meta := range s.metas {
		s.db.tree.RemovePending(meta.Num, base.TableName(meta.Num))
	}
}

// sinks are those of a compaction's sub-ranges.
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
