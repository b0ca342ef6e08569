package bloom

import (
	"github.com/shaledb/shale/bloom/internal/form"
	"github.com/shaledb/shale/bloom/internal/lines"
)

// Geometry of the blocked filter. Part of the file format, never changes.
const (
	lineBits  = form.LineBits  // of a line, into which all probes of a key fall
	lineBytes = form.LineBytes // a cache line
	firstK    = lines.MinProbes
	maxK      = lines.MaxProbes
)

// probeMul is an odd multiplier that turns a hash into probes. Part of the file format.
const probeMul = form.ProbeMul
