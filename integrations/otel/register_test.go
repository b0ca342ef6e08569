package shaleotel

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
	"github.com/shaledb/shale"
	"github.com/shaledb/shale/debug"
	"github.com/shaledb/shale/vfs"
	"go.opentelemetry.io/otel/attribute"
	otelprometheus "go.opentelemetry.io/otel/exporters/prometheus"
	"go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	"go.opentelemetry.io/otel/sdk/metric/metricdata/metricdatatest"
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
	}
	return db
}

// collect returns what reader collects, by name. There is one scope.
func collect(t testing.TB, reader *metric.ManualReader) map[string]metricdata.Metrics {
	t.Helper()
	var rm metricdata.ResourceMetrics
	if err := reader.Collect(t.Context(), &rm); err != nil {
		t.Fatal(err)
	}
	all := map[string]metricdata.Metrics{}
	for _, scope := range rm.ScopeMetrics {
		for _, m := range scope.Metrics {
			all[m.Name] = m
		}
	}
	return all
}

func TestRegister_Values(t *testing.T) {
	db, reader := open(t), metric.NewManualReader()
	meter := metric.NewMeterProvider(metric.WithReader(reader)).Meter("test")
	store := attribute.String("store", "hosts")
	if _, err := Register(meter, db, store); err != nil {
		t.Fatal(err)
	}
	got := collect(t, reader)
	none := metricdatatest.IgnoreTimestamp()
	metricdatatest.AssertEqual(t, metricdata.Metrics{
		Name: "shale_gets_total", Description: "Point lookups.",
		Data: metricdata.Sum[float64]{Temporality: metricdata.CumulativeTemporality, IsMonotonic: true,
			DataPoints: []metricdata.DataPoint[float64]{{Attributes: attribute.NewSet(store), Value: 100}}},
	}, got["shale_gets_total"], none)
	metricdatatest.AssertEqual(t, metricdata.Metrics{
		Name: "shale_stall_seconds_total", Description: "Time that writers were held back, by cause.", Unit: "s",
		Data: metricdata.Sum[float64]{Temporality: metricdata.CumulativeTemporality, IsMonotonic: true,
			DataPoints: []metricdata.DataPoint[float64]{
				{Attributes: attribute.NewSet(store, attribute.String("cause", "memtables"))},
				{Attributes: attribute.NewSet(store, attribute.String("cause", "level0"))},
			}},
	}, got["shale_stall_seconds_total"], none)
	tables := metricdata.Gauge[float64]{}
	for level := range shale.NumLevels {
		tables.DataPoints = append(tables.DataPoints, metricdata.DataPoint[float64]{
			Attributes: attribute.NewSet(store, attribute.String("level", fmt.Sprint(level))),
			Value:      float64(db.Metrics().Levels[level].Tables),
		})
	}
	metricdatatest.AssertEqual(t, metricdata.Metrics{
		Name: "shale_level_tables", Description: "Tables of the level.", Data: tables,
	}, got["shale_level_tables"], none)
	if db.Metrics().Levels[0].Tables == 0 {
		t.Error("the store has no tables")
	}
}

// What OpenTelemetry's exporter for Prometheus serves has the names, types, helps and values of the
// page of package debug: so a dashboard for one fits the other.
func TestRegister_SameAsDebug(t *testing.T) {
	db, reg := open(t), prometheus.NewRegistry()
	exporter, err := otelprometheus.New(otelprometheus.WithRegisterer(reg), otelprometheus.WithoutScopeInfo(), otelprometheus.WithoutTargetInfo())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Register(metric.NewMeterProvider(metric.WithReader(exporter)).Meter("test"), db); err != nil {
		t.Fatal(err)
	}
	lines := func(h http.Handler) []string {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/metrics", nil))
		all := strings.Split(w.Body.String(), "\n")
		slices.Sort(all)
		return all
	}
	got, want := lines(promhttp.HandlerFor(reg, promhttp.HandlerOpts{})), lines(debug.Handler(db))
	if len(want) < 200 || len(got) != len(want) {
		t.Errorf("%d lines, want %d", len(got), len(want))
	}
	for i := range min(len(got), len(want)) {
		if got[i] != want[i] {
			t.Fatalf("sorted line %d: %q, want %q", i, got[i], want[i])
		}
	}
}

// A store that is closed gives no values, neither old ones nor zeros, and no error. So does one
// that is not registered any more.
func TestRegister_Closed(t *testing.T) {
	closed, open, reader := open(t), open(t), metric.NewManualReader()
	meter := metric.NewMeterProvider(metric.WithReader(reader)).Meter("test")
	if _, err := Register(meter, closed, attribute.String("store", "closed")); err != nil {
		t.Fatal(err)
	}
	other, err := Register(meter, open, attribute.String("store", "open"))
	if err != nil {
		t.Fatal(err)
	}
	gets := func() int {
		sum, _ := collect(t, reader)["shale_gets_total"].Data.(metricdata.Sum[float64])
		return len(sum.DataPoints)
	}
	if n := gets(); n != 2 {
		t.Errorf("%d stores have values, want 2", n)
	}
	if err := closed.Close(); err != nil {
		t.Fatal(err)
	}
	if n := gets(); n != 1 {
		t.Errorf("%d stores have values, want 1", n)
	}
	if err := other.Unregister(); err != nil {
		t.Fatal(err)
	}
	if n := gets(); n != 0 {
		t.Errorf("%d stores have values, want none", n)
	}
}

// Each reader of a provider collects when it likes, also at the same time.
func TestRegister_Concurrent(t *testing.T) {
	db := open(t)
	readers := []*metric.ManualReader{metric.NewManualReader(), metric.NewManualReader(), metric.NewManualReader()}
	meter := metric.NewMeterProvider(metric.WithReader(readers[0]), metric.WithReader(readers[1]), metric.WithReader(readers[2])).Meter("test")
	if _, err := Register(meter, db); err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	for _, r := range readers {
		wg.Go(func() {
			for range 30 {
				if n := len(collect(t, r)); n < 50 {
					t.Errorf("%d metrics", n)
				}
			}
		})
	}
	wg.Wait()
}

// BenchmarkCollect gives the cost of one collection by a reader of the SDK.
func BenchmarkCollect(b *testing.B) {
	reader := metric.NewManualReader()
	if _, err := Register(metric.NewMeterProvider(metric.WithReader(reader)).Meter("test"), open(b)); err != nil {
		b.Fatal(err)
	}
	var rm metricdata.ResourceMetrics
	for b.Loop() {
		if err := reader.Collect(b.Context(), &rm); err != nil {
			b.Fatal(err)
		}
	}
}
