package debug

import (
	"net/http"
	"slices"

	"github.com/shaledb/shale/internal/monitor"
)

// A panel is a part of the page, as JSON. Times are in milliseconds since 1970, durations
// in seconds, and rates are shares from 0 to 1.
type panel struct {
	name string
	of   func(*handler, *http.Request) (any, error)
}

// panels returns all panels but explain, which needs a key.
func panels() []panel {
	return []panel{
		{"overview", (*handler).overview},
		{"metrics", (*handler).metrics},
		{"filters", (*handler).filters},
		{"cache", (*handler).cache},
		{"memory", (*handler).memory},
		{"transactions", (*handler).transactions},
		{"expiry", (*handler).expiry},
		{"compactions", (*handler).compactions},
		{"stalls", (*handler).stalls},
		{"trouble", (*handler).trouble},
		{"rates", (*handler).sampledRates},
		{"more", (*handler).addedPanels},
	}
}

// open returns ErrClosed if the store is closed: a closed store returns it for a
// new snapshot.
func (h *handler) open() error {
	s, err := h.db.Snapshot()
	if err != nil {
		return err
	}
	return s.Close()
}

// serveAPI writes the panel of this name, or the list of names if it is empty.
func (h *handler) serveAPI(w http.ResponseWriter, r *http.Request, name string) error {
	if err := h.open(); err != nil {
		return err
	}
	if name == "" {
		names := []string{"explain"}
		for _, p := range panels() {
			names = append(names, p.name)
		}
		slices.Sort(names)
		return serveJSON(w, names)
	}
	of := (*handler).explain
	if name != "explain" {
		all := panels()
		i := slices.IndexFunc(all, func(p panel) bool { return p.name == name })
		if i < 0 {
			return errNoPage
		}
		of = all[i].of
	}
	v, err := of(h, r)
	if err != nil {
		return err
	}
	return serveJSON(w, v)
}

// serveAll writes all panels as one object.
func (h *handler) serveAll(w http.ResponseWriter, r *http.Request) error {
	if err := h.open(); err != nil {
		return err
	}
	all := map[string]any{}
	for _, p := range panels() {
		v, err := p.of(h, r)
		if err != nil {
			return err
		}
		all[p.name] = v
	}
	return serveJSON(w, all)
}

// An overview is the first panel.
type overview struct {
	Title         string  `json:"title"`
	AsOf          int64   `json:"asOf"` // 0: the present time
	Note          string  `json:"note,omitempty"`
	Error         string  `json:"error,omitempty"` // why the store takes no writes
	Tables        int     `json:"tables"`
	Entries       uint64  `json:"entries"` // including deletions and older versions
	Bytes         int64   `json:"bytes"`
	Gets          uint64  `json:"gets"`
	Hits          uint64  `json:"hits"`
	ReadsSaved    uint64  `json:"readsSaved"`   // questions to filters that were answered with no
	PredictedFPR  float64 `json:"predictedFPR"` // false positives of a lookup of an absent key
	MeasuredFPR   float64 `json:"measuredFPR"`
	WriteAmp      float64 `json:"writeAmp"`
	SpaceAmp      float64 `json:"spaceAmp"`
	Flushing      int     `json:"flushing"`
	Compacting    int     `json:"compacting"`
	Debt          int64   `json:"debt"` // bytes that compactions still have to rewrite
	OpenIterators int64   `json:"openIterators"`
	OpenSnapshots int64   `json:"openSnapshots"`
}

// overview returns the first panel.
func (h *handler) overview(*http.Request) (any, error) {
	m := h.db.Metrics()
	asOf, note := h.state()
	o := overview{
		Title: h.title, Note: note, Entries: uint64(m.MemtableEntries),
		Gets: m.Gets, Hits: m.GetHits, ReadsSaved: m.FilterNegative,
		PredictedFPR: m.PredictedFPR(), WriteAmp: m.WriteAmp(), SpaceAmp: m.SpaceAmp(),
		Flushing: m.Flushing, Compacting: m.Compacting, Debt: m.CompactionDebt,
		OpenIterators: m.OpenIterators, OpenSnapshots: m.OpenSnapshots,
		MeasuredFPR: share(m.FilterFalsePositive, m.GetMisses),
	}
	if !asOf.IsZero() {
		o.AsOf = asOf.UnixMilli()
	}
	if err := h.db.Err(); err != nil {
		o.Error = err.Error()
	}
	for _, l := range m.Levels {
		o.Tables += l.Tables
		o.Entries += l.Entries
		o.Bytes += l.Bytes
	}
	return o, nil
}

// metrics returns the values that /metrics returns, except for those with labels,
// under the same names.
func (h *handler) metrics(*http.Request) (any, error) {
	s, err := monitor.StateOf(h.db)
	if err != nil {
		return nil, err
	}
	values := map[string]float64{}
	for _, f := range monitor.Families {
		if f.Label != "" {
			continue
		}
		for _, v := range f.All(&s) {
			values[f.Name] = v
		}
	}
	return values, nil
}

// A cacheUse is the panel of the block cache.
type cacheUse struct {
	Hits       uint64  `json:"hits"`
	Misses     uint64  `json:"misses"`
	HitRatio   float64 `json:"hitRatio"`
	Bytes      int64   `json:"bytes"`
	BlockReads uint64  `json:"blockReads"`
	ReadBytes  uint64  `json:"readBytes"`
	// Remembered counts false positives that cost no block, because an earlier lookup had
	// proven that the key is absent.
	Remembered      uint64 `json:"remembered"`
	RememberedBytes int64  `json:"rememberedBytes"`
}

// cache returns the panel of the block cache.
func (h *handler) cache(*http.Request) (any, error) {
	m := h.db.Metrics()
	return cacheUse{
		Hits: m.CacheHits, Misses: m.CacheMisses, HitRatio: share(m.CacheHits, m.CacheHits+m.CacheMisses), Bytes: m.CacheMemory,
		BlockReads: m.BlockReads, ReadBytes: m.BlockReadBytes,
		Remembered: m.FalsePositivesRemembered, RememberedBytes: m.FalsePositiveMemory,
	}, nil
}

// A memoryUse is the memory of one part of the store.
type memoryUse struct {
	Owner string `json:"owner"`
	Bytes int64  `json:"bytes"`
}

// memory returns the panel of memory.
func (h *handler) memory(*http.Request) (any, error) {
	m := h.db.Metrics()
	return []memoryUse{
		{"memtables", m.MemtableMemory}, {"block cache", m.CacheMemory}, {"filters", m.FilterMemory},
		{"indexes", m.IndexMemory}, {"proven false positives", m.FalsePositiveMemory}, {"range deletes", m.RangeDeleteMemory},
	}, nil
}

// A txnUse is the panel of transactions that write.
type txnUse struct {
	Commits               uint64  `json:"commits"`
	Conflicts             uint64  `json:"conflicts"`
	Tries                 float64 `json:"tries"` // that a commit takes; 0 without a commit
	Open                  int64   `json:"open"`
	OldestSnapshotSeconds float64 `json:"oldestSnapshotSeconds"`
}

// transactions returns the panel of transactions.
func (h *handler) transactions(*http.Request) (any, error) {
	m := h.db.Metrics()
	return txnUse{m.TxnCommits, m.TxnConflicts, share(m.TxnCommits+m.TxnConflicts, m.TxnCommits), m.OpenTxns, m.OldestSnapshotAge.Seconds()}, nil
}

// An expiryUse is the panel of values that expire.
type expiryUse struct {
	Expiring uint64 `json:"expiring"` // entries of tables, those that are over included
	Entries  uint64 `json:"entries"`  // all of tables
	Met      uint64 `json:"met"`      // lookups that met a value which was over
	Misses   uint64 `json:"misses"`   // all lookups that found nothing
}

// expiry returns the panel of values that expire.
func (h *handler) expiry(*http.Request) (any, error) {
	m := h.db.Metrics()
	x := expiryUse{Met: m.GetExpired, Misses: m.GetMisses}
	for _, l := range m.Levels {
		x.Expiring, x.Entries = x.Expiring+l.Expiring, x.Entries+l.Entries
	}
	return x, nil
}

// share returns a / b, or 0 if b is 0.
func share(a, b uint64) float64 {
	if b == 0 {
		return 0
	}
	return float64(a) / float64(b)
}
