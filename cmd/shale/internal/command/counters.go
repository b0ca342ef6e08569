package command

import (
	"github.com/shaledb/shale/cmd/shale/internal/output"
	"github.com/shaledb/shale/internal/monitor"
)

// showCounters prints all metrics as a table with a value on each line, for modes other than text. They have the names of
// the page /metrics of package debug, so that what a dashboard shows can be looked up here, and the other way round.
func (s *Session) showCounters(state monitor.State) error {
	g := output.NewGrid("metric", "of", ">value")
	for _, f := range monitor.Families {
		for at, value := range f.All(&state) {
			of := output.NoCell("")
			if f.Label != "" {
				of = output.Cell{Text: f.Label + " " + at}
			}
			g.Row(f.Name, of, output.FloatCell("%g", value))
		}
	}
	return s.Show(g)
}
