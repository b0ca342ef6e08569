package main

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/shaledb/shale/bench/peers/internal/data"
	"github.com/shaledb/shale/bench/peers/internal/histogram"
	"github.com/shaledb/shale/bench/peers/internal/stores"
	"github.com/shaledb/shale/bench/peers/internal/usage"
)

const row = "%8s %10s %10s %10s %10s %10s %10s %8s\n"

// report prints a line for each interval until ctx is done.
func (b *bench) report(ctx context.Context, out io.Writer) {
	fmt.Fprintf(out, "%s, values of %d bytes, %d keys in no order, %d readers\n", b.kind.Name, b.value, b.n, b.readers)
	fmt.Fprintf(out, row, "time", "puts/s", "gets/s", "p99", "p99.9", "longest", "fsync max", "level 0")
	tick := time.NewTicker(b.interval)
	defer tick.Stop()
	last, reads := b.begin, int64(0)
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		now := time.Now()
		seconds := now.Sub(last).Seconds()
		last = now
		puts, disk, all := b.puts.take(), b.disk.take(), b.reads.Load()
		fmt.Fprintf(out, row, now.Sub(b.begin).Round(time.Second),
			fmt.Sprintf("%.0f", float64(puts.Count())/seconds), fmt.Sprintf("%.0f", float64(all-reads)/seconds),
			millis(puts.Quantile(0.99)), millis(puts.Quantile(0.999)), millis(puts.Max()), millis(disk.Max()), b.level0())
		reads = all
	}
}

// level0 returns how many runs level 0 has, or what is known of it.
func (b *bench) level0() string {
	levels, err := b.store.Levels()
	if err != nil || b.kind.Tree {
		return "-"
	}
	return fmt.Sprint(stores.Level0Runs(levels))
}

// summary prints the figures of the whole run.
func (b *bench) summary(out io.Writer, used *usage.Point) {
	puts, disk := &b.puts.all, &b.disk.all
	seconds := time.Since(b.begin).Seconds()
	fmt.Fprintf(out, "\n%-12s %12s %10s %10s %10s %10s %10s %10s\n", "ms", "count", "a second", "p50", "p99", "p99.9", "p99.99", "longest")
	for _, r := range []struct {
		name string
		*histogram.Histogram
	}{{"put", puts}, {"disk fsync", disk}} {
		fmt.Fprintf(out, "%-12s %12d %10.0f %10s %10s %10s %10s %10s\n", r.name, r.Count(), float64(r.Count())/seconds,
			millis(r.Quantile(0.5)), millis(r.Quantile(0.99)), millis(r.Quantile(0.999)), millis(r.Quantile(0.9999)), millis(r.Max()))
	}
	fmt.Fprintf(out, "%d lookups, %.0f a second, %d found\n", b.reads.Load(), float64(b.reads.Load())/seconds, b.found.Load())
	if given := float64(puts.Count()) * float64(b.value+data.KeySize); used.IOKnown() && given > 0 {
		fmt.Fprintf(out, "%.2f bytes written for each byte given, compactions that are still due not counted\n", float64(used.BytesWritten())/given)
	}
}

func millis(d time.Duration) string { return fmt.Sprintf("%.3f", d.Seconds()*1e3) }
