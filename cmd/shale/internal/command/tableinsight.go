package command

func insightCommands() []Command {
	return []Command{
		{Name: "explain", Words: "KEY", Least: 1, Most: 1, Keys: 1, Access: Reads, Run: explain,
			Short: "tell how a get of a key goes: filters, blocks, time",
			Long: "Performs the get and prints each memtable, run and table that it looked at or passed over, what the\n" +
				"filter said there, and the blocks that were read. Below: what was read in all, the false positives that were\n" +
				"to be expected, and what reading the same tables without filters takes. Status 1 if the key is absent."},
		{Name: "explain get", Words: "KEY", Least: 1, Most: 1, Keys: 1, Access: Reads, Run: explain,
			Short: "the same as explain KEY"},
		{Name: "levels", Least: 0, Most: 0, Access: NeedsNothing, Run: levels,
			Short: "the levels of the tree",
			Long:  "Prints a line for each level that has tables, and one for the memtables."},
		{Name: "tables", Words: "[LEVEL]", Least: 0, Most: 1, Access: NeedsNothing, Run: tables,
			Short: "the tables, with their key ranges",
			Long:  "Prints a line for each table, or each of one level: the newest run of a level (run 0) first."},
		{Name: "filters", Words: "[LEVEL]", Least: 0, Most: 1, Access: Reads, Run: filters,
			Options: []Option{
				{Name: "worst", Arg: "N", help: "only the N with most false positives, measured to predicted"},
				{Name: "probe", Arg: "N", help: "measure anew: ask each filter for N absent keys"},
			},
			Short: "the filters: bits, false positives, memory",
			Long: "Prints for each level, then for each table, the kind of its filter, its hash function, the file that it is\n" +
				"in, the bits a key, its memory, and the predicted and the measured false positive rate. Measured is what\n" +
				"happened since this program opened the store, so it needs lookups at the same prompt or in the same\n" +
				"script, or --probe; - stands for none. The ratio is measured to predicted: 1 is as it should be."},
		{Name: "filters export", Words: "[DIR] FILE", Least: 1, Most: 2, Access: NeedsNothing, Run: exportFilters,
			Short: "write all filters into one file, which answers without the store",
			Long: "Writes a bundle of the filters of the store, or of that in DIR, as it is at this moment: every key that is\n" +
				"there is answered maybe. The file is replaced as a whole. filters may asks it, as does package bundle in\n" +
				"a program, and go run ./examples/filterserver serves it. Works beside a program that has the store open."},
		{Name: "filters may", Words: "FILE KEY...", Least: 2, Most: -1, Access: NeedsNothing, Run: mayFilters,
			Short: "ask a file of filters, without the store",
			Long: "Prints each key with maybe or absent, as may does, by the bundle in FILE alone. absent is certain for the\n" +
				"state of the store that the bundle was made of. Status 0 if all may be there, 1 if any is certainly missing."},
		{Name: "metrics", Least: 0, Most: 0, Access: NeedsNothing, Run: metrics,
			Options: []Option{
				{Name: "watch", Arg: "TIME", help: "print what changes in the store's files every TIME, as 1s"},
				{Name: "times", Arg: "N", help: "end after N times; default: on Ctrl-C"},
			},
			Short: "the counters since the store was opened; --watch: what is written now",
			Long: "Counts lookups, filters' answers, blocks, writes, and memory, since this program opened the store.\n" +
				"--watch looks at the files instead, and so shows what any program writes: writes and bytes of the log a\n" +
				"second, flushes, compactions, and what the tree is then."},
	}
}
