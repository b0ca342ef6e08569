package report

import (
	"fmt"
	"html/template"

	"github.com/shaledb/shale/bench/peers/internal/results"
)

const (
	pageWidth  = 960
	labelWidth = 240
	barHeight  = 11
	barGap     = 12 // between workloads
)

// bars draws for each workload how many times faster the first store is than
// each of the others, on a logarithmic axis: to the right of 1 it is ahead.
func (p *page) bars(workloads []string) template.HTML {
	others := p.Stores[1:]
	height, low, high := 40.0, 0.5, 2.0
	for _, w := range workloads {
		for _, s := range others {
			if r, ok := p.sum.Ratio(w, s.Name); ok {
				low, high = min(low, r*0.8), max(high, r*1.25)
				height += barHeight
			}
		}
		height += barGap
	}
	d := newSVG(pageWidth, height, "Throughput of "+p.sum.Base()+" over that of each other store, by workload")
	x := scale{low: low, high: high, from: labelWidth, to: pageWidth - 60, log: true}
	for _, v := range x.ticks() {
		class := "grid"
		if v == 1 {
			class = "one"
		}
		d.line(class, x.at(v), 20, x.at(v), height-5)
		d.text("tick", "middle", x.at(v), 14, trim(v)+"×")
	}
	y := 28.0
	for _, w := range workloads {
		y = p.barsOf(d, x, y, w, others) + barGap
	}
	return d.end()
}

// barsOf draws one workload from y on, and returns where it ends.
func (p *page) barsOf(d *svg, x scale, y float64, workload string, others []store) float64 {
	begin := y
	for _, s := range others {
		r, ok := p.sum.Ratio(workload, s.Name)
		if !ok {
			continue
		}
		its := p.sum.Cell(workload, s.Name)
		from, to := min(x.at(1), x.at(r)), max(x.at(1), x.at(r))
		label := trim(r)
		if its.Cut() {
			label += " *"
		}
		tip := fmt.Sprintf("%s: %s %s ops/s, %s %s ops/s", workload, p.sum.Base(), short(p.sum.Cell(workload, p.sum.Base()).Median(results.Rate)),
			s.Name, short(its.Median(results.Rate)))
		d.rect(s.Class, from, y, max(to-from, 1), barHeight-1, tip)
		if r >= 1 {
			d.text("value", "start", to+4, y+barHeight-2, label)
		} else {
			d.text("value", "end", from-4, y+barHeight-2, label)
		}
		y += barHeight
	}
	d.text("label", "end", labelWidth-50, (begin+y)/2+4, workload)
	return y
}
