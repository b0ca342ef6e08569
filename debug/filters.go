package debug

import (
	"cmp"
	"fmt"
	"net/http"
	"slices"
	"strconv"

	"github.com/shaledb/shale"
	"github.com/shaledb/shale/internal/quoting"
	"github.com/shaledb/shale/internal/treepicture"
)

// shortKey is the largest number of characters that are shown of a key. A page or a picture
// must not grow with keys of 64 KiB.
const shortKey = 48

// worstTables is the largest number of tables in the list.
const worstTables = 10

// A filterUse is the panel of filters, as JSON.
type filterUse struct {
	Levels []levelFilters `json:"levels"`
	Worst  []tableFilter  `json:"worst"`
}

// A levelFilters is a level that has tables, and its filters.
type levelFilters struct {
	Level          int     `json:"level"`
	Runs           int     `json:"runs"`
	Tables         int     `json:"tables"`
	Bytes          int64   `json:"bytes"`
	Entries        uint64  `json:"entries"`
	Tombstones     uint64  `json:"tombstones"`
	Expiring       uint64  `json:"expiring"` // those that are over included
	FilterBytes    int64   `json:"filterBytes"`
	FilterBits     float64 `json:"filterBits"`
	KeyShare       float64 `json:"keyShare"`
	PredictedFPR   float64 `json:"predictedFPR"`
	MeasuredFPR    float64 `json:"measuredFPR"`
	Asked          uint64  `json:"asked"`
	FalsePositives uint64  `json:"falsePositives"`
}

// A tableFilter is a table and its filter.
type tableFilter struct {
	Level        int     `json:"level"`
	Run          int     `json:"run"`
	Table        uint64  `json:"table"`
	Kind         string  `json:"kind"`
	File         string  `json:"file,omitempty"` // empty: the filter is in the table
	Bits         float64 `json:"bits"`
	Bytes        int64   `json:"bytes"`
	PredictedFPR float64 `json:"predictedFPR"`
	MeasuredFPR  float64 `json:"measuredFPR"`
	Asked        uint64  `json:"asked"`
	Smallest     string  `json:"smallest"`
	Largest      string  `json:"largest"`
}

// filters returns the panel of filters: all levels, and the tables whose filters are worst.
func (h *handler) filters(*http.Request) (any, error) {
	u := filterUse{Levels: []levelFilters{}, Worst: []tableFilter{}}
	for _, l := range h.db.Metrics().Levels {
		if l.Tables > 0 {
			u.Levels = append(u.Levels, levelFilters{
				Level: l.Level, Runs: l.Runs, Tables: l.Tables, Bytes: l.Bytes, Entries: l.Entries, Tombstones: l.Tombstones, Expiring: l.Expiring,
				FilterBytes: l.FilterBytes, FilterBits: l.FilterBits, KeyShare: l.KeyShare,
				PredictedFPR: l.PredictedFPR, MeasuredFPR: l.MeasuredFPR, Asked: l.FilterAsked, FalsePositives: l.FalsePositive,
			})
		}
	}
	tables := h.db.Inspect().Tables()
	slices.SortStableFunc(tables, func(a, b shale.TableInfo) int {
		return cmp.Or(cmp.Compare(harm(b), harm(a)), cmp.Compare(b.PredictedFPR, a.PredictedFPR))
	})
	for _, t := range tables[:min(worstTables, len(tables))] {
		u.Worst = append(u.Worst, tableFilter{
			Level: t.Level, Run: t.Run, Table: t.Number, Kind: t.FilterKind, File: t.FilterFile, Bits: t.FilterBits, Bytes: t.FilterBytes,
			PredictedFPR: t.PredictedFPR, MeasuredFPR: t.MeasuredFPR, Asked: t.Asked,
			Smallest: quoting.Short(t.Smallest, shortKey), Largest: quoting.Short(t.Largest, shortKey),
		})
	}
	return u, nil
}

// harm returns the factor by which the filter of t lets pass more absent keys than
// predicted. A few lookups say little, so harm adds 1000 lookups that meet the prediction.
// A table without a filter is always worse than one with a filter.
func harm(t shale.TableInfo) float64 {
	if t.Asked == 0 && t.FilterBytes > 0 {
		return 1 // exactly, so that the prediction decides between tables that nobody has asked
	}
	const doubt = 1000
	p := max(t.PredictedFPR, 1e-9)
	measured := (t.MeasuredFPR*float64(t.Asked) + p*doubt) / (float64(t.Asked) + doubt)
	if t.FilterBytes == 0 {
		return 1e9 * measured // no filter at all
	}
	return measured / p
}

// serveTree draws the tables over the keys, as SVG.
func (h *handler) serveTree(w http.ResponseWriter, r *http.Request) error {
	tables := h.db.Inspect().Tables()
	if tables == nil {
		return shale.ErrClosed
	}
	o := treepicture.Options{By: treepicture.ByFPR}
	if !slices.ContainsFunc(tables, func(t shale.TableInfo) bool { return t.Asked > 0 }) {
		o.By = treepicture.ByBits // nothing was measured
	}
	if by := r.FormValue("by"); by != "" {
		var ok bool
		if o.By, ok = treepicture.ParseColouring(by); !ok {
			return fmt.Errorf("%w: by is fpr, bits or size", errBad)
		}
	}
	if text := r.FormValue("width"); text != "" {
		var err error
		if o.Width, err = strconv.Atoi(text); err != nil || o.Width < 1 || o.Width > 10000 {
			return fmt.Errorf("%w: width is no number of pixels", errBad)
		}
	}
	if len(tables) == 0 {
		var err error
		if o.Memory, err = h.inMemory(); err != nil {
			return err
		}
	}
	w.Header().Set("Content-Type", "image/svg+xml; charset=utf-8")
	_ = treepicture.Draw(w, levelsOf(tables), o) // an error means that the client is gone
	return nil
}

// inMemory returns what the memtables have, or nil if that is no key. Requires: there are no tables, so that all keys are
// in memtables.
func (h *handler) inMemory() (*treepicture.Table, error) {
	m := h.db.Metrics()
	memory := &treepicture.Table{Size: m.MemtableBytes, Entries: uint64(m.MemtableEntries)}
	for _, end := range []struct {
		key     *[]byte
		reverse bool
	}{{&memory.Smallest, false}, {&memory.Largest, true}} {
		for entry, err := range h.db.Scan(shale.Range{Reverse: end.reverse, KeysOnly: true, Limit: 1}) {
			if err != nil {
				return nil, err
			}
			*end.key = append([]byte{}, entry.Key...)
		}
	}
	if memory.Smallest == nil || memory.Largest == nil {
		return nil, nil
	}
	return memory, nil
}

// levelsOf returns the tables in the form that treepicture takes. Requires: they
// are sorted by level.
func levelsOf(tables []shale.TableInfo) []treepicture.Level {
	var levels []treepicture.Level
	for _, t := range tables { // level by level
		if n := len(levels); n == 0 || levels[n-1].Number != t.Level {
			levels = append(levels, treepicture.Level{Number: t.Level})
		}
		l := &levels[len(levels)-1]
		p := treepicture.Table{
			Number: t.Number, Run: t.Run, Smallest: t.Smallest, Largest: t.Largest,
			Size: t.Size, Entries: t.Entries, Tombstones: t.Tombstones,
			FilterBits: t.FilterBits, PredictedFPR: t.PredictedFPR, MeasuredFPR: t.MeasuredFPR, Asked: t.Asked, Rank: t.Rank,
		}
		if t.FilterBytes > 0 {
			p.Filter = t.FilterKind
		}
		l.Tables = append(l.Tables, p)
	}
	return levels
}
