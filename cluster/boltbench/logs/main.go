// Command logs measures the log store of package cluster next to raft-boltdb and raft-wal.
//
//	go run ./logs [-dir DIR] [-rounds N]
//
// Every round measures each store once, on a fresh directory, one after the other, beginning with
// another one each time. The table has the medians of all rounds, and behind each store the ratio to
// raft-boltdb: above 1, the store is better. Entries have 256 bytes of data.
package main

import (
	"flag"
	"fmt"
	"io"
	"log"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"text/tabwriter"
	"time"

	"github.com/hashicorp/raft"
	raftboltdb "github.com/hashicorp/raft-boltdb/v2"
	raftwal "github.com/hashicorp/raft-wal"

	"github.com/shaledb/shale"
	"github.com/shaledb/shale/cluster"
)

// A store is one of the log stores to compare.
type store struct {
	name string
	open func(dir string) (raft.LogStore, io.Closer, error)
}

var stores = []store{
	{"shale", func(dir string) (raft.LogStore, io.Closer, error) {
		db, err := shale.Open(filepath.Join(dir, "log"), cluster.LogStoreOptions())
		if err != nil {
			return nil, nil, err
		}
		return cluster.NewLogStore(db), db, nil
	}},
	{"raft-boltdb", func(dir string) (raft.LogStore, io.Closer, error) {
		s, err := raftboltdb.NewBoltStore(filepath.Join(dir, "raft.db"))
		return s, s, err
	}},
	{"raft-wal", func(dir string) (raft.LogStore, io.Closer, error) {
		dir = filepath.Join(dir, "wal")
		if err := os.Mkdir(dir, 0o777); err != nil {
			return nil, nil, err
		}
		s, err := raftwal.Open(dir)
		return s, s, err
	}},
}

// rows are what is measured, in this order, on one log. Each gets the index of the next entry, moves it on, and
// returns the figure. The first ones see a log whose files are new. The fourth appends 60 MB and truncates the log
// again and again, as raft does. Then its files have the size that they keep.
var rows = []row{
	{"a new log: one entry, p50", "µs", false, oneEntry(0.5)},
	{"a new log: 64 at a time", "entries/s", true, together},
	{"GetLog of one of the last 10,240", "ns", false, getLog},
	{"64 at a time, truncated each 8,192", "entries/s", true, steady},
	{"one entry, p50", "µs", false, oneEntry(0.5)},
	{"one entry, p99", "µs", false, oneEntry(0.99)},
	{"64 at a time", "entries/s", true, together},
	{"truncate the oldest 10,240", "ms", false, truncate},
	{"cut off the last 64", "µs", false, cutOff},
}

type row struct {
	name, unit   string
	moreIsBetter bool
	measure      func(s raft.LogStore, next *uint64) float64
}

func main() {
	dir := flag.String("dir", os.TempDir(), "directory on the disk to measure")
	rounds := flag.Int("rounds", 7, "how often each store is measured")
	flag.Parse()
	figures := make(map[string]map[string][]float64)
	for r := range *rounds {
		for i := range stores {
			s := stores[(i+r)%len(stores)]
			for name, figure := range measure(*dir, s) {
				if figures[name] == nil {
					figures[name] = make(map[string][]float64)
				}
				figures[name][s.name] = append(figures[name][s.name], figure)
			}
		}
	}
	printTable(figures)
}

// measure measures all rows on one store.
func measure(dir string, s store) map[string]float64 {
	dir, err := os.MkdirTemp(dir, "logs")
	check(err)
	defer os.RemoveAll(dir)
	logs, closer, err := s.open(dir)
	check(err)
	figures := make(map[string]float64)
	next := uint64(1)
	for _, row := range rows {
		figures[row.name] = row.measure(logs, &next)
	}
	check(closer.Close())
	return figures
}

// printTable prints the table.
func printTable(figures map[string]map[string][]float64) {
	w := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprint(w, "\t")
	for _, s := range stores {
		fmt.Fprintf(w, "%s\t\t", s.name)
	}
	fmt.Fprintln(w)
	for _, row := range rows {
		fmt.Fprintf(w, "%s, %s\t", row.name, row.unit)
		base := median(figures[row.name]["raft-boltdb"])
		for _, s := range stores {
			m := median(figures[row.name][s.name])
			ratio := base / m
			if row.moreIsBetter {
				ratio = m / base
			}
			fmt.Fprintf(w, "%.4g\t× %.2g\t", m, ratio)
		}
		fmt.Fprintln(w)
	}
	check(w.Flush())
}

func median(v []float64) float64 { return quantile(v, 0.5) }

func quantile(v []float64, q float64) float64 {
	v = slices.Sorted(slices.Values(v))
	return v[min(len(v)-1, int(q*float64(len(v))))]
}

// entries makes n entries and moves next behind them.
func entries(next *uint64, n int) []*raft.Log {
	logs := make([]*raft.Log, n)
	for i := range logs {
		data := make([]byte, 256)
		for j := range data {
			data[j] = byte(rand.Uint32())
		}
		logs[i] = &raft.Log{Index: *next, Term: 3, Data: data, AppendedAt: time.Now()}
		*next++
	}
	return logs
}

// timed returns how long fn takes.
func timed(fn func() error) time.Duration {
	begin := time.Now()
	check(fn())
	return time.Since(begin)
}

// oneEntry stores one entry at a time.
func oneEntry(q float64) func(raft.LogStore, *uint64) float64 {
	return func(s raft.LogStore, next *uint64) float64 {
		var times []float64
		for _, l := range entries(next, 1000) {
			times = append(times, float64(timed(func() error { return s.StoreLog(l) }).Nanoseconds())/1e3)
		}
		return quantile(times, q)
	}
}

// together stores 64 entries at a time.
func together(s raft.LogStore, next *uint64) float64 {
	const n = 200
	var took time.Duration
	for range n {
		logs := entries(next, 64)
		took += timed(func() error { return s.StoreLogs(logs) })
	}
	return n * 64 / took.Seconds()
}

// fill appends until the log has n entries.
func fill(s raft.LogStore, next *uint64, n uint64) {
	first, err := s.FirstIndex()
	check(err)
	for *next-first < n {
		check(s.StoreLogs(entries(next, 64)))
	}
}

// getLog reads entries of the last 10,240 in any order.
func getLog(s raft.LogStore, next *uint64) float64 {
	const n = 100_000
	fill(s, next, 10_240)
	return float64(timed(func() error {
		for range n {
			var l raft.Log
			i := *next - 1 - rand.Uint64N(10_240)
			if err := s.GetLog(i, &l); err != nil {
				return err
			}
			if l.Index != i || len(l.Data) != 256 {
				return fmt.Errorf("GetLog(%d) has index %d and %d bytes", i, l.Index, len(l.Data))
			}
		}
		return nil
	}).Nanoseconds()) / n
}

// truncate deletes the oldest 10,240 entries of 20,480, as raft does behind a snapshot.
func truncate(s raft.LogStore, next *uint64) float64 {
	var times []float64
	for range 5 {
		fill(s, next, 20_480)
		first, err := s.FirstIndex()
		check(err)
		times = append(times, timed(func() error { return s.DeleteRange(first, first+10_239) }).Seconds()*1e3)
	}
	return median(times)
}

// steady appends 64 entries at a time, and deletes 8,192 of them after each 8,192: what lies between two snapshots.
func steady(s raft.LogStore, next *uint64) float64 {
	const n, snapshots = 8192, 24
	var took time.Duration
	for range snapshots {
		for range n / 64 {
			logs := entries(next, 64)
			took += timed(func() error { return s.StoreLogs(logs) })
		}
		first, err := s.FirstIndex()
		check(err)
		took += timed(func() error { return s.DeleteRange(first, first+n-1) })
	}
	return n * snapshots / took.Seconds()
}

// cutOff deletes the last 64 entries, as a member does when it finds out that they were not agreed on.
func cutOff(s raft.LogStore, next *uint64) float64 {
	var times []float64
	for range 50 {
		times = append(times, float64(timed(func() error { return s.DeleteRange(*next-64, *next-1) }).Nanoseconds())/1e3)
		*next -= 64
		check(s.StoreLogs(entries(next, 64)))
	}
	return median(times)
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
