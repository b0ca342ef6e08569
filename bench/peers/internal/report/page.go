// Package report draws the results of a run as one page of HTML that needs
// nothing else.
package report

import (
	_ "embed"
	"fmt"
	"html/template"
	"io"
	"strings"

	"github.com/shaledb/shale/bench/peers/internal/results"
	"github.com/shaledb/shale/internal/chart"
	"github.com/shaledb/shale/internal/svg"
)

//go:embed page.html
var source string

var pageTemplate = template.Must(template.New("page").Parse(source))

// A store has a colour of its own.
type store struct {
	Name, Version string
	Color         chart.Color
}

type page struct {
	File   *results.File
	Stores []store
	sum    *results.Summary
}

// Write draws the page.
func Write(w io.Writer, f *results.File) error {
	if len(f.Runs) == 0 {
		return fmt.Errorf("no results")
	}
	p := &page{File: f, sum: f.Summary()}
	for _, name := range p.sum.Stores {
		engine, _, _ := strings.Cut(name, ",")
		p.Stores = append(p.Stores, store{name, f.Versions[engine], color(name)})
	}
	return pageTemplate.Execute(w, p)
}

var colors = map[string]chart.Color{
	"shale": chart.Blue, "pebble": chart.Orange, "badger": chart.Green, "goleveldb": chart.Gold, "bbolt": chart.Pink, "rocksdb": chart.Purple,
}

func color(store string) chart.Color {
	if strings.HasPrefix(store, "pebble,") {
		return chart.Brown
	}
	if c, known := colors[store]; known {
		return c
	}
	return chart.Grey
}

// Style is that of the page.
func (p *page) Style() template.CSS { return chart.PageStyle }

// Base is the store that others are compared with.
func (p *page) Base() string { return p.sum.Base() }

// Entries are in short.
func (p *page) Entries() string { return svg.Short(float64(p.File.Settings.Entries)) }

// MiB is a size in short.
func (p *page) MiB(bytes int64) string { return trim(float64(bytes) / (1 << 20)) }
