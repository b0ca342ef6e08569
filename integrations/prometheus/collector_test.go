package shaleprom

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/shaledb/shale"
	"github.com/shaledb/shale/debug"
	"github.com/shaledb/shale/vfs"
)

// open returns a store with entries in tables, and lookups behind it.
func open(t testing.TB) *shale.DB {
	t.Helper()
	db, err := shale.Open("db", &shale.Options{FS: vfs.NewMem(), CompactionWorkers: -1})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	for i := range 2000 {
		if err := db.Put(fmt.Appendf(nil, "key %d", i), []byte("value")); err != nil {
			t.Fatal(err)
		}
	}
	if err := db.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	for i := range 100 {
		if _, err := db.Has(fmt.Appendf(nil, "key %d", 20*i)); err != nil {
			t.Fatal(err)
		}
		if _, err := db.Has(fmt.Appendf(nil, "absent %d", i)); err != nil {
			t.Fatal(err)
		}
	}
	return db
}

// page returns what a handler answers to GET /metrics.
func page(t *testing.T, h http.Handler) string {
	t.Helper()
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	if w.Code != http.StatusOK {
		t.Fatalf("status %d: %s", w.Code, w.Body)
	}
	return w.Body.String()
}

// What client_golang serves is what the page of package debug serves, sample for sample, help and
// type included, but for the order: so a dashboard for one fits the other.
func TestCollector_SameAsDebug(t *testing.T) {
	db := open(t)
	reg := prometheus.NewPedanticRegistry()
	reg.MustRegister(NewCollector(db))
	lines := func(h http.Handler) []string {
		all := strings.Split(page(t, h), "\n")
		slices.Sort(all)
		return all
	}
	ours, want := lines(promhttp.HandlerFor(reg, promhttp.HandlerOpts{})), lines(debug.Handler(db))
	if len(want) < 200 {
		t.Fatalf("the page of package debug has only %d lines", len(want))
	}
	for i, line := range want {
		if i >= len(ours) || ours[i] != line {
			t.Fatalf("sorted line %d of %d: %q, want %q", i, len(ours), ours[min(i, len(ours)-1)], line)
		}
	}
	if len(ours) != len(want) {
		t.Errorf("%d lines, want %d", len(ours), len(want))
	}
}

func TestCollector_Values(t *testing.T) {
	db := open(t)
	want := `# HELP shale_gets_total Point lookups.
# TYPE shale_gets_total counter
shale_gets_total 200
# HELP shale_get_hits_total Point lookups that found their key.
# TYPE shale_get_hits_total counter
shale_get_hits_total 100
# HELP shale_writes_total Operations written.
# TYPE shale_writes_total counter
shale_writes_total 2000
`
	if err := testutil.CollectAndCompare(NewCollector(db), strings.NewReader(want),
		"shale_gets_total", "shale_get_hits_total", "shale_writes_total"); err != nil {
		t.Error(err)
	}
}

// promtool's rules for names, helps and units. One name keeps its unit: a filter's size is given in
// bits a key everywhere.
func TestCollector_Lint(t *testing.T) {
	problems, err := testutil.CollectAndLint(NewCollector(open(t)))
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range problems {
		if p.Metric == "shale_level_filter_bits_per_key" && strings.Contains(p.Text, `"bits"`) {
			continue
		}
		t.Errorf("%s: %s", p.Metric, p.Text)
	}
}

func TestCollector_SeveralStores(t *testing.T) {
	reg := prometheus.NewPedanticRegistry()
	for _, name := range []string{"hosts", "users"} {
		if err := prometheus.WrapRegistererWith(prometheus.Labels{"store": name}, reg).Register(NewCollector(open(t))); err != nil {
			t.Fatal(err)
		}
	}
	got := page(t, promhttp.HandlerFor(reg, promhttp.HandlerOpts{}))
	for _, line := range []string{`shale_gets_total{store="hosts"} 200`, `shale_gets_total{store="users"} 200`, `shale_level_tables{level="6",store="users"} 0`} {
		if !strings.Contains(got, line+"\n") {
			t.Errorf("no %s", line)
		}
	}
}

// A store that is closed has no metrics, neither old ones nor zeros, and does not fail the page
// of the program.
func TestCollector_Closed(t *testing.T) {
	db := open(t)
	reg := prometheus.NewPedanticRegistry()
	reg.MustRegister(NewCollector(db))
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	if got := page(t, promhttp.HandlerFor(reg, promhttp.HandlerOpts{})); got != "" {
		t.Errorf("a closed store shows %.200s", got)
	}
}

func TestCollector_Concurrent(t *testing.T) {
	db := open(t)
	c := NewCollector(db)
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for i := range 50 {
				if n := testutil.CollectAndCount(c); n < 100 && n != 0 {
					t.Errorf("%d series", n)
				}
				if err := db.Put(fmt.Appendf(nil, "other %d", i), nil); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
}

// BenchmarkCollect gives the cost of one collection, and of the whole page that client_golang serves.
func BenchmarkCollect(b *testing.B) {
	c := NewCollector(open(b))
	b.Run("collect", func(b *testing.B) {
		n := 0
		for b.Loop() {
			to := make(chan prometheus.Metric, 1000)
			c.Collect(to)
			n = len(to)
		}
		b.ReportMetric(float64(n), "series")
	})
	b.Run("page", func(b *testing.B) {
		reg := prometheus.NewRegistry()
		reg.MustRegister(c)
		h := promhttp.HandlerFor(reg, promhttp.HandlerOpts{DisableCompression: true})
		for b.Loop() {
			h.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, "/metrics", nil))
		}
	})
}
