package main

var benchOptions = []option{
	{name: "keys", arg: "FILE", help: "load the lines of this file instead of those of the Go sources; with --absent"},
	{name: "absent", arg: "FILE", help: "ask for the lines of this file"},
}

func reportCommands() []command {
	return []command{
		{name: "bench", options: benchOptions, least: 0, most: -1, access: needsNothing, run: bench,
			short: "measure how much reading the filters save",
			long: "Makes a store of its own in a temporary folder, reads it with filters and with filters ignored, and\n" +
				"prints what the lookups of absent and of present keys cost. It takes half a minute and does not use\n" +
				"the store of -C. After -- come options of the benchmark itself: bench -- -h lists them."},
	}
}
