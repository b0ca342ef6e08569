// Command bench measures how much I/O filters save on lookups of absent keys.
//
//	go run ./bench
//
// prints a table in one or two minutes; package internal/benchmark says how it measures.
// For figures: cd bench/report && go run . -o DIR
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/shaledb/shale/internal/benchmark"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	defer stop()
	context.AfterFunc(ctx, stop) // a second one has its usual effect
	if err := benchmark.Run(ctx, os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}
