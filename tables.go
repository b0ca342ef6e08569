package shale

import (
	"github.com/shaledb/shale/internal/base"
	"github.com/shaledb/shale/internal/tree"
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
