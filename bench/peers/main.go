// Command peers runs the same work on shale and on other stores, each in
// processes of its own and in turns, and prints medians and ratios.
//
//	cd bench/peers && go run . -n 5000000 -json results.json
//	go run . report results.json
//
// It is a module of its own, so that shale does not depend on its peers.
// README.md says how each of them is set up, and why.
package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"

	"github.com/shaledb/shale/bench/peers/internal/results"
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
		return report(args[1:], os.Stdout)
	}
	c, err := parse(args, os.Stderr)
	if err != nil {
		return err
	}
	return run(&c, os.Stdout, os.Stderr)
}

// report prints the tables of an earlier run.
func report(args []string, out io.Writer) error {
	if len(args) != 1 {
		return errors.New("usage: peers report results.json")
	}
	f, err := results.Read(args[0])
	if err != nil {
		return err
	}
	if len(f.Runs) == 0 {
		return fmt.Errorf("%s: no results", args[0])
	}
	printTable(out, f)
	return nil
}
