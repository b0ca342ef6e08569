// Package remotedebug shows on the page of package debug what package remote knows of a store. It is a package of its own so
// that programs without such a page link nothing of it.
package remotedebug

import (
	"strconv"

	"github.com/shaledb/shale/debug"
	"github.com/shaledb/shale/remote"
)

// Places returns the option of debug.Handler that shows where the tables of a store are: on the local disk, in the bucket, or
// in both places. The gauges for Prometheus are shale_places_tables and shale_places_bytes, with a level and a place.
func Places(s *remote.Store) debug.Option { return debug.WithPanel(PlacesPanel(s)) }

// PlacesPanel returns the panel of Places, from which the modules integrations/prometheus and integrations/otel make the same
// gauges.
func PlacesPanel(s *remote.Store) debug.Panel {
	return debug.Panel{
		Title: "Where the tables are", Metric: "shale_places", Labels: []string{"level", "place"}, Columns: []string{"tables", "bytes"},
		Rows: func() ([]debug.Row, error) {
			levels, err := s.Places()
			var rows []debug.Row
			for _, l := range levels {
				for _, p := range []struct {
					place string
					sum   remote.TableSum
				}{{"local", l.Local}, {"both", l.Both}, {"bucket", l.Bucket}} {
					rows = append(rows, debug.Row{Labels: []string{strconv.Itoa(l.Level), p.place}, Values: []float64{float64(p.sum.Tables), float64(p.sum.Bytes)}})
				}
			}
			return rows, err
		},
	}
}
