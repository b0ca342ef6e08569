package report

import (
	"io"
	"strings"
	"testing"

	"github.com/shaledb/shale/bench/peers/internal/results"
	"github.com/shaledb/shale/internal/svg/svgtest"
)

// example has all kinds of runs, of two stores and two rounds.
func example() *results.File {
	f := &results.File{Settings: results.Settings{Entries: 1000, Rounds: 2}, Versions: map[string]string{"pebble": "v2.1.7"}}
	for i, store := range []string{"shale", "pebble", "pebble, UseL6Filters"} {
		for round := range 2 {
			for _, workload := range []string{"fillrandom", "readmissing", "readwhilewriting, the writer", "ycsb-a"} {
				rate := 1e6 / float64(i+1) * float64(round+1)
				r := results.Run{
					Store: store, Workload: workload, Round: round, Ops: 1000, OpsPerSecond: rate, NanosPerOp: 1e9 / rate, PeakBytes: 1 << 20,
					Latency: results.Latency{P50: 0.5, P90: 1, P99: 10, P999: 1000, P9999: 2e6, Max: 3e6},
				}
				if workload == "fillrandom" {
					r.Cut = store == "pebble"
					r.Write = &results.Write{SecondsToSettled: 2, SeriesMillis: 100, Series: []int64{10, 0, 30, 5}}
					r.Fill = &results.Fill{DirBytes: 1e6, SpaceAmp: 0.7}
				} else {
					r.Engine = &results.Engine{BlockReads: 0.25, FalsePositives: 0.01, PredictedFPR: results.Unknown}
				}
				f.Runs = append(f.Runs, r)
			}
		}
	}
	return f
}

func TestWrite(t *testing.T) {
	var b strings.Builder
	if err := Write(&b, example()); err != nil {
		t.Fatal(err)
	}
	page := b.String()
	for _, want := range []string{
		"how many times faster shale is", "Throughput over time", "Latency", "After the fill", "Counted by the engines",
		"v2.1.7", "pebble *", ">2 *<", "3 s", "–", "fillrandom: shale 1.5M ops/s, pebble 750k ops/s",
	} {
		if !strings.Contains(page, want) {
			t.Errorf("the page has no %q", want)
		}
	}
	drawings := strings.Count(page, "<svg")
	if drawings != 3+1+1 {
		t.Errorf("%d drawings, want 3 of ratios, 1 of throughput, 1 of latencies", drawings)
	}
	panels, bars := strings.Count(page, `class="panel"`), strings.Count(page, "<rect")-drawings
	if panels != 3+1+3 || bars != 4*2 {
		t.Errorf("%d panels and %d bars, want 3 of ratios, 1 of throughput, 3 of latency; 2 stores behind shale with 4 workloads", panels, bars)
	}
	for _, part := range strings.SplitAfter(page, "</svg>")[:drawings] {
		svgtest.Parse(t, part[strings.Index(part, "<svg"):])
	}
	if strings.Contains(page, "NaN") || strings.Contains(page, "Inf") || strings.Contains(page, "ZgotmplZ") {
		t.Error("the page has a number that is none")
	}
}

func TestWrite_NoResults(t *testing.T) {
	if err := Write(io.Discard, &results.File{}); err == nil {
		t.Error("Write of no results: no error")
	}
}

func TestNumbers(t *testing.T) {
	for want, got := range map[string]string{
		"1234": trim(1234.4), "0.25": trim(0.25), "117": trim(117.4), "10.5": trim(10.5), "11": trim(11.04), "–": known(-1), "1.35M": known(1_351_000),
		"3.2 ms": micros(3200), "80 ns": micros(0.08), "1.5 µs": micros(1.5), "2 s": micros(2e6),
	} {
		if got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
