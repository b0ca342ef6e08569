package main

func insightCommands() []command {
	return []command{
		{name: "explain", words: "KEY", least: 1, most: 1, keys: 1, access: reads, run: explain,
			short: "tell how a get of a key goes: filters, blocks, time",
			long: "Performs the get and prints each memtable, run and table that it looked at or passed over, what the\n" +
				"filter said there, and the blocks that were read. Below: what was read in all, the false positives that were\n" +
				"to be expected, and what reading the same tables without filters takes. Status 1 if the key is absent."},
		{name: "explain get", words: "KEY", least: 1, most: 1, keys: 1, access: reads, run: explain,
			short: "the same as explain KEY"},
		{name: "levels", least: 0, most: 0, access: needsNothing, run: levels,
			short: "the levels of the tree",
			long:  "Prints a line for each level that has tables, and one for the memtables."},
		{name: "tables", words: "[LEVEL]", least: 0, most: 1, access: needsNothing, run: tables,
			short: "the tables, with their key ranges",
			long:  "Prints a line for each table, or each of one level: the newest run of a level (run 0) first."},
		{name: "filters", words: "[LEVEL]", least: 0, most: 1, access: reads, run: filters,
			options: []option{
				{name: "worst", arg: "N", help: "only the N with most false positives, measured to predicted"},
				{name: "probe", arg: "N", help: "measure anew: ask each filter for N absent keys"},
			},
			short: "the filters: bits, false positives, memory",
			long: "Prints for each level, then for each table, the kind of its filter, its hash function, the file that it is\n" +
				"in, the bits a key, its memory, and the predicted and the measured false positive rate. Measured is what\n" +
				"happened since this program opened the store, so it needs lookups at the same prompt or in the same\n" +
				"script, or --probe; - stands for none. The ratio is measured to predicted: 1 is as it should be."},
		{name: "filters export", words: "[DIR] FILE", least: 1, most: 2, access: needsNothing, run: exportFilters,
			short: "write all filters into one file, which answers without the store",
			long: "Writes a bundle of the filters of the store, or of that in DIR, as it is at this moment: every key that is\n" +
				"there is answered maybe. The file is replaced as a whole. filters may asks it, as does package bundle in\n" +
				"a program, and go run ./examples/filterserver serves it. Works beside a program that has the store open."},
		{name: "filters may", words: "FILE KEY...", least: 2, most: -1, access: needsNothing, run: mayFilters,
			short: "ask a file of filters, without the store",
			long: "Prints each key with maybe or absent, as may does, by the bundle in FILE alone. absent is certain for the\n" +
				"state of the store that the bundle was made of. Status 0 if all may be there, 1 if any is certainly missing."},
		{name: "metrics", least: 0, most: 0, access: needsNothing, run: metrics,
			options: []option{
				{name: "watch", arg: "TIME", help: "print what changes in the store's files every TIME, as 1s"},
				{name: "times", arg: "N", help: "end after N times; default: on Ctrl-C"},
			},
			short: "the counters since the store was opened; --watch: what is written now",
			long: "Counts lookups, filters' answers, blocks, writes, and memory, since this program opened the store.\n" +
				"--watch looks at the files instead, and so shows what any program writes: writes and bytes of the log a\n" +
				"second, flushes, compactions, and what the tree is then."},
	}
}
