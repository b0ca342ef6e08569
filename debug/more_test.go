package debug

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/shaledb/shale"
)

// A panel that was added is on the page, in JSON and in the metrics, and its error is that of the request.
func TestWithPanel(t *testing.T) {
	var failure error
	p := Panel{
		Title: "Where tables are", Metric: "shale_places", Labels: []string{"level", "place"}, Columns: []string{"tables", "bytes"},
		Rows: func() ([]Row, error) {
			return []Row{{[]string{"5", `a "bucket"` + "\n"}, []float64{3, 1e12}}, {[]string{"6", "both"}, []float64{0, 0}}}, failure
		},
	}
	db := openStore(t)
	h := Handler(db, WithPanel(p))
	more := decode[[]panelNow](t, get(t, h, "/api/more"))
	if len(more) != 1 || more[0].Title != p.Title || !slices.Equal(more[0].Labels, p.Labels) || len(more[0].Rows) != 2 || more[0].Rows[0].Values[1] != 1e12 {
		t.Errorf("api/more: %+v", more)
	}
	metrics := get(t, h, "/metrics")
	for _, line := range []string{
		"# HELP shale_places_bytes Where tables are.", "# TYPE shale_places_bytes gauge",
		`shale_places_tables{level="5",place="a \"bucket\"\n"} 3`, `shale_places_bytes{level="5",place="a \"bucket\"\n"} 1e+12`, `shale_places_bytes{level="6",place="both"} 0`,
	} {
		if !strings.Contains(metrics, line+"\n") {
			t.Errorf("metrics lack %s", line)
		}
	}
	if none := get(t, Handler(db), "/api/more"); none != "[]\n" {
		t.Errorf("api/more without a panel: %q", none)
	}
	for err, want := range map[error]int{shale.ErrClosed: http.StatusServiceUnavailable, errors.New("no"): http.StatusInternalServerError} {
		failure = err
		for _, target := range []string{"/metrics", "/api/more", "/?format=json"} {
			if got := ask(t, h, "GET", target).StatusCode; got != want {
				t.Errorf("%s with %v: status %d, want %d", target, err, got, want)
			}
		}
	}
}

// In a browser a panel that was added is a table with the units of its columns, and nothing is cut off in a narrow window. One without
// rows says so.
func TestPage_AddedPanels(t *testing.T) {
	b := findBrowser(t)
	var rows []Row
	for level := range 7 {
		for _, place := range []string{"local", "both", "bucket <i>of another country</i>, " + strings.Repeat("far-away", 10)} {
			rows = append(rows, Row{[]string{fmt.Sprint(level), place}, []float64{1234, 5 << 30}})
		}
	}
	p := Panel{
		Title: "Where tables are", Metric: "shale_places", Labels: []string{"level", "place"}, Columns: []string{"tables", "bytes"},
		Rows: func() ([]Row, error) { return rows, nil },
	}
	none := Panel{Title: "Nothing", Labels: p.Labels, Columns: p.Columns, Rows: func() ([]Row, error) { return nil, nil }}
	dom, beyond := b.inFrames(t, Handler(openStore(t), WithPanel(none), WithPanel(p)), 320, 400, 1280)
	if len(beyond) > 0 {
		t.Errorf("beyond the edge of the window: %v", beyond)
	}
	if got := section(dom, "more"); !strings.Contains(got, "Nothing so far.") || strings.Contains(got, "<table") {
		t.Errorf("a panel without rows: %s", got)
	}
	_, dom, _ = strings.Cut(dom, "Where tables are")
	for _, want := range []string{"<td>L6</td>", "<td>both</td>", `<td class="right">1,234</td>`, `<td class="right">5.0 GiB</td>`, "bucket &lt;i&gt;of"} {
		if got, _, _ := strings.Cut(dom, "</section>"); !strings.Contains(got, want) {
			t.Errorf("the panel lacks %s: %.600s", want, got)
		}
	}
}
