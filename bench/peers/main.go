// Command peers runs the same work on shale and on Pebble, in one process and
// in turns, and prints medians and ratios.
//
//	cd bench/peers && go run . -n 5000000
//
// It is a module of its own, so that shale does not depend on its peers.
package main

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"text/tabwriter"
	"time"
)

// A store is one engine under test.
type store interface {
	name() string
	open(dir string) error
	put(key, value []byte) error
	settle() error // flush, and wait for compactions
	get(key []byte) (bool, error)
	close() error
}

type config struct {
	n, reads, rounds int
	memtable, cache  int64
	dir              string
	only             string
}

func main() {
	var c config
	flag.IntVar(&c.n, "n", 5_000_000, "`entries`: 16-byte keys, 100-byte values that halve under snappy")
	flag.IntVar(&c.reads, "reads", 1_000_000, "lookups a `round`")
	flag.IntVar(&c.rounds, "rounds", 5, "`rounds`; medians are printed")
	flag.Int64Var(&c.memtable, "memtable", 64<<20, "memtable `bytes`")
	flag.Int64Var(&c.cache, "cache", 1<<30, "block cache `bytes`")
	flag.StringVar(&c.dir, "dir", "", "`directory` for the stores (default: a temporary one)")
	flag.StringVar(&c.only, "only", "", "run this `engine` alone, for profiles")
	flag.Parse()
	if err := run(c); err != nil {
		fmt.Fprintln(os.Stderr, "peers:", err)
		os.Exit(1)
	}
}

func run(c config) error {
	dir, err := os.MkdirTemp(c.dir, "shale-peers-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	engines := []store{newShale(c), newPebble(c, false), newPebble(c, true)}
	t := table{results: map[string]map[string][]float64{}}
	var readers []store
	for _, e := range engines {
		if c.only != "" && c.only != e.name() {
			continue
		}
		if p, ok := e.(*pebbleStore); ok && p.filtered && len(readers) > 0 {
			p.db = readers[len(readers)-1].(*pebbleStore).db // the same store, read another way
			readers = append(readers, e)
			continue
		}
		if err := e.open(filepath.Join(dir, e.name())); err != nil {
			return fmt.Errorf("%s: %w", e.name(), err)
		}
		if err := fill(c, e, &t); err != nil {
			return fmt.Errorf("%s: fill: %w", e.name(), err)
		}
		readers = append(readers, e)
	}
	for round := range c.rounds {
		slices.Reverse(readers) // A B, then B A
		for _, e := range readers {
			for _, missing := range []bool{true, false} {
				if err := read(c, e, &t, round, missing); err != nil {
					return fmt.Errorf("%s: %w", e.name(), err)
				}
			}
		}
	}
	t.print()
	for _, e := range readers {
		if err := e.close(); err != nil {
			return fmt.Errorf("%s: close: %w", e.name(), err)
		}
	}
	return nil
}

// key writes the i-th key: even numbers are stored, odd ones are absent and
// lie between them. A bijection scatters them.
func key(buf []byte, i uint64) []byte {
	const digits = "0123456789abcdef"
	x := i * 0x9e3779b97f4a7c15 // odd: a bijection on 64 bits
	buf = buf[:0]
	for shift := 60; shift >= 0; shift -= 4 {
		buf = append(buf, digits[x>>shift&15])
	}
	return buf
}

// values is where values are cut from: 50 random bytes, 50 zeros.
type values struct {
	r   *rand.Rand
	buf [100]byte
}

func (v *values) next() []byte {
	for i := 0; i < 48; i += 8 {
		x := v.r.Uint64()
		for j := range 8 {
			v.buf[i+j] = byte(x >> (8 * j))
		}
	}
	return v.buf[:]
}

func fill(c config, e store, t *table) error {
	order := rand.New(rand.NewPCG(1, 2)).Perm(c.n)
	v := values{r: rand.New(rand.NewPCG(3, 4))}
	buf := make([]byte, 16)
	begin := time.Now()
	for _, i := range order {
		if err := e.put(key(buf, uint64(i)*2), v.next()); err != nil {
			return err
		}
	}
	t.add("fillrandom, unsynced", e.name(), time.Since(begin), c.n)
	if err := e.settle(); err != nil {
		return err
	}
	t.add("fillrandom and settle", e.name(), time.Since(begin), c.n)
	return nil
}

func read(c config, e store, t *table, round int, missing bool) error {
	r := rand.New(rand.NewPCG(5, uint64(round)))
	buf := make([]byte, 16)
	what, odd := "readrandom, cached", uint64(0)
	if missing {
		what, odd = "readmissing, cached", 1
	}
	if round == 0 { // warm up
		for range c.reads {
			if _, err := e.get(key(buf, r.Uint64N(uint64(c.n))*2)); err != nil {
				return err
			}
		}
	}
	runtime.GC()
	begin := time.Now()
	for range c.reads {
		found, err := e.get(key(buf, r.Uint64N(uint64(c.n))*2+odd))
		if err != nil {
			return err
		}
		if found == missing {
			return fmt.Errorf("wrong answer for %q", buf)
		}
	}
	t.add(what, e.name(), time.Since(begin), c.reads)
	return nil
}

// A table collects nanoseconds an operation by workload and engine.
type table struct {
	workloads, engines []string
	results            map[string]map[string][]float64
}

func (t *table) add(workload, engine string, took time.Duration, n int) {
	if t.results[workload] == nil {
		t.results[workload] = map[string][]float64{}
		t.workloads = append(t.workloads, workload)
	}
	if !slices.Contains(t.engines, engine) {
		t.engines = append(t.engines, engine)
	}
	t.results[workload][engine] = append(t.results[workload][engine], float64(took)/float64(n))
}

func (t *table) print() {
	w := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprint(w, "ns/op, median (times shale's)\t")
	for _, e := range t.engines {
		fmt.Fprintf(w, "%s\t", e)
	}
	fmt.Fprintln(w)
	for _, workload := range t.workloads {
		fmt.Fprintf(w, "%s\t", workload)
		ours := median(t.results[workload]["shale"])
		for _, e := range t.engines {
			m := median(t.results[workload][e])
			switch {
			case m == 0:
				fmt.Fprint(w, "-\t")
			case e == "shale" || ours == 0:
				fmt.Fprintf(w, "%.0f\t", m)
			default:
				fmt.Fprintf(w, "%.0f (%.2f)\t", m, m/ours)
			}
		}
		fmt.Fprintln(w)
	}
	w.Flush()
}

func median(v []float64) float64 {
	if len(v) == 0 {
		return 0
	}
	s := slices.Sorted(slices.Values(v))
	return s[len(s)/2]
}
