package command

var dedupCommandOptions = []Option{
	{Name: "store", Arg: "DIR", help: "the store that remembers; else that of -C"},
	{Name: "memory", Arg: "SIZE", help: "about how much memory to take: 64M if not given, at least 24M"},
	{Name: "hash", help: "remember 16 bytes of each line's SHA-256, not the line: for long lines"},
	{Name: "sync", help: "make each batch of lines durable, output first: for crashes of the machine"},
	{Name: "skip-long", help: "pass over lines that are too long, and count them"},
	{Name: "quiet", help: "no totals"},
}

var filterLineOptions = []Option{
	{Name: "keep", help: "print the lines that are present; this is so if neither is given"},
	{Name: "drop", help: "print the lines that are absent"},
	{Name: "by", Arg: "PART", help: "line, or host: look up the host of a URL, and the domains above it"},
	{Name: "field", Arg: "N", help: "look at field N only, from 1; fields have spaces or tabs between them"},
	{Name: "separator", Arg: "TEXT", help: "what stands between fields: \",\" or \"\\t\""},
	{Name: "subdomains", help: "also if a domain above the name is present: a.b.org if b.org is"},
	{Name: "quiet", help: "no totals"},
}

func jobCommands() []Command {
	return []Command{
		{Name: "dedup", Options: dedupCommandOptions, Least: 0, Most: 0, Access: NeedsNothing, Run: dedup,
			Short: "print the lines never seen before, and remember them",
			Long: "Reads lines from standard input and prints those that are not in the store, in order and as they came, then adds\n" +
				"them. It goes on where it stopped: a line is printed at least once, and never again after a run that ended well,\n" +
				"by Ctrl-C or SIGTERM. If it is killed, lines of the batch printed last may come again, whole, even if the last was cut.\n" +
				"After a crash of the machine that holds with --sync. Lines are compared by their bytes without \\n or \\r\\n; one\n" +
				"of more than 65,535 bytes by its SHA-256. The lines are the keys of the store, so that scan and filter read it.\n" +
				"With --hash they are not: then a new line is taken for one seen before with a probability of n/2^128 after n\n" +
				"lines (1 in 3·10^29 after a billion). A line may have (SIZE - 14M)/11 bytes, 4.5 MiB if --memory is not given. A\n" +
				"longer one ends the run with status 2; with --skip-long it is neither printed nor remembered, but counted. Creates\n" +
				"the store as put does."},
		{Name: "filter", Words: "[DIR]", Options: filterLineOptions, Least: 0, Most: 1, Access: NeedsNothing, Run: filterLines,
			Short: "print the lines whose keys are in a store, or are not",
			Long: "Reads lines from standard input, asks the store in DIR, or that of -C, for each, and prints those present, or\n" +
				"with --drop those absent, in order and as they came. Totals, and the reads that filters saved, go to standard\n" +
				"error. --by host makes lower case of a host, without user, port and the dot at its end. Works beside a program\n" +
				"that writes the store, with the state of the time when it began. A line may have 64 MiB. Status 1 if no line was\n" +
				"printed."},
	}
}
