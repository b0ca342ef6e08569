package main

import (
	"bytes"
	"flag"
	"fmt"
	"os"

	"github.com/shaledb/shale/bench/peers/internal/report"
	"github.com/shaledb/shale/bench/peers/internal/results"
)

// runReport draws the results in a file.
func runReport(args []string) error {
	f := flag.NewFlagSet("peers report", flag.ContinueOnError)
	out := f.String("o", "report.html", "`file` to write")
	f.Usage = func() {
		fmt.Fprintln(f.Output(), "usage: peers report [-o report.html] results.json")
		f.PrintDefaults()
	}
	if err := f.Parse(args); err != nil {
		return err
	}
	// The file may stand before the flags too.
	name := f.Arg(0)
	if f.NArg() > 1 {
		if err := f.Parse(f.Args()[1:]); err != nil {
			return err
		}
	}
	if name == "" || f.NArg() > 1 {
		f.Usage()
		return fmt.Errorf("report: want one file of results")
	}
	file, err := results.Read(name)
	if err != nil {
		return err
	}
	var page bytes.Buffer
	if err := report.Write(&page, file); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return os.WriteFile(*out, page.Bytes(), 0o644)
}
