// Package shaleotel gives the metrics of stores to OpenTelemetry:
//
//	registration, err := shaleotel.Register(otel.Meter("hosts"), db, attribute.String("store", "hosts"))
//
// Names and values are those of the text page of package debug, so a dashboard fits both, also
// behind OpenTelemetry's exporter for Prometheus.
package shaleotel

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"

	"github.com/shaledb/shale"
	"github.com/shaledb/shale/internal/monitor"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
)

// Register makes meter ask db for its metrics whenever a reader collects; in between nothing runs.
// attrs are on every value: programs with several stores tell them apart by one. A collection
// waits for no disk. Once the store is closed it gives no values. Then, or to end it earlier, call
// Unregister of what is returned: until then the meter keeps the store in memory.
func Register(meter metric.Meter, db *shale.DB, attrs ...attribute.KeyValue) (metric.Registration, error) {
	instruments := make([]metric.Float64Observable, len(monitor.Families))
	observed := make([]metric.Observable, len(monitor.Families))
	for i, f := range monitor.Families {
		var err error
		if f.Counter {
			instruments[i], err = meter.Float64ObservableCounter(f.Name, metric.WithDescription(f.Help), metric.WithUnit(unit(f.Name)))
		} else {
			instruments[i], err = meter.Float64ObservableGauge(f.Name, metric.WithDescription(f.Help), metric.WithUnit(unit(f.Name)))
		}
		if err != nil {
			return nil, fmt.Errorf("shaleotel: instrument %s: %w", f.Name, err)
		}
		observed[i] = instruments[i]
	}
	var mu sync.Mutex // guards sets: each reader of the provider collects when it likes
	sets := attributesOf(attrs)
	return meter.RegisterCallback(func(_ context.Context, o metric.Observer) error {
		s, err := monitor.StateOf(db)
		if err != nil {
			if errors.Is(err, shale.ErrClosed) {
				return nil
			}
			return err
		}
		mu.Lock()
		defer mu.Unlock()
		for i, f := range monitor.Families {
			for at, v := range f.All(&s) {
				o.ObserveFloat64(instruments[i], v, sets(f.Label, at))
			}
		}
		return nil
	}, observed...)
}

// attributesOf returns a function that gives attrs with a label added, for which it makes each set
// once. It is for one goroutine at a time.
func attributesOf(attrs []attribute.KeyValue) func(label, value string) metric.ObserveOption {
	made := map[[2]string]metric.ObserveOption{}
	return func(label, value string) metric.ObserveOption {
		option, ok := made[[2]string{label, value}]
		if !ok {
			all := attrs[:len(attrs):len(attrs)]
			if label != "" {
				all = append(all, attribute.String(label, value))
			}
			option = metric.WithAttributeSet(attribute.NewSet(all...))
			made[[2]string{label, value}] = option
		}
		return option
	}
}

// unit returns the unit that the name ends in, in the notation of OpenTelemetry.
func unit(name string) string {
	name = strings.TrimSuffix(name, "_total")
	switch {
	case strings.HasSuffix(name, "_bytes"):
		return "By"
	case strings.HasSuffix(name, "_seconds"):
		return "s"
	default:
		return ""
	}
}
