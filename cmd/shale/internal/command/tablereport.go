package command

var benchOptions = []Option{
	{Name: "keys", Arg: "FILE", help: "load the lines of this file instead of those of the Go sources; with --absent"},
	{Name: "absent", Arg: "FILE", help: "ask for the lines of this file"},
}

func reportCommands() []Command {
	return []Command{
		{Name: "bench", Options: benchOptions, Least: 0, Most: -1, Access: NeedsNothing, Run: bench,
			Short: "measure how much reading the filters save",
			Long: "Makes a store of its own in a temporary folder, reads it with filters and with filters ignored, and\n" +
				"prints what the lookups of absent and of present keys cost. It takes half a minute and does not use\n" +
				"the store of -C. After -- come options of the benchmark itself: bench -- -h lists them."},
	}
}
