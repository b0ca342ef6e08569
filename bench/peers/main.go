// Command peers runs the same work on shale and on other stores, in one
// process and in turns, and prints medians and ratios. What it is about is
// lookups of absent keys.
//
//	cd bench/peers && go run . -n 5000000
//
// It is a module of its own, so that shale does not depend on its peers.
// README.md says how each of them is set up, and why.
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
		err = run(c, os.Stdout, os.Stderr)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "peers:", err)
		os.Exit(1)
	}
}
