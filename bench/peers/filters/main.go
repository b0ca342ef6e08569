// Command filters runs the same work on shale's filters and on those of other
// libraries, in one process and in turns, and prints medians and ratios.
//
//	cd bench/peers && go run ./filters
//
// README.md of the module says how each of them is set up, and why.
package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
)

func main() {
	c, err := parse(os.Args[1:], os.Stderr)
	if errors.Is(err, flag.ErrHelp) {
		return
	}
	if err == nil {
		err = run(c, contestants(), os.Stdout, os.Stderr)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "filters:", err)
		os.Exit(1)
	}
}
