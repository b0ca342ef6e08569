// Command blocklist decides whether hosts, mail addresses and URLs are on a list of a million
// bad ones. A filter in a file answers for nearly all good ones, and a store for the rest. It
// is a complete example of a bloom.Blocked in front of a shale.DB, of a sketch.Counting for
// a list that shrinks, and of a sketch.Exact, which remembers mistakes of the filter.
//
// # Try it
//
// In a clone:
//
//	printf 'bad.example\nspam@mail.example\nhttp://www.example/virus\n' > list.txt
//	go run ./examples/blocklist load -shrinks -db bad.db -filter bad.filter list.txt
//	printf 'Any <any@www.bad.example>\nham@mail.example\nHTTP://www.example:80/virus#now\n' |
//		go run ./examples/blocklist judge -db bad.db -filter bad.filter
//	printf 'spam@mail.example\n' > gone.txt
//	go run ./examples/blocklist remove -db bad.db -filter bad.filter gone.txt
//
// The second go run prints, before its totals:
//
//	Any <any@www.bad.example>: listed as bad.example
//	ham@mail.example: ok
//	HTTP://www.example:80/virus#now: listed as http://www.example/virus
//
// # With large lists
//
// With a list of 1.1 million bad hosts and one of popular domains:
//
//	go run ./examples/blocklist load -db bad.db -filter bad.filter malicious-hosts.txt
//	go run ./examples/blocklist judge -db bad.db -filter bad.filter < hosts-addresses-and-urls.txt
//	go run ./examples/blocklist traffic -db bad.db -filter bad.filter -top top-domains-10k.txt
//
// The first prints
//
//	1109722 lines read; 1109722 names are in a store of 25939450 bytes and a filter of 1664672, which will let 0.41 % of other names pass.
//	A program that only asks needs the filter: it saves 94 % of the bytes of the store.
//
// The second, asked for two mail addresses and for 34,904 good hosts, prints
//
//	x@www.aabxcb.e2.luyouxia.net: listed as aabxcb.e2.luyouxia.net
//	Bob <bob@mail.Google.com>: ok
//	...
//	The filter let pass 304 of 67750 absent names: 0.45 %, predicted 0.41 %. The store refuted them, which took 173 lookups; 131 were saved because the name had been refuted before.
//	The filter saved 67446 of 67751 lookups in the store. In the rest, the store's own filters saved 172 blocks; 2 blocks were read from disk and 0 from the cache.
//
// The third prints (times are the least of eight runs)
//
//	200000 questions for 10000 domains, the first most often. For each way:
//	                        in store    blocks   in vain from disk    listed   ns each
//	no filters                203769    203769    203631     14334       138      2259
//	the store's filters       203769       159        21        34       138       410
//	and the filter file          772       138         0        13       138       216
//	and its mistakes             181       138         0        13       138       213
//	The filters saved 203631 of 203769 searches of blocks.
//
// # What the answers mean
//
// A mail address or a URL is listed if the list has it, or if its host is listed. A host is
// listed if the list has it, or has a domain above it that is not a top-level domain. A line
// that is none of the three is unclear. Spellings of the same entry count as one: see entryOf.
//
// All answers are exact: what passes the filter is looked up in the store. A good host that
// passes the filter once passes each time. If it is popular, the store would be asked for it
// often. The sketch.Exact remembers that the store has refuted it, as the store is opened
// read-only and so does not change.
//
// # How the files stay in step
//
// The filter describes the store as the last load or removal has left it. It may have names
// that the store does not have; they only cost lookups. It must not lack any: those would be
// called good. So load removes the old filter first, and writes the new one last, and remove
// takes names out of the store before it takes them out of the filter.
//
// Names can be removed from a filter that load -shrinks has made. It has counters in place of
// bits, and four times the size. With 34,265 URLs more, load -shrinks prints
//
//	1143987 lines read; 1143987 names are in a store of 23455555 bytes and a filter of 6863976, which will let 0.70 % of other names pass.
//	Names can be removed from this filter. One from which they cannot would have 1716064 bytes.
//
// and after 3000 of them were removed, the filter lets 0.69 % pass.
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
	job        string // load, remove, judge or traffic
	db, filter string
	lists      []string // files to load or to remove
	bits       float64
	shrinks    bool // the filter is one that names can be removed from
	top        string
	lookups    int
	cache      int64
}

// parseFlags returns the config. It prints the usage to out if the arguments are wrong.
func parseFlags(args []string, out io.Writer) (config, error) {
	var c config
	if len(args) == 0 {
		return c, errors.New("say what to do: load, remove, judge or traffic; with -h each lists its flags")
	}
	c.job = args[0]
	set := flag.NewFlagSet("blocklist "+c.job, flag.ContinueOnError)
	set.SetOutput(out)
	set.StringVar(&c.db, "db", "", "directory of the store")
	set.StringVar(&c.filter, "filter", "", "file of the filter")
	bad := ""
	switch c.job {
	case "load":
		set.Float64Var(&c.bits, "bits", 12, "bits a name in the filter file; four times as many with -shrinks")
		set.BoolVar(&c.shrinks, "shrinks", false, "make a filter that names can be removed from")
	case "remove":
	case "judge":
		set.Int64Var(&c.cache, "cache", 8<<20, "bytes of the store's block cache")
	case "traffic":
		set.Int64Var(&c.cache, "cache", 8<<20, "bytes of the store's block cache")
		set.StringVar(&c.top, "top", "", "file of the domains that are asked for, the most popular first")
		set.IntVar(&c.lookups, "n", 200_000, "number of questions")
	default:
		return c, fmt.Errorf("%q is neither load nor remove nor judge nor traffic", c.job)
	}
	if err := set.Parse(args[1:]); err != nil {
		return c, err
	}
	c.lists = set.Args()
	switch {
	case c.db == "" || c.filter == "":
		bad = "-db and -filter say where the store and the filter are"
	case (c.job == "load" || c.job == "remove") && len(c.lists) == 0:
		bad = c.job + " needs lists of hosts, mail addresses and URLs"
	case c.job == "load" && !(c.bits >= bloom.MinBits && c.bits <= bloom.MaxBits):
		bad = fmt.Sprintf("-bits is from %g to %g", bloom.MinBits, bloom.MaxBits)
	case c.job != "load" && c.job != "remove" && len(c.lists) > 0:
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
	case "remove":
		return remove(ctx, c, out)
	case "traffic":
		return traffic(ctx, c, out)
	}
	return answer(ctx, c, stdin, out)
}
