package main

// promptCommands are those that set how commands are run, or run commands.
func promptCommands() []group {
	return []group{{"Prompt and scripts", []command{
		{name: ".mode", words: "[MODE]", least: 0, most: 1, access: needsNothing, run: setMode,
			values: displayNames,
			short:  "lay out what is printed, or tell how it is laid out",
			long: "text, which is how it begins: tables in columns, keys and values as words with tabs between them\n" +
				"box: drawn with lines, and cut to the width of the terminal\n" +
				"lines: title = value, a line for each\n" +
				"hex: as text, with keys and values in hexadecimal\n" +
				"json: one array of objects; jsonl: an object a line. Sizes are bytes, times seconds, percentages\n" +
				"shares of 1. A key or value that is not UTF-8 is in base64, under its title with 64 behind it.\n" +
				"csv: as RFC 4180 has it, with a line of titles. A key or value is as it is; if it has what can't be\n" +
				"seen, or begins with a quote, it is a quoted word.\n" +
				"tsv: words with tabs between them, with a line of titles\n\n" +
				"--mode MODE does the same for one command, before or behind it."},
		{name: ".timer", words: "[on|off]", least: 0, most: 1, access: needsNothing, run: setTimer,
			short: "tell how long each command took",
			long:  "Prints the time after each command, on standard error. --timer does the same for one command."},
		{name: ".explain", words: "[on|off]", least: 0, most: 1, access: needsNothing, run: setExplain,
			short: "tell in a line how each get went",
			long: "Prints after each get, on standard error, how many places and levels were asked, what their filters said,\n" +
				"the blocks read, and the time. explain KEY tells it place by place."},
		{name: ".watch", words: "TIME COMMAND...", least: 2, most: -1, nested: true, access: needsNothing, run: watch,
			short: "run a command again and again, until Ctrl-C",
			long: "TIME is 500ms, 1s, 1m. Where the store is open read-only, it is opened anew each time, so that what another\n" +
				"program writes is seen."},
		{name: ".source", words: "FILE", least: 1, most: 1, nested: true, access: needsNothing, run: source,
			short: "run the commands in a file",
			long:  "Stops at the first error, which it tells with the line of the file."},
		{name: ".help", words: "[COMMAND]", least: 0, most: 2, access: needsNothing, run: help,
			short: "the same as help"},
		{name: ".quit", least: 0, most: 0, access: needsNothing, run: quit,
			short: "the same as quit"},
	}}}
}
