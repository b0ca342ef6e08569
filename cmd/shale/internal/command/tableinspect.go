package command

// inspectCommands are those that read the files of a store without opening it.
func inspectCommands() []Command {
	return []Command{
		{Name: "table", Words: "NUMBER [properties|layout|blocks|keys]", Least: 1, Most: 2, Access: NeedsNothing, Run: inspectTable,
			Options: []Option{
				{Name: "from", Arg: "KEY", help: "of keys: begin here"},
				{Name: "to", Arg: "KEY", help: "of keys: end before this one"},
				{Name: "limit", Arg: "N", help: "of keys: at most N"},
			},
			Short: "look into a table: what it says of itself, its parts, blocks, entries",
			Long: "properties, which is what it shows without a word: counts, bounds, sequence numbers, filter\n" +
				"layout: the parts of the file, each read and checked\n" +
				"blocks: the data blocks, with their place, sizes, first key and separator (no key of the block is behind it)\n" +
				"keys: the entries, with sequence numbers and kinds: versions that a newer one hides and deletions too\n\n" +
				"The file is read alone: the store may be damaged, or open in another program. Status 1 if the table is\n" +
				"damaged; what is readable is shown."},
		{Name: "wal", Words: "[NUMBER]", Least: 0, Most: 1, Access: NeedsNothing, Run: logs,
			Options: []Option{{Name: "last", Arg: "N", help: "of the records of a log: the last N operations"}},
			Short:   "the logs, or the operations in one",
			Long: "Prints a line for each log: whether it is needed, its records, operations and sequence numbers, and how it\n" +
				"ends. With a NUMBER it prints the operations of that log. A torn end is what a crash leaves: it was never\n" +
				"promised, and does not count. Status 1 if something is damaged."},
		{Name: "manifest", Words: "[NUMBER]", Least: 0, Most: 1, Access: NeedsNothing, Run: manifestEdits,
			Options: []Option{{Name: "last", Arg: "N", help: "only the last N edits"}},
			Short:   "the changes of the store: flushes, compactions, logs",
			Long: "Prints the edits of the manifest in force, or of manifest NUMBER, in order: which tables went and came,\n" +
				"and what became of logs. A manifest begins with a snapshot, so it tells what happened since the store\n" +
				"was opened for writing. Status 1 if it is damaged."},
		{Name: "find", Words: "KEY", Least: 1, Most: 1, Keys: 1, Access: NeedsNothing, Run: find,
			Short: "all versions of a key in all files, and which of them a get sees",
			Long: "Looks into every log and table, those too that nothing names any more. Filters are not asked, but what they\n" +
				"would say is counted. Status 1 if a get would not find the key."},
		{Name: "space", Least: 0, Most: 0, Access: NeedsNothing, Run: space,
			Short: "where the bytes are: levels, logs, what is dead",
			Long: "Prints the files by what they are for. What is dead is estimated: of some blocks of each table the keys are\n" +
				"asked of the filters of the newer tables. Amplification of writes is that of the manifest in force."},
		{Name: "tree", Words: "[-o] FILE", Least: 1, Most: 2, Access: NeedsNothing, Run: tree,
			Options: []Option{
				{Name: "by", Arg: "bits|fpr|size", help: "what colours stand for; default bits"},
				{Name: "last", Arg: "N", help: "of .html: the last N changes; default 1000"},
			},
			Short: "draw the tables over the keys: FILE.svg or FILE.html",
			Long: "Draws a row for each run, newest first, and a bar for each table from its smallest key to its largest. The\n" +
				"place of a key is its rank: half of the picture is half of the entries. The page has all in one file, works\n" +
				"without a network, and shows each change of the manifest in force: what came and what went."},
	}
}
