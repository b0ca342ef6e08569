package command

var (
	filterOptions = []Option{
		{Name: "bits", Arg: "N", help: "bits a key, averaged over the store; 10 if not given"},
		{Name: "kind", Arg: "KIND", Values: []string{"blocked", "fuse"}, help: "of the last level: blocked, or fuse, with fewer false positives in the same memory"},
		{Name: "hash", Arg: "HASH", Values: []string{"murmur3", "xxh3", "siphash"}, help: "murmur3, xxh3, or siphash, for keys that strangers choose"},
	}
	repairOptions = []Option{
		{Name: "doubtful", help: "also what may be out of date: deleted keys may be back, and overwritten values"},
	}
)

func careCommands() []Command {
	return []Command{
		{Name: "flush", Least: 0, Most: 0, Access: writes, Run: flush,
			Short: "write the memtables to tables",
			Long:  "Writes what is only in the memtables, and the log, to tables."},
		{Name: "compact", Words: "[PREFIX]", Options: boundOptions, Least: 0, Most: 1, Keys: 1, Access: writes, Run: compact,
			Short: "merge tables down to the last level",
			Long: "Merges all tables, or those that overlap the keys given, down to the last level, so that deleted and\n" +
				"overwritten entries give their space back."},
		{Name: "filters rebuild", Words: "[DIR]", Options: filterOptions, Least: 0, Most: 1, Access: NeedsNothing, Run: rebuildFilters,
			Short: "give tables the filters that the options call for",
			Long: "Makes new filters for the tables whose filters are missing, damaged, of another kind or hash function, or\n" +
				"have fewer bits a key than called for, and puts them in files beside the tables: no data is written again.\n" +
				"Programs that open the store later use them, whatever their own options are; tables that they write get\n" +
				"filters as their options say."},
		{Name: "check", Words: "[DIR]", Least: 0, Most: 1, Access: NeedsNothing, Run: check,
			Short: "read and check everything, and list all damage",
			Long: "Reads every block of every table, every log and the manifest, and changes nothing: checksums, order,\n" +
				"levels, counts, that every filter, in its table or beside it, knows every key, and the files against the\n" +
				"manifest. It goes on behind damage, and works on a store that does not open. Status 1 if anything is\n" +
				"damaged. Beside a program that writes, the log being written is left out."},
		{Name: "repair", Words: "[DIR] INTO", Options: repairOptions, Least: 1, Most: 2, Access: NeedsNothing, Run: salvage,
			Short: "save what can be proven right into a new folder",
			Long: "Makes a store in the folder INTO, which must be empty or not be there, of all in DIR that can be proven to\n" +
				"be right: what checks, and of which nothing newer can be lost. Lists what is damaged, and what it has left\n" +
				"out. Filters are made anew. DIR is only read. Status 1 if anything is lost or left."},
		{Name: "checkpoint", Words: "DIR", Least: 1, Most: 1, Access: writes, Run: makeCheckpoint,
			Short: "make a copy of the store in a new folder, by hard links",
			Long: "The copy is a store of its own. It takes no time and hardly any space where the file system has hard links.\n" +
				"Beside a program that writes, that program alone can make one."},
	}
}
