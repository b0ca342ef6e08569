package shaleotel

import (
	"errors"
	"fmt"
	"testing"

	"github.com/shaledb/shale"
	"github.com/shaledb/shale/debug"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	"go.opentelemetry.io/otel/sdk/metric/metricdata/metricdatatest"
)

// The gauges of a panel have the names, helps and values of the text page of package debug. Of a store that is closed there is
// nothing, and another error is that of the collection.
func TestRegisterPanel(t *testing.T) {
	var failure error
	reader := metric.NewManualReader()
	store := attribute.String("store", "hosts")
	registration, err := RegisterPanel(metric.NewMeterProvider(metric.WithReader(reader)).Meter("test"), debug.Panel{
		Title: "Where the tables are", Metric: "shale_places", Labels: []string{"level", "place"}, Columns: []string{"tables", "bytes"},
		Rows: func() ([]debug.Row, error) {
			return []debug.Row{{Labels: []string{"5", "both"}, Values: []float64{1, 4096}}, {Labels: []string{"6", "bucket"}, Values: []float64{2, 8192}}}, failure
		},
	}, store)
	if err != nil {
		t.Fatal(err)
	}
	set := func(level, place string) attribute.Set {
		return attribute.NewSet(store, attribute.String("level", level), attribute.String("place", place))
	}
	metricdatatest.AssertEqual(t, metricdata.Metrics{
		Name: "shale_places_bytes", Description: "Where the tables are.", Unit: "By",
		Data: metricdata.Gauge[float64]{DataPoints: []metricdata.DataPoint[float64]{
			{Attributes: set("5", "both"), Value: 4096}, {Attributes: set("6", "bucket"), Value: 8192},
		}},
	}, collect(t, reader)["shale_places_bytes"], metricdatatest.IgnoreTimestamp())
	failure = fmt.Errorf("places: %w", shale.ErrClosed)
	if got := collect(t, reader); len(got) > 0 {
		t.Errorf("a closed store has %v", got)
	}
	failure = errors.New("no places")
	if err := reader.Collect(t.Context(), new(metricdata.ResourceMetrics)); !errors.Is(err, failure) {
		t.Errorf("a collection: %v, want %v", err, failure)
	}
	if err := registration.Unregister(); err != nil {
		t.Error(err)
	}
	if got := collect(t, reader); len(got) > 0 {
		t.Errorf("what is not registered any more has %v", got)
	}
}
