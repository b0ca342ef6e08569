// Command peers runs the same work on shale and on other stores, each in
// processes of its own and in turns, and prints medians and ratios.
//
//	cd bench/peers && go run . -n 5000000 -json results.json
//	go run . report results.json -o report.html
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
	if err := command(os.Args[1:]); err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "peers:", err)
		os.Exit(1)
	}
}

func command(args []string) error {
	if path := os.Getenv(specVariable); path != "" {
		return runChild(path)
	}
	if len(args) > 0 && args[0] == "report" {
		return runReport(args[1:])
	}
	c, err := parse(args, os.Stderr)
	if err != nil {
		return err
	}
	return run(&c, os.Stdout, os.Stderr)
}
