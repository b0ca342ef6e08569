package debug

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"
)

// A Panel is a table of numbers that another package knows about the store, such as where its tables are if a bucket has some
// of them. The page shows it, api/more has it as JSON, and each of its columns is a gauge for Prometheus.
type Panel struct {
	Title   string                // what it is called on the page, and, as a sentence, in the help of the gauges
	Metric  string                // what the names of the gauges begin with: shale_places becomes shale_places_bytes
	Labels  []string              // what tells the rows apart, such as level
	Columns []string              // what the numbers are, such as tables; bytes are shown with their units
	Rows    func() ([]Row, error) // the present rows; any number of goroutines may call it
}

// A Row is a row of a Panel: a value for each label, and a number for each column.
type Row struct {
	Labels []string  `json:"labels"`
	Values []float64 `json:"values"`
}

// WithPanel adds a panel.
func WithPanel(p Panel) Option { return func(h *handler) { h.more = append(h.more, p) } }

// A panelNow is a Panel with its present rows.
type panelNow struct {
	Title   string   `json:"title"`
	Labels  []string `json:"labels"`
	Columns []string `json:"columns"`
	Rows    []Row    `json:"rows"`
}

// addedPanels returns the panels that were added.
func (h *handler) addedPanels(*http.Request) (any, error) {
	all := make([]panelNow, len(h.more))
	for i, p := range h.more {
		rows, err := p.Rows()
		if err != nil {
			return nil, err
		}
		all[i] = panelNow{p.Title, p.Labels, p.Columns, rows}
	}
	return all, nil
}

// labelValue escapes the value of a label.
var labelValue = strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`)

// writePanels writes the gauges of the panels that were added in Prometheus' text format.
func (h *handler) writePanels(w *strings.Builder) error {
	for _, p := range h.more {
		rows, err := p.Rows()
		if err != nil {
			return err
		}
		for i, column := range p.Columns {
			name := p.Metric + "_" + column
			fmt.Fprintf(w, "# HELP %s %s.\n# TYPE %s gauge\n", name, p.Title, name)
			for _, r := range rows {
				labels := make([]string, len(p.Labels))
				for j, label := range p.Labels {
					labels[j] = label + `="` + labelValue.Replace(r.Labels[j]) + `"`
				}
				fmt.Fprintf(w, "%s{%s} %s\n", name, strings.Join(labels, ","), strconv.FormatFloat(r.Values[i], 'g', -1, 64))
			}
		}
	}
	return nil
}
