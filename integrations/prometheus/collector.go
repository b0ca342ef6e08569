// Package shaleprom gives the metrics of stores to Prometheus by way of client_golang:
//
//	prometheus.MustRegister(shaleprom.NewCollector(db))
//
// Names and values are those of the text page of package debug, so dashboards fit both. A program
// with several stores tells them apart by a label:
//
//	named := prometheus.WrapRegistererWith(prometheus.Labels{"store": "hosts"}, prometheus.DefaultRegisterer)
//	named.MustRegister(shaleprom.NewCollector(hosts))
package shaleprom

import (
	"errors"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/shaledb/shale"
	"github.com/shaledb/shale/internal/monitor"
)

// A collector is the prometheus.Collector of a store. All of it is constant.
type collector struct {
	db    *shale.DB
	descs []*prometheus.Desc // of monitor.Families, in their order
}

// NewCollector returns a Collector of what db counts. It may be used by several registries, and by
// several goroutines at once. Collecting waits for no disk. Once the store is closed it gives no
// metrics, and no error; unregister it, or open the store again and register a new one.
func NewCollector(db *shale.DB) prometheus.Collector {
	c := &collector{db: db}
	for _, f := range monitor.Families {
		var labels []string
		if f.Label != "" {
			labels = []string{f.Label}
		}
		c.descs = append(c.descs, prometheus.NewDesc(f.Name, f.Help, labels, nil))
	}
	return c
}

// Describe implements prometheus.Collector.
func (c *collector) Describe(to chan<- *prometheus.Desc) {
	for _, d := range c.descs {
		to <- d
	}
}

// Collect implements prometheus.Collector.
func (c *collector) Collect(to chan<- prometheus.Metric) {
	s, err := monitor.StateOf(c.db)
	if err != nil {
		if !errors.Is(err, shale.ErrClosed) {
			to <- prometheus.NewInvalidMetric(c.descs[0], err)
		}
		return
	}
	for i, f := range monitor.Families {
		kind := prometheus.GaugeValue
		if f.Counter {
			kind = prometheus.CounterValue
		}
		for at, v := range f.All(&s) {
			if f.Label == "" {
				to <- prometheus.MustNewConstMetric(c.descs[i], kind, v)
			} else {
				to <- prometheus.MustNewConstMetric(c.descs[i], kind, v, at)
			}
		}
	}
}
