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

// A TableInfo describes a table of the store.
type TableInfo struct {
	Level, Run        int // run 0 is the newest of its level
	Number            uint64
	Size              int64 // bytes on disk
	Entries           uint64
	Tombstones        uint64
	Smallest, Largest []byte // the keys that bound it, both inclusive; owned by the caller

	FilterKind  string // "blocked", "fuse", "none", or why it can't be used
	FilterHash  string // the function that it hashes keys with; empty: there is no filter
	FilterFile  string // that the filter is in; empty: in the table
	FilterBits  float64
	FilterBytes int64
	// PredictedFPR is what the filter's layout promises, 1 without a filter.
	// MeasuredFPR is the share of lookups of absent keys that it let through
	// since Open, or since it came into use, Asked their number (counted on one
	// lookup in 16, weighted).
	PredictedFPR, MeasuredFPR float64
	Asked                     uint64
}

// Tables lists the tables, level by level, in each the newest run first, in
// each run in key order. It returns nil on a closed store, and only there.
func (db *DB) Tables() []TableInfo {
	v := db.acquireView()
	if v == nil {
		return nil
	}
	defer db.tree.Release(v.Version)
	infos := []TableInfo{}
	for _, r := range v.Runs {
		for _, t := range r.Tables {
			infos = append(infos, tableInfo(r, t))
		}
	}
	return infos
}

// tableInfo describes a table of a run.
func tableInfo(r *tree.Run, t *tree.Table) TableInfo {
	m := t.Meta
	info := TableInfo{
		Level: r.Level, Run: r.Nth,
		Number: uint64(m.Num), Size: m.Size, Entries: m.Entries, Tombstones: m.Tombstones,
		Smallest: cloneNonNil(m.Smallest), Largest: cloneNonNil(m.Largest),
		FilterKind: "none", PredictedFPR: t.PredictedFPR(),
	}
	if f := t.Filter(); f != nil {
		info.FilterKind = f.Kind().String()
		info.FilterHash = f.Hasher().ID().String()
		info.FilterBits = f.BitsPerKey()
		info.FilterBytes = int64(f.SizeBytes())
	} else if t.Reader.Sidecar() == nil {
		info.FilterKind = whyUnusable(t, info.FilterKind)
	}
	if s := t.Reader.Sidecar(); s != nil {
		info.FilterFile = base.FilterName(s.Num())
	}
	fp := t.FalsePositives.Load()
	info.Asked = fp + t.Negatives.Load()
	info.MeasuredFPR = ratio(fp, info.Asked)
	return info
}

// whyUnusable says why neither filter can be used, or kind if there is no reason.
func whyUnusable(t *tree.Table, kind string) string {
	for _, err := range []error{t.Reader.FilterErr(), t.Reader.SidecarErr()} {
		if err != nil {
			return err.Error()
		}
	}
	return kind
}

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
