// Command crawler answers the question that a crawler has at each link: has it seen the
// URL before? It gives each URL one spelling (package weburl), answers in several ways, and
// compares them: with a set of the URLs, a set of their MD5 digests, a bitmap of one hash, a
// Bloom filter alone, a table of a SQL database (SQLite), and shale, with and without its
// filters.
//
// # Run it
//
//	cd examples/database
//	go run ./crawler                          2,000,000 URLs of made-up hosts
//	go run ./crawler -urls urls.txt           of the URLs of a file, with page numbers
//	go run ./crawler -urls urls.txt -n 0      the file as it is, repetitions and order too
//	go run ./crawler -only 'shale; SQLite'    -help tells the rest
//
// It prints, for 2,000,000 links to 430,809 different URLs, which take 15.9 MB:
//
//	                 way  time a URL   memory  at most     disk  taken for seen    a kill leaves
//	      set of strings     0.20 µs  37.8 MB  72.6 MB     0 kB               0          nothing
//	  set of MD5 digests     0.29 µs  10.0 MB  28.1 MB     0 kB               0          nothing
//	  bitmap of one hash     0.09 µs   1.1 MB  10.6 MB     0 kB           21035          nothing
//	        filter alone     0.09 µs   467 kB  10.6 MB     0 kB             860          nothing
//	              SQLite     8.44 µs  16.6 MB  25.6 MB  20.3 MB               0  all but a batch
//	               shale     0.94 µs  12.6 MB  32.0 MB   5.0 MB               0              all
//	   shale, no filters     1.26 µs  11.4 MB  25.4 MB   4.3 MB               0              all
//
//	If each spelling counted as a URL of its own, a crawler would make 62763 fetches more.
//	The bitmap of one hash is 539 kB and lost 21035 URLs, that is one in 20 (predicted: 20840).
//	The filter alone is 539 kB and lost 860 URLs, that is one in 500 (predicted: 815): they
//	would never be crawled. ...
//
// # What it says
//
// If all URLs fit into memory and need not outlive the process, a set is the fastest way
// that is never wrong. A filter takes a sixtieth of the memory of a set, and loses a few
// URLs; with one probe instead of six it loses twenty-five times as many. A store loses
// none and keeps what it has seen. It needs memory for filters and caches only. Its filters
// answer for most new URLs without a look at a table.
//
// # How it is measured
//
// Each way runs in a process of its own, on the same stream. One link in five spells its URL
// differently: with capitals in the host, or with a fragment. The time is that of the
// questions and of the close, without the time to make the URLs and to normalize them. The
// memory is what the operating system reports (Linux only), less what there was before. It
// is taken once after a garbage collection, and once as the maximum on the way, which
// includes some 15 MB of garbage from making the URLs. Every answer is compared with the
// right one. If any way but the filter and the bitmap gives a wrong answer, the command
// fails.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
)

// A config is what the flags set.
type config struct {
	urls  string
	hosts int
	n     int
	zipf  float64
	seed  uint64
	bits  float64
	batch int
	dir   string
	only  []string

	way string // set in a process that measures one way
}

// parseFlags returns the config, or an error that names the flag that is wrong.
func parseFlags(args []string, messages io.Writer) (config, error) {
	var c config
	f := flag.NewFlagSet("crawler", flag.ContinueOnError)
	f.SetOutput(messages)
	f.StringVar(&c.urls, "urls", "", "`file` of URLs, one a line, to which page numbers are added (default: made-up hosts)")
	f.IntVar(&c.hosts, "hosts", 100_000, "made-up `hosts`, if there is no file")
	f.IntVar(&c.n, "n", 2_000_000, "number of `URLs` in the stream; 0: the URLs of the file as they are, in its order")
	f.Float64Var(&c.zipf, "zipf", 1.05, "`exponent` of Zipf's law, above 1; a higher one gives more repetitions")
	f.Uint64Var(&c.seed, "seed", 1, "`number` that chooses the stream")
	f.Float64Var(&c.bits, "bits", 10, "`bits` of the filter for each URL, from 4 to 26")
	f.IntVar(&c.batch, "batch", 100, "number of `URLs` in a transaction of SQLite")
	f.StringVar(&c.dir, "dir", "", "`directory` for the files, which are kept (default: a temporary one)")
	only := f.String("only", "", "`ways` to measure, with semicolons between them: "+strings.Join(names(), "; ")+" (default: all)")
	f.StringVar(&c.way, "way", "", "measure only this `way`, in this process, and print JSON; the command calls itself with this flag")
	if err := f.Parse(args); err != nil {
		return c, err
	}
	for name := range strings.SplitSeq(*only, ";") {
		if name = strings.TrimSpace(name); name != "" {
			c.only = append(c.only, name)
		}
	}
	return c, c.validate(f.NArg())
}

func (c config) validate(extra int) error {
	for _, name := range c.only {
		if opener(name) == nil {
			return fmt.Errorf("-only: %q is not one of %s", name, strings.Join(names(), "; "))
		}
	}
	switch {
	case extra > 0:
		return errors.New("there are only flags, and no arguments")
	case c.n < 0 || c.n == 0 && c.urls == "":
		return errors.New("-n has to be above 0, or 0 with a file of URLs")
	case c.hosts < 1 || c.batch < 1:
		return errors.New("-hosts and -batch have to be above 0")
	case !(c.zipf > 1 && c.zipf <= 10):
		return errors.New("-zipf has to be above 1, and at most 10")
	case !(c.bits >= 4 && c.bits <= 26):
		return errors.New("-bits has to be from 4 to 26")
	}
	return nil
}

// args returns the flags for a process that measures one way in dir.
func (c config) args(way, dir string) []string {
	return []string{
		"-urls", c.urls, "-hosts", strconv.Itoa(c.hosts), "-n", strconv.Itoa(c.n),
		"-zipf", strconv.FormatFloat(c.zipf, 'g', -1, 64), "-seed", strconv.FormatUint(c.seed, 10),
		"-bits", strconv.FormatFloat(c.bits, 'g', -1, 64), "-batch", strconv.Itoa(c.batch),
		"-way", way, "-dir", dir,
	}
}

// names returns the names of all ways.
func names() (all []string) {
	for _, w := range ways {
		all = append(all, w.name)
	}
	return all
}

func main() {
	c, err := parseFlags(os.Args[1:], os.Stderr)
	if errors.Is(err, flag.ErrHelp) {
		return
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err == nil {
		err = run(ctx, c, os.Stdout)
	}
	if err != nil && ctx.Err() != nil { // the interrupt may have caused any error
		err = errors.New("interrupted")
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "crawler:", err)
		os.Exit(1)
	}
}

// run measures one way in this process, or all ways, each in a process of its own.
// Otherwise the memory of one way would be taken for that of another.
func run(ctx context.Context, c config, out io.Writer) error {
	if c.way != "" {
		r, err := measure(ctx, c, c.way, c.dir)
		if err != nil {
			return err
		}
		return json.NewEncoder(out).Encode(r)
	}
	if _, err := newStream(c); err != nil {
		return err // reported once, and not by each process
	}
	results, err := measureAll(ctx, c)
	if err != nil {
		return err
	}
	return report(out, c, results)
}

// measureAll measures the ways one after the other, each in a directory of its own. It
// removes the directories unless -dir is set.
func measureAll(ctx context.Context, c config) (results []*result, err error) {
	dir := c.dir
	if dir == "" {
		if dir, err = os.MkdirTemp("", "crawler-"); err != nil {
			return nil, err
		}
		defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	}
	for _, name := range names() {
		if len(c.only) > 0 && !slices.Contains(c.only, name) {
			continue
		}
		sub := filepath.Join(dir, strings.NewReplacer(" ", "-", ",", "").Replace(name))
		if err := os.MkdirAll(filepath.Dir(sub), 0o777); err != nil {
			return nil, err
		}
		if err := os.Mkdir(sub, 0o777); err != nil {
			return nil, err // also if it exists: another run may have left URLs there
		}
		r, err := measureApart(ctx, c, name, sub)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		results = append(results, r)
	}
	return results, nil
}

// measureApart measures one way in a process of its own. The process is killed
// when ctx is done.
func measureApart(ctx context.Context, c config, name, dir string) (*result, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(ctx, self, c.args(name, dir)...)
	var failure strings.Builder
	cmd.Stderr = &failure
	data, err := cmd.Output()
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	if err != nil {
		return nil, fmt.Errorf("%w\n%s", err, strings.TrimSpace(failure.String()))
	}
	r := new(result)
	if err := json.Unmarshal(data, r); err != nil {
		return nil, fmt.Errorf("its figures: %w", err)
	}
	return r, nil
}
