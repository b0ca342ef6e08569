package main

import (
	"bytes"
	_ "embed"
	"fmt"
	"html/template"
	"slices"

	"github.com/shaledb/shale/internal/chart"
	"github.com/shaledb/shale/internal/svg"
)

//go:embed page.html
var pageSource string

var pageTemplate = template.Must(template.New("page").Parse(pageSource))

// A page is what page.html shows. It needs no other file.
type page struct {
	*results
	Figures []drawn
}

func (p page) html() ([]byte, error) {
	var b bytes.Buffer
	err := pageTemplate.Execute(&b, p)
	return b.Bytes(), err
}

// Style is the style sheet.
func (p page) Style() template.CSS { return chart.PageStyle }

// Megabytes is the size of keys and values.
func (p page) Megabytes() string { return fmt.Sprintf("%.1f", float64(p.RawBytes)/1e6) }

// What says what the figure shows.
func (d drawn) What() string {
	all := experiments()
	return all[slices.IndexFunc(all, func(e experiment) bool { return e.name == d.Name })].what
}

// Image is the figure as part of the page.
func (d drawn) Image() template.HTML { return template.HTML(d.svg) }

// A tile is a number with its meaning.
type tile struct{ Value, Text string }

// Tiles are the most important numbers.
func (p page) Tiles() []tile {
	off, on := pair(p.of("F1", warm))
	if off.Lookups == 0 || on.Lookups == 0 {
		return nil
	}
	return []tile{
		{svg.Short(off.BlockReads), fmt.Sprintf("reads a miss in %d levels, filters ignored", len(off.Levels))},
		{svg.Short(on.BlockReads), "with filters"},
		{fmt.Sprintf("%.1f %%", 100*(1-on.BlockReads/off.BlockReads)), "of the reads saved"},
		{fmt.Sprintf("%.2f %%", 100*on.MeasuredFPR), fmt.Sprintf("false positives; %.2f %% predicted", 100*on.PredictedFPR)},
		{fmt.Sprintf("%.1f", 8*float64(on.FilterBytes)/float64(on.Keys)),
			fmt.Sprintf("bits a key in memory, %.1f %% of the tables", 100*float64(on.FilterBytes)/float64(on.TableBytes))},
	}
}

// Controls is the table of the control experiments.
func (p page) Controls() [][]string {
	cells := p.of(controls, nil)
	if len(cells) == 0 {
		return nil
	}
	rows := table(cells, colFilters, colLookups, colReads, colPreads, colFPR, colNanos)
	rows[0] = append([]string{"asked for"}, rows[0]...)
	for i, c := range cells {
		rows[i+1] = append([]string{c.Name}, rows[i+1]...)
	}
	return rows
}
