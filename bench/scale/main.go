// Command scale measures what calls cost in stores of different sizes.
//
//	go run ./bench/scale
//
// makes stores of 1,000, 10,000 and 100,000 tables, and prints a table with a row for each
// call and a column for each store. Behind each figure stands how many times that of the
// smallest store it is. A cost that does not depend on the size of the store has ratios
// near 1. Options:
//
//	-tables 1000,100000   numbers of tables
//	-keys 1000000,100000000
//	                      stores with tables of the usual size, by their numbers of keys
//	-dir DIR -keep        keep the stores in DIR, and use those that are there already
//	-rows 'Get|Seek'      measure the rows that this regular expression matches
//
// The tables are real files, but small ones: 32 entries of 128 bytes. With memtables that
// are smaller in proportion, the planner of compactions sees a store of tables of 16 MiB
// on a scale of 1 to 4096. So 100,000 tables stand for 1.6 TB, in half a gigabyte.
//
// Calls that wait for nothing are measured by the processor time of their thread, where the
// system tells it, and all others by the clock.
//
// A tenth of the tables is in the last level but one, and the rest in the last level. The
// stores have no automatic compactions, so that they stay like this.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	defer stop()
	context.AfterFunc(ctx, stop) // a second signal ends the program at once
	if dir := os.Getenv(childVariable); dir != "" {
		exit(runChild(dir, os.Stdout))
		return
	}
	c, err := parse(os.Args[1:], os.Stdout)
	if err == nil {
		err = run(ctx, c, os.Stdout, os.Stderr)
	}
	exit(err)
}

// exit ends the program with status 1 if there is an error to print.
func exit(err error) {
	if err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "scale:", err)
		os.Exit(1)
	}
}
