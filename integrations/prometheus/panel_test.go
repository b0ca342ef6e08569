package shaleprom

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/shaledb/shale"
	"github.com/shaledb/shale/debug"
)

// places returns a panel such as that of package remotedebug. Its rows fail with *failure.
func places(failure *error) debug.Panel {
	return debug.Panel{
		Title: "Where the tables are", Metric: "shale_places", Labels: []string{"level", "place"}, Columns: []string{"tables", "bytes"},
		Rows: func() (rows []debug.Row, err error) {
			for level := range 3 {
				for i, place := range []string{"local", "both", "bucket"} {
					rows = append(rows, debug.Row{Labels: []string{fmt.Sprint(level), place}, Values: []float64{float64(level), float64(1000 * i)}})
				}
			}
			return rows, *failure
		},
	}
}

// The gauges of a panel are those of the text page of package debug, line by line.
func TestPanelCollector_SameAsDebug(t *testing.T) {
	db, p := open(t), places(new(error))
	reg := prometheus.NewPedanticRegistry()
	reg.MustRegister(NewCollector(db), NewPanelCollector(p))
	sorted := func(h http.Handler) []string { return slices.Sorted(strings.Lines(page(t, h))) }
	got, want := sorted(promhttp.HandlerFor(reg, promhttp.HandlerOpts{})), sorted(debug.Handler(db, debug.WithPanel(p)))
	if !slices.Equal(got, want) || !slices.Contains(got, `shale_places_bytes{level="2",place="bucket"} 2000`+"\n") {
		t.Errorf("%d lines, want %d:\n%s", len(got), len(want), got)
	}
	if problems, err := testutil.CollectAndLint(NewPanelCollector(p)); err != nil || len(problems) > 0 {
		t.Errorf("promtool: %v, %v", problems, err)
	}
}

// Of a store that is closed there is nothing, and another error fails the page.
func TestPanelCollector_Fails(t *testing.T) {
	var failure error
	reg := prometheus.NewPedanticRegistry()
	reg.MustRegister(NewPanelCollector(places(&failure)))
	failure = fmt.Errorf("places: %w", shale.ErrClosed)
	if got := page(t, promhttp.HandlerFor(reg, promhttp.HandlerOpts{})); got != "" {
		t.Errorf("a closed store shows %.200s", got)
	}
	failure = errors.New("no places")
	w := httptest.NewRecorder()
	promhttp.HandlerFor(reg, promhttp.HandlerOpts{}).ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	if w.Code != http.StatusInternalServerError || !strings.Contains(w.Body.String(), failure.Error()) {
		t.Errorf("status %d: %.200s", w.Code, w.Body)
	}
}
