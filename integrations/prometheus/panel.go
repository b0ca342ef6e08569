package shaleprom

import (
	"errors"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/shaledb/shale"
	"github.com/shaledb/shale/debug"
)

// A panelCollector is the prometheus.Collector of a panel. All of it is constant.
type panelCollector struct {
	panel debug.Panel
	descs []*prometheus.Desc // of the panel's columns, in their order
}

// NewPanelCollector returns a Collector of what another package knows about a store, such as where its tables are:
//
//	prometheus.MustRegister(shaleprom.NewPanelCollector(remotedebug.PlacesPanel(store)))
//
// Its gauges are those of the text page of package debug with this panel. Each collection calls p.Rows. Once that returns
// shale.ErrClosed, there are no metrics, and no error.
func NewPanelCollector(p debug.Panel) prometheus.Collector {
	c := &panelCollector{panel: p}
	for _, column := range p.Columns {
		c.descs = append(c.descs, prometheus.NewDesc(p.Metric+"_"+column, p.Title+".", p.Labels, nil))
	}
	return c
}

// Describe implements prometheus.Collector.
func (c *panelCollector) Describe(to chan<- *prometheus.Desc) {
	for _, d := range c.descs {
		to <- d
	}
}

// Collect implements prometheus.Collector.
func (c *panelCollector) Collect(to chan<- prometheus.Metric) {
	rows, err := c.panel.Rows()
	if err != nil {
		if !errors.Is(err, shale.ErrClosed) {
			to <- prometheus.NewInvalidMetric(c.descs[0], err)
		}
		return
	}
	for _, r := range rows {
		for i, d := range c.descs {
			to <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, r.Values[i], r.Labels...)
		}
	}
}
