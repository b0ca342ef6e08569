// Command blocklist decides whether hosts and mail addresses are on a list of a million bad
// hosts. A filter in a file answers for nearly all good ones, and a store for the rest. It
// is a complete example of a bloom.Blocked in front of a shale.DB.
//
// # Try it
//
// In a clone, with a list of bad hosts and a list of popular domains, one host a line:
//
//	go run ./examples/blocklist load -db bad.db -filter bad.filter malicious-hosts.txt
//	go run ./examples/blocklist judge -db bad.db -filter bad.filter < hosts-or-addresses.txt
//	go run ./examples/blocklist traffic -db bad.db -filter bad.filter -top top-domains-10k.txt
//
// The first prints
//
//	1109722 lines read; 1109722 hosts are in a store of 25922708 bytes and a filter of 1664672, which will let 0.41 % of other hosts pass.
//	A program that only asks needs the filter: it saves 94 % of the bytes of the store.
//
// The second, asked for two mail addresses and for 34,903 hosts of which two are
// listed, prints
//
//	x@www.aabxcb.e2.luyouxia.net: listed as aabxcb.e2.luyouxia.net
//	Bob <bob@mail.Google.com>: ok
//	...
//	The filter let pass 315 of 67806 absent names: 0.46 %, predicted 0.41 %. The exact check refuted them.
//	The filter saved 67491 of 67809 lookups in the store. In the rest, the store's own filters saved 309 blocks; 9 blocks were read from disk and 0 from the cache.
//
// The third prints
//
//	200000 questions for 10000 domains, the first most often. For each way:
//	                        in store    blocks   in vain from disk    listed   ns each
//	no filters                203769    203769    203631     13554       138       528
//	the store's filters       203769       150        12        25       138       196
//	and the filter file          772       140         2        15       138       148
//	The filters saved 203629 of 203769 searches of blocks.
//
// # What the answers mean
//
// A host is listed if the list has it, or has a domain above it that is not a top-level
// domain. All answers are exact: what passes the filter is looked up in the store. A good
// host that passes the filter once passes each time. If it is popular, the store is asked
// for it often, and remembers that it is absent.
//
// The filter describes the store as the last load has left it. load removes the old filter
// first, because it would call new hosts good, and writes the new one last.
package main

import (
	"bufio"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/shaledb/shale/bloom"
)

// A config is what the flags and arguments set.
type config struct {
	job        string // load, judge or traffic
	db, filter string
	lists      []string // files to load
	bits       float64
	top        string
	lookups    int
	cache      int64
}

// parseFlags returns the config. It prints the usage to out if the arguments are wrong.
func parseFlags(args []string, out io.Writer) (config, error) {
	var c config
	if len(args) == 0 {
		return c, errors.New("say what to do: load, judge or traffic; with -h each lists its flags")
	}
	c.job = args[0]
	set := flag.NewFlagSet("blocklist "+c.job, flag.ContinueOnError)
	set.SetOutput(out)
	set.StringVar(&c.db, "db", "", "directory of the store")
	set.StringVar(&c.filter, "filter", "", "file of the filter")
	bad := ""
	switch c.job {
	case "load":
		set.Float64Var(&c.bits, "bits", 12, "bits a host in the filter file")
	case "judge":
		set.Int64Var(&c.cache, "cache", 8<<20, "bytes of the store's block cache")
	case "traffic":
		set.Int64Var(&c.cache, "cache", 8<<20, "bytes of the store's block cache")
		set.StringVar(&c.top, "top", "", "file of the domains that are asked for, the most popular first")
		set.IntVar(&c.lookups, "n", 200_000, "number of questions")
	default:
		return c, fmt.Errorf("%q is neither load nor judge nor traffic", c.job)
	}
	if err := set.Parse(args[1:]); err != nil {
		return c, err
	}
	c.lists = set.Args()
	switch {
	case c.db == "" || c.filter == "":
		bad = "-db and -filter say where the store and the filter are"
	case c.job == "load" && len(c.lists) == 0:
		bad = "load needs lists of hosts"
	case c.job == "load" && !(c.bits >= bloom.MinBits && c.bits <= bloom.MaxBits):
		bad = fmt.Sprintf("-bits is from %g to %g", bloom.MinBits, bloom.MaxBits)
	case c.job != "load" && len(c.lists) > 0:
		bad = c.job + " has no arguments but flags"
	case c.job == "traffic" && (c.top == "" || c.lookups <= 0):
		bad = "-top names a file, and -n is above 0"
	}
	if bad != "" {
		set.Usage()
		return c, errors.New(bad)
	}
	return c, nil
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	c, err := parseFlags(os.Args[1:], os.Stderr)
	if err == nil {
		err = run(ctx, c, os.Stdin, os.Stdout)
	}
	if err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "blocklist:", err)
		os.Exit(1)
	}
}

// run does the job, and writes what it prints to stdout at the end.
func run(ctx context.Context, c config, stdin io.Reader, stdout io.Writer) (err error) {
	out := bufio.NewWriter(stdout)
	defer func() { err = errors.Join(err, out.Flush()) }()
	switch c.job {
	case "load":
		return load(ctx, c, out)
	case "traffic":
		return traffic(ctx, c, out)
	}
	return answer(ctx, c, stdin, out)
}
