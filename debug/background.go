package debug

import (
	"net/http"

	"github.com/shaledb/shale"
)

// compactionsShown is the largest number of flushes and compactions in the list.
const compactionsShown = 200

// A work is a flush or a compaction, as JSON.
type work struct {
	Kind     string  `json:"kind"` // flush or compaction
	From     int64   `json:"from"`
	To       int64   `json:"to"`
	Seconds  float64 `json:"seconds"`
	Level    int     `json:"level"` // of the output
	BytesIn  int64   `json:"bytesIn"`
	BytesOut int64   `json:"bytesOut"`
	Tables   int     `json:"tables"` // in the output, as far as they are remembered
	Reason   string  `json:"reason"`
}

// compactions returns the last flushes and compactions, the oldest first.
func (h *handler) compactions(*http.Request) (any, error) {
	list := []work{}
	for _, e := range h.db.Inspect().RecentEvents() {
		if e.Kind == shale.EventFlush || e.Kind == shale.EventCompaction {
			list = append(list, work{
				Kind: e.Kind.String(), From: e.Time.Add(-e.Duration).UnixMilli(), To: e.Time.UnixMilli(), Seconds: e.Duration.Seconds(),
				Level: e.Level, BytesIn: e.BytesIn, BytesOut: e.BytesOut, Tables: len(e.Tables), Reason: e.Reason,
			})
		}
	}
	return list[max(0, len(list)-compactionsShown):], nil
}

// A stallUse is the panel of stalls: the times that writers had to wait.
type stallUse struct {
	Seconds   float64 `json:"seconds"` // that writers have waited since the store was opened
	Memtables float64 `json:"memtables"`
	Level0    float64 `json:"level0"`
	Writes    uint64  `json:"writes"`
	List      []stall `json:"list"`
}

// A stall is a period in which writers had to wait.
type stall struct {
	From    int64   `json:"from"`
	To      int64   `json:"to"`      // 0: it has not ended
	Seconds float64 `json:"seconds"` // that writers have waited in it
	Reason  string  `json:"reason"`
}

// stalls returns the panel of stalls.
func (h *handler) stalls(*http.Request) (any, error) {
	m := h.db.Metrics()
	return stallUse{
		Seconds: m.StallTime.Seconds(), Memtables: m.StallMemtables.Seconds(), Level0: m.StallLevel0.Seconds(),
		Writes: m.StalledWrites, List: stallsOf(h.db.Inspect().RecentEvents()),
	}, nil
}

// stallsOf pairs the ends of stalls with their beginnings, the oldest first. The
// beginning of a stall may be forgotten. Its place is then computed from the time
// that writers waited.
func stallsOf(events []shale.Event) []stall {
	list := []stall{}
	open := map[string]int{} // indexes in list of stalls without an end, by reason
	for _, e := range events {
		switch e.Kind {
		case shale.EventStallBegin:
			open[e.Reason] = len(list)
			list = append(list, stall{From: e.Time.UnixMilli(), Reason: e.Reason})
		case shale.EventStallEnd:
			i, begun := open[e.Reason]
			if !begun {
				i = len(list)
				list = append(list, stall{From: e.Time.Add(-e.Duration).UnixMilli(), Reason: e.Reason})
			}
			list[i].To, list[i].Seconds = e.Time.UnixMilli(), e.Duration.Seconds()
			delete(open, e.Reason)
		}
	}
	return list
}

// A mishap is an event that is none of the usual work.
type mishap struct {
	At     int64  `json:"at"`
	Kind   string `json:"kind"`
	Reason string `json:"reason,omitempty"`
	Error  string `json:"error,omitempty"`
}

// trouble returns what has gone wrong lately, the newest first: all events that are not
// flushes, compactions and stalls.
func (h *handler) trouble(*http.Request) (any, error) {
	list := []mishap{}
	events := h.db.Inspect().RecentEvents()
	for i := len(events) - 1; i >= 0; i-- {
		e := events[i]
		switch e.Kind {
		case shale.EventFlush, shale.EventCompaction, shale.EventStallBegin, shale.EventStallEnd:
			continue
		}
		x := mishap{At: e.Time.UnixMilli(), Kind: e.Kind.String(), Reason: e.Reason}
		if e.Err != nil {
			x.Error = e.Err.Error()
		}
		list = append(list, x)
	}
	return list, nil
}
