package shale

import (
	"github.com/shaledb/shale/internal/base"
	"github.com/shaledb/shale/internal/keys"
	"github.com/shaledb/shale/internal/tree"
	"github.com/shaledb/shale/sstable"
)

// This file has Tables, which describes the tables of a store.

// A TableInfo describes a table of the store.
type TableInfo struct {
	Level, Run        int    // run 0 is the newest of its level
	Number            uint64 // which its file is named after
	Size              int64  // bytes on disk
	Entries           uint64 // versions of keys, tombstones included
	Tombstones        uint64 // deletions
	Expiring          uint64 // entries that expire, those that are over included
	Smallest, Largest []byte // the keys that bound it, both inclusive; owned by the caller

	FilterKind  string  // "blocked", "fuse", "none", "not in memory", or why it can't be used
	FilterHash  string  // the function that it hashes keys with; empty: there is no filter
	FilterFile  string  // that the filter is in; empty: in the table
	FilterBits  float64 // a key, of the filter in memory; 0: there is none
	FilterBytes int64   // that it takes in memory
	// PredictedFPR is the share of absent keys that the filter's layout lets through: 1 without a filter in memory.
	// MeasuredFPR is the share that it has let through since Open, or since it came into use, and Asked the number of
	// those lookups. They are counted on one lookup in 16, with more than two CPUs on fewer, and weighted.
	PredictedFPR, MeasuredFPR float64
	Asked                     uint64

	reader *sstable.Reader // nil in a TableInfo that Tables has not made
}

// Rank returns about which share of the table's entries lies before key, from 0 to 1. It reads
// nothing: it knows the keys that bound the blocks if the table's index is in memory, and takes
// those between for spread evenly. It works on a closed store too.
func (t TableInfo) Rank(key []byte) float64 {
	if t.reader == nil {
		return keys.Between(t.Smallest, t.Largest, key)
	}
	return t.reader.Rank(key)
}

// Tables lists the tables, level by level, in each the newest run first, in
// each run in key order. It returns nil on a closed store, and only there.
func (i Inspector) Tables() []TableInfo {
	db := i.db
	v := db.mems.Acquire()
	if v == nil {
		return nil
	}
	defer db.tree.Release(v.Version)
	infos := make([]TableInfo, 0, v.Meta.NumTables())
	for _, r := range v.Runs {
		for _, t := range r.Tables {
			infos = append(infos, tableInfo(r, t))
		}
	}
	return infos
}

// tableInfo describes table t of run r.
func tableInfo(r *tree.Run, t *tree.Table) TableInfo {
	m := t.Meta
	smallest, largest := cloneBoth(m.Smallest, m.Largest)
	info := TableInfo{
		Level: r.Level, Run: r.Nth,
		Number: uint64(m.Num), Size: m.Size, Entries: m.Entries, Tombstones: m.Tombstones, Expiring: m.Expiring,
		Smallest: smallest, Largest: largest,
		FilterKind: "none", PredictedFPR: t.PredictedFPR(), reader: t.Reader,
	}
	if f := t.Filter(); f != nil {
		info.FilterKind = f.Kind().String()
		info.FilterHash = f.Hasher().ID().String()
		info.FilterBits = f.BitsPerKey()
		info.FilterBytes = int64(f.SizeBytes())
	} else if t.Reader.Sidecar() == nil || t.MissingFilter(false) > 0 {
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

// cloneBoth returns copies of a and b, which are not nil. It allocates once: Tables copies the
// bounds of all tables.
func cloneBoth(a, b []byte) ([]byte, []byte) {
	both := make([]byte, 0, len(a)+len(b))
	both = append(append(both, a...), b...)
	return both[:len(a):len(a)], both[len(a):]
}

// whyUnusable returns the reason why neither the filter in the table nor the one next to it can
// be used, or that it is not in memory. If neither is so it returns kind.
func whyUnusable(t *tree.Table, kind string) string {
	for _, err := range []error{t.Reader.FilterErr(), t.Reader.SidecarErr()} {
		if err != nil {
			return err.Error()
		}
	}
	if t.MissingFilter(false) > 0 {
		return "not in memory"
	}
	return kind
}
