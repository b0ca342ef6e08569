package debug

import (
	"fmt"
	"net/http"

	"github.com/shaledb/shale"
	"github.com/shaledb/shale/internal/quoting"
)

// shortValue is the largest number of characters that are shown of a value, and
// of the key that was asked for.
const shortValue = 1000

// An explanation is the panel of one lookup, as JSON.
type explanation struct {
	Key            string  `json:"key"`
	Found          bool    `json:"found"`
	ValueBytes     int     `json:"valueBytes"`
	Value          *string `json:"value"` // null: not found, or not to be shown
	Steps          []step  `json:"steps"`
	SaidNo         int     `json:"saidNo"` // filters of tables that denied the key
	FalsePositives int     `json:"falsePositives"`
	Covered        int     `json:"covered"` // tables that would be searched without filters
	BlocksRead     int     `json:"blocksRead"`
	BytesRead      int64   `json:"bytesRead"`
	Seconds        float64 `json:"seconds"`
	Expected       float64 `json:"expectedFalsePositives"`
	Measured       float64 `json:"measuredFPR"`
	RangeDelete    string  `json:"rangeDelete,omitempty"` // the newest range delete that covers the key, in words
}

// A step is a memtable or a run that the lookup came to.
type step struct {
	Place   string  `json:"place"`
	Level   int     `json:"level"` // -1 for a memtable
	Run     int     `json:"run"`
	Table   uint64  `json:"table"` // 0: none of the run covers the key
	Only    uint64  `json:"only"`  // the only table of the run; 0: it has more
	Verdict string  `json:"verdict"`
	Expires int64   `json:"expires,omitempty"` // when the value that is here is over
	Blocks  []block `json:"blocks"`
	Seconds float64 `json:"seconds"`
}

// A block is a block of a table that the lookup needed.
type block struct {
	Kind   string `json:"kind"`
	Offset int64  `json:"offset"`
	Bytes  int64  `json:"bytes"`
	Cached bool   `json:"cached"`
}

// explain looks up the key of ?key=, which is written as in the command.
func (h *handler) explain(r *http.Request) (any, error) {
	if !r.URL.Query().Has("key") {
		return nil, fmt.Errorf("%w: write ?key=KEY, bare, with quotes or in hexadecimal", errBad)
	}
	key, _, err := quoting.Parse(r.FormValue("key"))
	if err != nil {
		return nil, fmt.Errorf("%w: the key: %w", errBad, err)
	}
	x, err := h.db.Inspect().Explain([]byte(key))
	if err != nil {
		return nil, err
	}
	out := explanation{
		Key: quoting.Short(key, shortValue), Found: x.Found, ValueBytes: len(x.Value), Steps: []step{},
		Seconds: x.Duration.Seconds(), Expected: x.ExpectedFalsePositives, Measured: x.MeasuredFPR,
	}
	out.BlocksRead, out.BytesRead = x.BlocksRead()
	if x.RangeDelete != nil {
		out.RangeDelete = x.RangeDelete.String()
	}
	if x.Found && h.showValues {
		value := quoting.Short(x.Value, shortValue)
		out.Value = &value
	}
	for _, s := range x.Steps {
		out.add(s)
	}
	return out, nil
}

// add appends a step, and counts it.
func (x *explanation) add(s shale.ExplainStep) {
	if s.Table != 0 {
		x.Covered++
		switch s.Verdict {
		case shale.FilterNegative:
			x.SaidNo++
		case shale.FalsePositive, shale.Remembered:
			x.FalsePositives++
		}
	}
	out := step{Place: s.Place, Level: s.Level, Run: s.Run, Table: s.Table, Only: s.Only, Verdict: s.Verdict.String(), Seconds: s.Duration.Seconds(), Blocks: []block{}}
	if !s.Expiry.IsZero() {
		out.Expires = s.Expiry.UnixMilli()
	}
	for _, b := range s.Blocks {
		out.Blocks = append(out.Blocks, block{b.Kind, b.Offset, b.Bytes, b.Cached})
	}
	x.Steps = append(x.Steps, out)
}
