package main

var benchOptions = []option{
	{name: "short", help: "few keys, in seconds, to see what a report looks like"},
	{name: "only", arg: "FIGURES", help: "measure these (as F1,F3) and keep the others of an earlier report"},
	{name: "redraw", help: "measure nothing: draw the report anew from its results.json"},
	{name: "keys", arg: "FILE", help: "load the lines of this file in place of those of the Go sources; with --absent"},
	{name: "absent", arg: "FILE", help: "ask for the lines of this file"},
}

func reportCommands() []command {
	return []command{
		{name: "bench", words: "[DIR]", options: benchOptions, least: 0, most: -1, access: needsNothing, run: bench,
			short: "measure what filters save, and make a page of figures",
			long: "Makes stores of its own in a temporary folder, reads them with filters and with filters ignored, and\n" +
				"writes report.html, figures and all numbers into DIR (shale-report if not given). It takes some minutes.\n" +
				"What follows -- is options of the benchmark itself: bench -- -h lists them. The store of -C has no part in it."},
	}
}
