// Command fleet is one crawler that finds malicious URLs, and a fleet of checkers that answer whether a URL is one of
// them. They share nothing but a bucket: the crawler writes a store and keeps it in the bucket (remote.Open), and each
// checker reads it from there (remote.OpenReader). At the end the command shows what the checkers have asked the bucket
// for, because that is what an object store charges.
//
// # Try it
//
// In a clone:
//
//	cd remote && go run ./examples/fleet
//
// It makes up URLs, or takes those of -urls FILE, one a line. Half of them are written, and the others are asked for in
// vain. With a list of 34,265 malicious URLs it prints
//
//	              phase  lookups  GETs of tables  a lookup   KiB  segments  steps  other
//	               open        0              12             998        16      8     32
//	       unknown URLs    68532               4    0.0001   256         0      0      0
//	         known URLs    61672              40    0.0006  2079         8      8      0
//	   known URLs again    61672               0    0.0000     0         0      0      0
//	           new URLs     6856               0    0.0000     0        20     12      4
//	a second of nothing        0               0               0        20     20      0
//
// # What it shows
//
//   - Opening costs a GET a table: its filter and its index are local after that.
//   - An absent URL, which is what checkers ask for most, is answered from memory, but for false positives.
//   - A known URL costs a GET of 64 KiB at most, and none if its neighbours were asked for before.
//   - What the crawler finds is with the checkers as soon as the bucket has it: they wait for the sequence number that
//     the crawler tells them.
//   - An idle checker costs two GETs an interval.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
)

func main() {
	o := fleetOptions{Out: os.Stdout}
	flag.StringVar(&o.URLs, "urls", "", "file of URLs, one a line (default: URLs that are made up)")
	flag.IntVar(&o.Made, "n", 40_000, "how many URLs are made up")
	flag.IntVar(&o.Checkers, "checkers", 4, "how many checkers there are")
	flag.StringVar(&o.Bucket, "bucket", "", "directory of the bucket (default: a temporary one)")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, o); err != nil {
		fmt.Fprintln(os.Stderr, "fleet:", err)
		os.Exit(1)
	}
}
