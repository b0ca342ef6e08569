package main

func ownCommands() []command {
	return []command{
		{name: "reopen", least: 0, most: 0, access: needsNothing, run: reopen,
			short: "open the store anew",
			long: "Beside a program that writes, a read-only prompt shows the state of the time when it opened the\n" +
				"store. reopen shows the newest, and opens for writing if that has become possible."},
		{name: "help", words: "[COMMAND]", least: 0, most: 2, access: needsNothing, run: help,
			short: "list the commands, or explain one"},
		{name: "quit", least: 0, most: 0, access: needsNothing, run: quit,
			short: "leave; Ctrl-D does the same"},
		{name: "exit", least: 0, most: 0, access: needsNothing, run: quit,
			short: "the same as quit"},
	}
}
