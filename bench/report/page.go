package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/shaledb/shale/internal/chart"
	"github.com/shaledb/shale/internal/svg"
)

// A column of a table of cells.
type column struct {
	title  string
	value  func(c *cell) float64
	format string // "": a word of words
}

var words = map[string][2]string{"files": {"warm", "cold"}, "filters": {"ignored", "on"}}

func bit(b bool) float64 {
	if b {
		return 1
	}
	return 0
}

var (
	colCold      = column{"files", func(c *cell) float64 { return bit(c.Cold) }, ""}
	colFilters   = column{"filters", func(c *cell) float64 { return bit(c.Filters) }, ""}
	colLookups   = column{"lookups", func(c *cell) float64 { return float64(c.Lookups) }, "%.0f"}
	colBlocks    = column{"blocks each", func(c *cell) float64 { return c.Blocks }, "%.4f"}
	colReads     = column{"block reads each", func(c *cell) float64 { return c.BlockReads }, "%.5f"}
	colPreads    = column{"preads each", func(c *cell) float64 { return c.Preads }, "%.5f"}
	colBytes     = column{"bytes read each", func(c *cell) float64 { return c.BytesRead }, "%.1f"}
	colDevice    = column{"from the device", func(c *cell) float64 { return c.DeviceBytes }, "%.1f"}
	colNanos     = column{"ns each", (*cell).nanos, "%.0f"}
	colFPR       = column{"false positives, %", func(c *cell) float64 { return 100 * c.MeasuredFPR }, "%.4f"}
	colPredicted = column{"predicted, %", func(c *cell) float64 { return 100 * c.PredictedFPR }, "%.4f"}
	colRuns      = column{"runs", func(c *cell) float64 { return float64(c.Runs) }, "%.0f"}
)

// table returns a row of titles and one for each cell.
func table(cells []*cell, columns ...column) [][]string {
	rows := [][]string{nil}
	for _, col := range columns {
		rows[0] = append(rows[0], col.title)
	}
	for _, c := range cells {
		var row []string
		for _, col := range columns {
			v := col.value(c)
			switch {
			case col.format == "":
				row = append(row, words[col.title][int(v)])
			case v < 0:
				row = append(row, "-")
			default:
				row = append(row, fmt.Sprintf(col.format, v))
			}
		}
		rows = append(rows, row)
	}
	return rows
}

// page returns report.html, which needs no other file.
func (r *results) page(all []drawn, svgs [][]byte) []byte {
	var b strings.Builder
	b.WriteString("<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n")
	fmt.Fprintf(&b, "<title>What filters save on absent keys</title>\n<style>%s</style></head><body>\n", chart.PageStyle)
	b.WriteString("<h1>What filters save on lookups of absent keys</h1>\n")
	fmt.Fprintf(&b, "<p class=\"soft\">Keys: %s; %d loaded (%.1f MB of keys and values), %d absent keys to ask for, all inside the key range "+
		"(left out: %d outside it, %d that are loaded too). %s/%s, %d CPUs, %s.</p>\n",
		svg.Escape(r.Dataset), r.Present, float64(r.RawBytes)/1e6, r.Absent, r.Outside, r.Both,
		svg.Escape(r.Machine.OS), svg.Escape(r.Machine.Arch), r.Machine.CPUs, svg.Escape(r.Machine.Go))
	if r.Short {
		b.WriteString("<p><b>Measured with -short: few keys, to try the report out. The figures say nothing.</b></p>\n")
	}
	r.tiles(&b)
	for i, d := range all {
		fmt.Fprintf(&b, "<h2 id=\"%s\">%s</h2>\n%s<p>%s</p>\n", d.name, d.name+": "+svg.Escape(whatOf(d.name)), svgs[i], svg.Escape(d.text))
		b.WriteString("<details><summary>the numbers</summary>\n")
		writeTable(&b, d.table)
		b.WriteString("</details>\n")
	}
	r.controls(&b)
	r.method(&b)
	b.WriteString("</body></html>\n")
	return []byte(b.String())
}

func whatOf(name string) string {
	all := experiments()
	return all[slices.IndexFunc(all, func(e experiment) bool { return e.name == name })].what
}

// tiles are the numbers to take home.
func (r *results) tiles(b *strings.Builder) {
	off, on := pair(r.of("F1", warm))
	if off.Lookups == 0 || on.Lookups == 0 {
		return
	}
	b.WriteString("<div class=\"tiles\">")
	tile := func(value, text string) {
		fmt.Fprintf(b, "<div><b>%s</b>%s</div>", svg.Escape(value), svg.Escape(text))
	}
	tile(svg.Short(off.BlockReads), fmt.Sprintf("reads a miss in %d levels, filters ignored", len(off.Levels)))
	tile(svg.Short(on.BlockReads), "with filters")
	tile(fmt.Sprintf("%.1f %%", 100*(1-on.BlockReads/off.BlockReads)), "of the reads saved")
	tile(fmt.Sprintf("%.2f %%", 100*on.MeasuredFPR), fmt.Sprintf("false positives; %.2f %% predicted", 100*on.PredictedFPR))
	tile(fmt.Sprintf("%.1f", 8*float64(on.FilterBytes)/float64(on.Keys)), fmt.Sprintf("bits a key in memory, %.1f %% of the tables", 100*float64(on.FilterBytes)/float64(on.TableBytes)))
	b.WriteString("</div>\n")
}

func writeTable(b *strings.Builder, rows [][]string) {
	b.WriteString("<div class=\"scroll\"><table>\n")
	for i, row := range rows {
		cell := "td"
		if i == 0 {
			cell = "th"
		}
		b.WriteString("<tr>")
		for _, text := range row {
			fmt.Fprintf(b, "<%s>%s</%s>", cell, svg.Escape(text), cell)
		}
		b.WriteString("</tr>\n")
	}
	b.WriteString("</table></div>\n")
}

func (r *results) controls(b *strings.Builder) {
	cells := r.of(controls, nil)
	if len(cells) == 0 {
		return
	}
	b.WriteString("<h2 id=\"C\">Controls</h2>\n<p>What is asked for in place of absent keys inside the range, of the same store, without a block cache. " +
		"Keys beyond the last key need no filter. A present key must not cost more with filters than without. Keys that are asked for again and again are remembered once they were false positives.</p>\n")
	rows := table(cells, colFilters, colLookups, colReads, colPreads, colFPR, colNanos)
	rows[0] = append([]string{"asked for"}, rows[0]...)
	for i, c := range cells {
		rows[i+1] = append([]string{c.Name}, rows[i+1]...)
	}
	writeTable(b, rows)
}

func (r *results) method(b *strings.Builder) {
	b.WriteString("<h2 id=\"method\">Method</h2>\n<ul>\n")
	lines := []string{
		"Filters ignored and on are the same files, opened with other options: one load serves both.",
		"Each pair is read in the order ignored, on, on, ignored; times are over both passes, and where nothing is cached both passes must count the same.",
		"Every answer is checked. The store's count of lookups and of block reads is held against what was asked, and against the read calls that the operating system counted: a difference is an error.",
		"Absent keys are distinct from all loaded ones, and inside the range of the loaded ones.",
		"Warm: everything was read once before. Cold: posix_fadvise(DONTNEED) and RANDOM for each table, before so few lookups that they hardly ever share pages; mincore says whether it worked.",
		"Nothing is compacted while reads are measured. Seeds are fixed; counts are the same in every run, times are not: compare them within a report.",
	}
	for _, line := range append(lines, r.Notes...) {
		fmt.Fprintf(b, "<li>%s</li>\n", svg.Escape(line))
	}
	b.WriteString("</ul>\n<p>To repeat: <code>cd bench/report &amp;&amp; go run . -o DIR</code>; all numbers are in results.json, a cell a line.</p>\n")
}
