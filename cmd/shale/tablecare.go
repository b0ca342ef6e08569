package main

var (
	filterOptions = []option{
		{name: "bits", arg: "N", help: "bits a key, averaged over the store; 10 if not given"},
		{name: "kind", arg: "KIND", values: []string{"blocked", "fuse"}, help: "of the last level: blocked, or fuse, with fewer false positives in the same memory"},
		{name: "hash", arg: "HASH", values: []string{"murmur3", "xxh3", "siphash"}, help: "murmur3, xxh3, or siphash, for keys that strangers choose"},
	}
	repairOptions = []option{
		{name: "doubtful", help: "also what may be out of date: deleted keys may be back, and overwritten values"},
	}
)

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
			long: "The copy is a store of its own. It takes no time and hardly any space where the file system has hard links.\n" +
				"Beside a program that writes, that program alone can make one."},
	}
}
