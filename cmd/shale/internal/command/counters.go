package command

import (
	"github.com/shaledb/shale"
	"github.com/shaledb/shale/cmd/shale/internal/output"
	"github.com/shaledb/shale/debug"
)

// showCounters prints all metrics as a table with a value on each line, for modes other than text. They have the names of
// the page /metrics, so that what a dashboard shows can be looked up here, and the other way round.
func (s *Session) showCounters(m shale.Metrics) error {
	g := output.NewGrid("metric", "of", ">value")
	for _, sample := range debug.Samples(m) {
		of := output.NoCell("")
		if sample.Of != "" {
			of = output.Cell{Text: sample.Of}
		}
		g.Row(sample.Name, of, output.FloatCell("%g", sample.Value))
	}
	return s.Show(g)
}
