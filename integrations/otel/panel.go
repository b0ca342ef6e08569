package shaleotel

import (
	"context"
	"errors"
	"fmt"

	"github.com/shaledb/shale"
	"github.com/shaledb/shale/debug"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
)

// RegisterPanel is Register for what another package knows about a store, such as where its tables are:
//
//	registration, err := shaleotel.RegisterPanel(otel.Meter("hosts"), remotedebug.PlacesPanel(store))
//
// Its gauges are those of the text page of package debug with this panel. Each collection calls p.Rows. Once that returns
// shale.ErrClosed, there are no values, and no error.
func RegisterPanel(meter metric.Meter, p debug.Panel, attrs ...attribute.KeyValue) (metric.Registration, error) {
	instruments := make([]metric.Float64Observable, len(p.Columns))
	observed := make([]metric.Observable, len(p.Columns))
	for i, column := range p.Columns {
		name := p.Metric + "_" + column
		gauge, err := meter.Float64ObservableGauge(name, metric.WithDescription(p.Title+"."), metric.WithUnit(unit(name)))
		if err != nil {
			return nil, fmt.Errorf("shaleotel: instrument %s: %w", name, err)
		}
		instruments[i], observed[i] = gauge, gauge
	}
	return meter.RegisterCallback(func(_ context.Context, o metric.Observer) error {
		rows, err := p.Rows()
		if errors.Is(err, shale.ErrClosed) {
			return nil
		}
		if err != nil {
			return err
		}
		for _, r := range rows {
			all := attrs[:len(attrs):len(attrs)]
			for i, label := range p.Labels {
				all = append(all, attribute.String(label, r.Labels[i]))
			}
			set := metric.WithAttributeSet(attribute.NewSet(all...))
			for i, instrument := range instruments {
				o.ObserveFloat64(instrument, r.Values[i], set)
			}
		}
		return nil
	}, observed...)
}
