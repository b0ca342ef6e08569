package main

var dedupCommandOptions = []option{
	{name: "store", arg: "DIR", help: "the store that remembers; else that of -C"},
	{name: "memory", arg: "SIZE", help: "about how much memory to take: 64M if not given, at least 24M"},
	{name: "hash", help: "remember 16 bytes of each line's SHA-256, not the line: for long lines"},
	{name: "sync", help: "make each batch of lines durable, output first: for crashes of the machine"},
	{name: "quiet", help: "no totals"},
}

func jobCommands() []command {
	return []command{
		{name: "dedup", options: dedupCommandOptions, least: 0, most: 0, access: needsNothing, run: dedup,
			short: "print the lines never seen before, and remember them",
			long: "Reads lines from standard input and prints those that are not in the store, in order and as they came, then adds\n" +
				"them. It goes on where it stopped: a line is printed at least once, and never again after a run that ended well,\n" +
				"or by Ctrl-C. If it is killed, lines of the last batch printed may come again. Lines are compared by their bytes\n" +
				"without \\n or \\r\\n; a line of more than 65,535 bytes by its SHA-256. The lines are the keys of the store, so\n" +
				"that scan and filter read it. With --hash they are not: then a new line is taken for one seen before with a\n" +
				"probability of n/2^128 after n lines (1 in 3·10^29 after a billion). Creates the store."},
	}
}
