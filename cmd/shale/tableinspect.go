package main

// inspectCommands are those that read the files of a store without opening it.
func inspectCommands() []command {
	return []command{
		{name: "table", words: "NUMBER [properties|layout|blocks|keys]", least: 1, most: 2, access: needsNothing, run: inspectTable,
			options: []option{
				{name: "from", arg: "KEY", help: "of keys: begin here"},
				{name: "to", arg: "KEY", help: "of keys: end before this one"},
				{name: "limit", arg: "N", help: "of keys: at most N"},
			},
			short: "look into a table: what it says of itself, its parts, blocks, entries",
			long: "properties, which is what it shows without a word: counts, bounds, sequence numbers, filter\n" +
				"layout: the parts of the file, each read and checked\n" +
				"blocks: the data blocks, with their place, sizes, first key and separator (no key of the block is behind it)\n" +
				"keys: the entries, with sequence numbers and kinds: versions that a newer one hides and deletions too\n\n" +
				"The file is read alone: the store may be damaged, or open in another program. Status 1 if the table is\n" +
				"damaged; what is readable is shown."},
		{name: "wal", words: "[NUMBER]", least: 0, most: 1, access: needsNothing, run: logs,
			options: []option{{name: "last", arg: "N", help: "of the records of a log: the last N operations"}},
			short:   "the logs, or the operations in one",
			long: "Prints a line for each log: whether it is needed, its records, operations and sequence numbers, and how it\n" +
				"ends. With a NUMBER it prints the operations of that log. A torn end is what a crash leaves: it was never\n" +
				"promised, and does not count. Status 1 if something is damaged."},
		{name: "manifest", words: "[NUMBER]", least: 0, most: 1, access: needsNothing, run: manifestEdits,
			options: []option{{name: "last", arg: "N", help: "only the last N edits"}},
			short:   "the changes of the store: flushes, compactions, logs",
			long: "Prints the edits of the manifest in force, or of manifest NUMBER, in order: which tables went and came,\n" +
				"and what became of logs. A manifest begins with a snapshot, so it tells what happened since the store\n" +
				"was opened for writing. Status 1 if it is damaged."},
		{name: "find", words: "KEY", least: 1, most: 1, keys: 1, access: needsNothing, run: find,
			short: "all versions of a key in all files, and which of them a get sees",
			long: "Looks into every log and table, those too that nothing names any more. Filters are not asked, but what they\n" +
				"would say is counted. Status 1 if a get would not find the key."},
		{name: "space", least: 0, most: 0, access: needsNothing, run: space,
			short: "where the bytes are: levels, logs, what is dead",
			long: "Prints the files by what they are for. What is dead is estimated: of some blocks of each table the keys are\n" +
				"asked of the filters of the newer tables. Amplification of writes is that of the manifest in force."},
		{name: "tree", words: "[-o] FILE", least: 1, most: 2, access: needsNothing, run: tree,
			options: []option{
				{name: "by", arg: "bits|fpr|size", help: "what colours stand for; default bits"},
				{name: "last", arg: "N", help: "of .html: the last N changes; default 1000"},
			},
			short: "draw the tables over the keys: FILE.svg or FILE.html",
			long: "Draws a row for each run, newest first, and a bar for each table from its smallest key to its largest. The\n" +
				"place of a key is its rank: half of the picture is half of the entries. The page has all in one file, works\n" +
				"without a network, and shows each change of the manifest in force: what came and what went."},
	}
}
