package main

// A group is a heading of the table of commands.
type group struct {
	title    string
	commands []command
}

var (
	formatOptions = []option{
		{name: "hex", help: "print in hexadecimal"},
		{name: "raw", help: "print the bytes as they are"},
	}
	boundOptions = []option{
		{name: "from", arg: "KEY", help: "from this key on"},
		{name: "to", arg: "KEY", help: "up to this key, which is left out"},
	}
	filterOptions = []option{
		{name: "bits", arg: "N", help: "bits a key, averaged over the store; 10 if not given"},
		{name: "kind", arg: "KIND", help: "of the last level: blocked, or fuse, with fewer false positives in the same memory"},
		{name: "hash", arg: "HASH", help: "murmur3, xxh3, or siphash, for keys that strangers choose"},
	}
	repairOptions = []option{
		{name: "doubtful", help: "also what may be out of date: deleted keys may be back, and overwritten values"},
	}
	scanOptions = join(boundOptions, []option{
		{name: "reverse", help: "from the last key to the first"},
		{name: "limit", arg: "N", help: "stop after N entries"},
		{name: "keys", help: "print no values"},
	}, formatOptions)
)

// table returns the commands. It is a function because help, which is in the
// table, prints it.
func table() []group {
	return []group{
		{"Data", dataCommands()},
		{"Insight", insightCommands()},
		{"Care", careCommands()},
		{"This program", ownCommands()},
	}
}

func dataCommands() []command {
	return []command{
		{name: "get", words: "KEY", options: formatOptions, least: 1, most: 1, keys: 1, access: reads, run: get,
			short: "print the value of a key",
			long:  "Prints the value as a word: bare, or quoted where it has to be. Status 1 if the key is absent."},
		{name: "put", words: "KEY VALUE", least: 2, most: 2, keys: 1, access: creates, run: put,
			short: "set the value of a key",
			long: "Creates the store if it is not there. As the value, a bare - stands for standard input to its\n" +
				"end, byte for byte; not in scripts read from there, nor at the prompt."},
		{name: "del", words: "KEY...", least: 1, most: -1, keys: -1, access: writes, run: del,
			short: "delete keys, all at once",
			long:  "Deletes the keys in one atomic batch. Deleting an absent key is no error."},
		{name: "has", words: "KEY...", least: 1, most: -1, keys: -1, access: reads, run: has,
			short: "tell which keys are there",
			long:  "Prints each key with present or absent. Status 0 if all are there, 1 if any is missing."},
		{name: "may", words: "KEY...", least: 1, most: -1, keys: -1, access: reads, run: may,
			short: "the same by the filters alone, reading nothing",
			long: "Prints each key with maybe or absent. absent is certain; maybe is wrong as often as the filters'\n" +
				"false positive rate says. Status 0 if all may be there, 1 if any is certainly missing."},
		{name: "scan", words: "[PREFIX]", options: scanOptions, least: 0, most: 1, keys: 1, access: reads, run: scan,
			short: "print keys and values in order",
			long: "Prints the entries whose keys start with PREFIX and lie between --from and --to, one a line: key, tab,\n" +
				"value. Status 1 if there are none. `put ` before each line makes a file that batch understands."},
		{name: "count", words: "[PREFIX]", options: boundOptions, least: 0, most: 1, keys: 1, access: reads, run: count,
			short: "count keys",
			long:  "Prints how many keys start with PREFIX and lie between --from and --to. Status 1 if there are none."},
		{name: "batch", words: "FILE", least: 1, most: 1, access: creates, run: batch,
			short: "apply a file of put and del lines, atomically",
			long: "Each line is `put KEY VALUE` or `del KEY...`; empty lines and lines that begin with # are passed\n" +
				"over. Either all is applied, or nothing if a line has an error. A bare - stands for standard input.\n" +
				"A batch of many lines is far faster than as many puts. Creates the store if it is not there."},
	}
}

func insightCommands() []command {
	return []command{
		{name: "explain", words: "KEY", least: 1, most: 1, keys: 1, access: reads, run: explain,
			short: "tell how a get of a key goes: filters, blocks, time",
			long: "Performs the get and prints each memtable, run and table that it looked at or passed over, what the\n" +
				"filter said there, and the blocks that were read. Status 1 if the key is absent."},
		{name: "levels", least: 0, most: 0, access: reads, run: levels,
			short: "the levels of the tree",
			long:  "Prints a line for each level that has tables, and one for the memtables."},
		{name: "tables", words: "[LEVEL]", least: 0, most: 1, access: reads, run: tables,
			short: "the tables, with their key ranges",
			long:  "Prints a line for each table, or each of one level: the newest run of a level (run 0) first."},
		{name: "filters", words: "[LEVEL]", least: 0, most: 1, access: reads, run: filters,
			short: "the filters: bits, false positives, memory",
			long: "Prints for each level, then for each table, the bits a key, the predicted and the measured false\n" +
				"positive rate, and the memory of its filter, and which file it is in. Measured is what happened since the store was opened by\n" +
				"this program, so it needs lookups at the same prompt or in the same script; - stands for none."},
		{name: "filters export", words: "[DIR] FILE", least: 1, most: 2, access: needsNothing, run: exportFilters,
			short: "write all filters into one file, which answers without the store",
			long: "Writes a bundle of the filters of the store, or of that in DIR, as it is at this moment: every key that is\n" +
				"there is answered maybe. The file is replaced as a whole. filters may asks it, as does package bundle in\n" +
				"a program, and go run ./examples/filterserver serves it. Works beside a program that has the store open."},
		{name: "filters may", words: "FILE KEY...", least: 2, most: -1, access: needsNothing, run: mayFilters,
			short: "ask a file of filters, without the store",
			long: "Prints each key with maybe or absent, as may does, by the bundle in FILE alone. absent is certain for the\n" +
				"state of the store that the bundle was made of. Status 0 if all may be there, 1 if any is certainly missing."},
		{name: "metrics", least: 0, most: 0, access: reads, run: metrics,
			short: "the counters since the store was opened",
			long:  "Counts lookups, filters' answers, blocks, writes, and memory, since this program opened the store."},
	}
}

func careCommands() []command {
	return []command{
		{name: "flush", least: 0, most: 0, access: writes, run: flush,
			short: "write the memtables to tables",
			long:  "Writes what is only in the memtables, and the log, to tables."},
		{name: "compact", words: "[PREFIX]", options: boundOptions, least: 0, most: 1, keys: 1, access: writes, run: compact,
			short: "merge tables down to the last level",
			long: "Merges all tables, or those that overlap the keys given, down to the last level, so that deleted and\n" +
				"overwritten entries give their space back."},
		{name: "filters rebuild", words: "[DIR]", options: filterOptions, least: 0, most: 1, access: needsNothing, run: rebuildFilters,
			short: "give tables the filters that the options call for",
			long: "Makes new filters for the tables whose filters are missing, damaged, of another kind or hash function, or\n" +
				"have fewer bits a key than called for, and puts them in files beside the tables: no data is written again.\n" +
				"Programs that open the store later use them, whatever their own options are; tables that they write get\n" +
				"filters as their options say."},
		{name: "check", words: "[DIR]", least: 0, most: 1, access: needsNothing, run: check,
			short: "read and check everything, and list all damage",
			long: "Reads every block of every table, every log and the manifest, and changes nothing: checksums, order,\n" +
				"levels, counts, that every filter, in its table or beside it, knows every key, and the files against the\n" +
				"manifest. It goes on behind damage, and works on a store that does not open. Status 1 if anything is\n" +
				"damaged. Beside a program that writes, the log being written is left out."},
		{name: "repair", words: "[DIR] INTO", options: repairOptions, least: 1, most: 2, access: needsNothing, run: salvage,
			short: "save what can be proven right into a new folder",
			long: "Makes a store in the folder INTO, which must be empty or not be there, of all in DIR that can be proven to\n" +
				"be right: what checks, and of which nothing newer can be lost. Lists what is damaged, and what it has left\n" +
				"out. Filters are made anew. DIR is only read. Status 1 if anything is lost or left."},
		{name: "checkpoint", words: "DIR", least: 1, most: 1, access: writes, run: makeCheckpoint,
			short: "make a copy of the store in a new folder, by hard links",
			long:  "The copy is a store of its own. It takes no time and hardly any space where the file system has hard links."},
	}
}

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
	}
}

// lookup returns the command of a name, or nil.
func lookup(name string) *command {
	for _, g := range table() {
		for i := range g.commands {
			if g.commands[i].name == name {
				return &g.commands[i]
			}
		}
	}
	return nil
}

// commandOf returns the command that words begin with, or nil, and the words
// behind its name, which has one or two of them.
func commandOf(words []word) (*command, []word) {
	if len(words) > 1 && !words[1].literal {
		if c := lookup(words[0].text + " " + words[1].text); c != nil {
			return c, words[2:]
		}
	}
	return lookup(words[0].text), words[1:]
}

func join(lists ...[]option) []option {
	var all []option
	for _, l := range lists {
		all = append(all, l...)
	}
	return all
}
