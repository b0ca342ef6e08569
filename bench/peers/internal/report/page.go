// Package report draws the results of a run as one page of HTML that needs
// nothing else.
package report

import (
	_ "embed"
	"fmt"
	"html/template"
	"io"
	"slices"
	"strings"

	"github.com/shaledb/shale/bench/peers/internal/results"
)

//go:embed page.html
var source string

var pageTemplate = template.Must(template.New("page").Parse(source))

// A store has a colour of its own, by class.
type store struct {
	Name, Class, Version string
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
		p.Stores = append(p.Stores, store{name, "s-" + class(name), f.Versions[engine]})
	}
	return pageTemplate.Execute(w, p)
}

// class is a colour of page.html.
func class(store string) string {
	if strings.HasPrefix(store, "pebble,") {
		return "pebble2"
	}
	if slices.Contains([]string{"shale", "pebble", "badger", "goleveldb", "bbolt", "rocksdb"}, store) {
		return store
	}
	return "other"
}

// Base is the store that others are compared with.
func (p *page) Base() string { return p.sum.Base() }

// Compared tells whether there is another.
func (p *page) Compared() bool { return len(p.Stores) > 1 }

// Entries are in short.
func (p *page) Entries() string { return short(float64(p.File.Settings.Entries)) }

// MiB is a size in short.
func (p *page) MiB(bytes int64) string { return trim(float64(bytes) / (1 << 20)) }

// A Figure is a drawing with a title.
type Figure struct {
	Title string
	SVG   template.HTML
}

// Ratios are the bars, writes apart from reads and from mixed workloads.
func (p *page) Ratios() []Figure {
	parts := []Figure{{Title: "Writes"}, {Title: "Reads"}, {Title: "Reads and writes"}}
	names := make([][]string, len(parts))
	for _, w := range p.sum.Workloads {
		part := 1
		switch {
		case strings.HasPrefix(w, "fill") || w == "overwrite" || w == "deleterandom":
			part = 0
		case strings.HasPrefix(w, "ycsb") || strings.HasPrefix(w, "readwhilewriting"):
			part = 2
		}
		names[part] = append(names[part], w)
	}
	var drawn []Figure
	for i := range parts {
		if len(names[i]) > 0 {
			parts[i].SVG = p.bars(names[i])
			drawn = append(drawn, parts[i])
		}
	}
	return drawn
}

// OverTime are the fills.
func (p *page) OverTime() []Figure {
	return p.each(p.overTime, "fillseq", "fillrandom", "fillbatch", "overwrite")
}

// Latencies are those of a choice of workloads.
func (p *page) Latencies() []Figure {
	return p.each(p.latencies, "fillrandom", "fillsync", "fillsync16", "readmissing", "readrandom", "readmissing-small", "readmissing-levels",
		"seekrandom", "readwhilewriting", "ycsb-a", "ycsb-b", "ycsb-e")
}

func (p *page) each(draw func(string) template.HTML, workloads ...string) []Figure {
	var figures []Figure
	for _, w := range workloads {
		if !slices.Contains(p.sum.Workloads, w) {
			continue
		}
		if drawing := draw(w); drawing != "" {
			figures = append(figures, Figure{w, drawing})
		}
	}
	return figures
}
