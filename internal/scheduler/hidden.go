package scheduler

import (
	"github.com/shaledb/shale/compaction"
	"github.com/shaledb/shale/internal/base"
	"github.com/shaledb/shale/internal/spans"
	"github.com/shaledb/shale/manifest"
)

// A hiddenParts remembers what Env.Hidden has said of tables under the range deletes of one version: each pick asks for all
// tables, and few of them change.
type hiddenParts struct {
	spans  *spans.Set
	tables map[hiddenIn]hiddenPart
}

type hiddenIn struct {
	table base.FileNum
	seen  base.Seq
}

type hiddenPart struct {
	share float64
	parts int
}

// planOptionsLocked returns the options for a Pick of meta. Requires: mu is held, also during the Pick.
func (s *Scheduler) planOptionsLocked(meta *manifest.Version) compaction.Options {
	opts := s.env.Options()
	opts.Hidden = func(t *manifest.Table, seen base.Seq) (share float64, parts int) {
		h := &s.hidden
		if h.spans != meta.Spans {
			h.spans, h.tables = meta.Spans, make(map[hiddenIn]hiddenPart)
		}
		at := hiddenIn{t.Num, seen}
		p, known := h.tables[at]
		if !known {
			p.share, p.parts = s.env.Hidden(meta.Spans, t, seen)
			h.tables[at] = p
		}
		return p.share, p.parts
	}
	return opts
}
